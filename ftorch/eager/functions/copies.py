"""``torch.view_copy`` and its kind: the views' functions with results of their own memory."""

from __future__ import annotations

from ..bindings.outputs import write_same
from ..core import api
from ..core.composite import composite
from ..core.formats import contiguous_format
from ..tensor import Tensor

VIEWS = """alias as_strided detach diagonal expand permute select slice squeeze t transpose
unfold unsqueeze view view_as_complex view_as_real split split_with_sizes unbind""".split()

# Views that are no public function or method.
_SPECIAL = {
    "alias": lambda x: x.view(x.shape),
    "slice": lambda x, dim=0, start=None, end=None, step=1: x.movedim(dim, 0)[
        slice(start, end, step)
    ].movedim(0, dim),
}


def _view(name):
    if name in _SPECIAL:
        return _SPECIAL[name]
    return getattr(Tensor, name, None) or getattr(api, name)


def _declare(name):
    def function(input, *args, out=None, **kwargs):
        result = _view(name)(input, *args, **kwargs)
        if isinstance(result, Tensor):
            if out is None:
                return result.clone(memory_format=contiguous_format)
            write_same(result, out)
            return out
        if out is None:
            return tuple(r.clone(memory_format=contiguous_format) for r in result)
        if len(out) != len(result):
            raise RuntimeError(
                f"{name}_copy: expected an out= of {len(result)} tensors, got {len(out)}"
            )
        for r, o in zip(result, out):
            write_same(r, o)
        return None

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"What ``{name}`` gives, in memory of its own."
    return composite()(function)


@composite("function method")
def narrow_copy(input, dim, start, length, *, out=None):
    """What ``narrow`` gives, in memory of its own.

    Raises:
        RuntimeError: for a part that reaches beyond the dimension, or another dtype of ``out``.
        IndexError: for a start that is out of range.

    >>> import ftorch as torch
    >>> torch.narrow_copy(torch.arange(4), 0, 1, 2)
    tensor([1, 2])
    """
    checks = {}
    if input.ndim:
        checks["dim < static_cast<int64_t>(self_sizes.size())"] = dim < input.ndim
    if out is not None:
        checks["self.dtype() == output.dtype()"] = input.dtype is out.dtype
    for condition, holds in checks.items():
        if not holds:
            raise RuntimeError(
                f"Expected {condition} to be true, but got false.  (Could this error message be "
                "improved?  If so, please report an enhancement request to PyTorch.)"
            )
    if length < 0 and -input.ndim <= dim and -input.shape[dim] <= start <= input.shape[dim]:
        start += input.shape[dim] if start < 0 else 0
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({input.shape[dim]})."
        )
    result = input.narrow(dim, start, length)
    if out is None:
        return result.clone(memory_format=contiguous_format)
    write_same(result, out)
    return out


for _name in VIEWS:
    _declare(_name)
