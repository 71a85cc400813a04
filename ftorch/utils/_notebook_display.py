"""How modules and tensors look in Jupyter: modules as a tree to open and close, matrices as tables.

PyTorch's classes have no ``_repr_html_``, and a class here has no name that PyTorch's lacks: IPython's formatters are told
instead, where a notebook imports the package. What this does not show well (other tensors, classes with a ``__repr__`` or
``_repr_html_`` of their own) looks as it says itself. Texts stay PyTorch's.
"""

from __future__ import annotations

import html
import sys

from ..eager.call.op import to_numpy
from ..eager.core import device as _device
from ..eager.runtime.executor import IMMEDIATE
from ..eager.tensor import PLAIN, Tensor, modes
from ..eager.tensor_api.printing import table

_MOST = 1000  # modules of one tree
_NUMBER = "text-align: right; font-variant-numeric: tabular-nums"


def register(shell=None) -> None:
    """Tells the formatters of an IPython shell (the running one) about tensors and modules; nothing where there is none."""
    if shell is None and "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
    if shell is None:
        return
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(Tensor, _shown_by(tensor_html, "_repr_html_"))
    for package in ("ftorch", "torch"):  # where modules are imported later, maybe under PyTorch's name
        formatter.for_type_by_name(f"{package}.nn.modules.module", "Module", _shown_by(module_html, "_repr_html_"))


def _shown_by(function, own):
    def show(value):
        method = getattr(type(value), own, None)
        return function(value) if method is None else method(value)

    return show


# --- tensors ---------------------------------------------------------------------------


def tensor_html(t) -> str | None:
    """A matrix as a table under a line that says what it is; None for any other tensor.

    >>> import ftorch as torch
    >>> print(tensor_html(torch.eye(2))[:42])
    <div><code>[2, 2] float32 cpu</code></div>
    >>> tensor_html(torch.zeros(3)) is None
    True
    """
    if type(t) not in PLAIN and type(t).__name__ != "Parameter" or t.dim() != 2 or not t.numel():
        return None
    g = t._ftorch_geometry
    if modes.differentiating or t._ftorch_storage.trace is IMMEDIATE or g.device is _device.META:
        return None
    rows, columns, cells = table(to_numpy(t))
    says = [str(list(t.shape)), str(t.dtype).rpartition(".")[2], str(t.device)]
    if t.grad_fn is not None:
        says.append(f"grad_fn=<{type(t.grad_fn).__name__}>")
    elif t.requires_grad:
        says.append("requires_grad")
    head = "".join(f"<th>{j}</th>" for j in columns)
    body = "".join(
        f"<tr><th>{i}</th>" + "".join(f'<td style="{_NUMBER}">{text}</td>' for text in row) + "</tr>"
        for i, row in zip(rows, cells, strict=True)
    )
    return (
        f"<div><code>{html.escape(' '.join(says))}</code></div>"
        f'<div style="overflow-x: auto"><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


# --- modules ---------------------------------------------------------------------------


def module_html(module) -> str | None:
    """A module's tree, each level to be opened: how many parameters, of which shapes; None for one with a text of its own.

    >>> import ftorch as torch
    >>> "<b>Linear</b>" in module_html(torch.nn.Sequential(torch.nn.Linear(2, 3)))
    True
    """
    from ..nn import Module

    plain = (Module.__repr__, *(getattr(c, "__repr__", None) for c in _containers()))
    if type(module).__repr__ not in plain:
        return None
    left = [_MOST]
    return f'<div style="font-size: 90%">{_level("", module, left, opened=True)}</div>'


def _containers():
    """Classes of PyTorch's whose texts only shorten those of what they hold."""
    from ..nn import ModuleList, ParameterDict, ParameterList

    return ModuleList, ParameterList, ParameterDict


def _level(name, module, left, opened=False):
    left[0] -= 1
    if left[0] < 0:
        return "" if left[0] < -1 else "<div>...</div>"
    extra = module.extra_repr()
    title = f"({html.escape(name)}): " if name else ""
    title += f"<b>{html.escape(module._get_name())}</b>"
    title += f"({html.escape(extra)})" if extra and "\n" not in extra else ""
    title += f' <span style="opacity: .6">{_counted(list(module.parameters()))}</span>'
    inside = _tensors(module) + "".join(_level(k, m, left) for k, m in module.named_children())
    if not inside:
        return f'<div style="margin-left: 1.1em">{title}</div>'
    attribute = ' open=""' if opened else ""
    return (
        f"<details{attribute}><summary>{title}</summary>"
        f'<div style="margin-left: 1.5em">{inside}</div></details>'
    )


def _counted(parameters):
    """How many numbers the parameters are, and how many of them do not train."""
    if not parameters:
        return ""
    if any(_is_lazy(p) for p in parameters):
        return "parameters not yet known"
    count = sum(p.numel() for p in parameters)
    fixed = sum(p.numel() for p in parameters if not p.requires_grad)
    text = f"{count:,} parameter{'s' * (count != 1)}"
    return text + (", none trains" if fixed == count else f", {fixed:,} do not train" if fixed else "")


def _is_lazy(tensor):
    return type(tensor).__name__.startswith("Uninitialized")


def _tensors(module):
    """The module's own parameters and buffers, a line each."""
    rows = ""
    for kind, named in (
        ("", module.named_parameters(recurse=False)),
        ("buffer", module.named_buffers(recurse=False)),
    ):
        for name, t in named:
            shape = "?" if _is_lazy(t) else str(list(t.shape))
            says = [kind] if kind else [] if t.requires_grad else ["does not train"]
            dtype = str(t.dtype).rpartition(".")[2]
            says += [str(t.device)] if t.device.type != "cpu" else []
            rows += (
                f'<tr><td style="text-align: left"><code>{html.escape(name)}</code></td><td style="{_NUMBER}">{shape}</td>'
                f'<td>{dtype}</td><td>{", ".join(says)}</td></tr>'
            )
    return f"<table><tbody>{rows}</tbody></table>" if rows else ""
