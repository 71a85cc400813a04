"""`FlopCounterMode`: how many floating-point operations a piece of code takes.

Counted are products of matrices, convolutions, attention and recurrent layers (on the CPU as far as PyTorch counts them
there); a multiplication with an addition counts twice, everything else not at all.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict

from .._ops import ops
from ..eager.tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_leaves
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry: dict = {}  # an operator of ``torch.ops``, or the name of one -> its formula


def _shapes(value):
    """A formula's argument: shapes for tensors, also in lists and tuples."""
    if isinstance(value, Tensor):
        return value.shape
    if isinstance(value, (list, tuple)):
        return type(value)(map(_shapes, value)) if type(value) in (list, tuple) else value
    return value


def _on_shapes(formula):
    def counted(*args, out_val=None, **kwargs):
        shapes = {name: _shapes(value) for name, value in kwargs.items()}
        return formula(*map(_shapes, args), out_shape=_shapes(out_val), **shapes)

    return counted


def register_flop_formula(targets, get_raw=False):
    """Registers the formula of operators: ``formula(*shapes, out_shape=None, **kwargs) -> int``.

    Args:
        targets: an operator of ``torch.ops``, or several.
        get_raw: the formula is given the tensors, and the result as ``out_val``.
    """

    def register(formula):
        counted = formula if get_raw else _on_shapes(formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = counted
        return formula

    return register


# --- formulas --------------------------------------------------------------------------
# The backward pass of a product is one product of the same size for each gradient wanted; sums over
# the batch (of a bias) are not counted.


def _product(a, b):
    """Of ``a @ b`` by shapes; products with a vector on the right are not counted."""
    if len(b) < 2:
        return 0
    columns = b[-1]
    rows = a[-2] if len(a) > 1 else 1
    if len(a) > 2 and len(b) <= 2:
        batch = math.prod(a[:-2])
    else:
        pairs = zip(reversed(a[:-2]), reversed(b[:-2]))
        shorter = min(len(a[:-2]), len(b[:-2]))
        longer = a[:-2] if len(a) >= len(b) else b[:-2]
        batch = math.prod(max(x, y) for x, y in pairs) * math.prod(longer[: len(longer) - shorter])
    return 2 * batch * rows * a[-1] * columns


@register_flop_formula(["mm", "bmm", "matmul"])
def mm_flop(a, b, *args, out_shape=None, **kwargs):
    return _product(a, b)


@register_flop_formula(["addmm", "baddbmm", "addbmm"])
def addmm_flop(start, a, b, *args, out_shape=None, **kwargs):
    return _product(a, b)


@register_flop_formula("linear")
def linear_flop(x, weight, *args, out_shape=None, **kwargs):
    return 2 * math.prod(x) * (weight[0] if len(weight) > 1 else 1)


@register_flop_formula(["conv1d", "conv2d", "conv3d"])
def conv_flop(x, weight, *args, out_shape, **kwargs):
    batch = math.prod(out_shape) // math.prod(out_shape[-(len(weight) - 1):])
    return 2 * batch * math.prod(out_shape[-(len(weight) - 2):]) * math.prod(weight)


@register_flop_formula(["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"])
def conv_transpose_flop(x, weight, *args, out_shape, **kwargs):
    batch = math.prod(x) // math.prod(x[-(len(weight) - 1):])
    return 2 * batch * math.prod(x[-(len(weight) - 2):]) * math.prod(weight)


@register_flop_formula("_scaled_dot_product_attention")
def sdpa_flop(query, key, value, *args, out_shape=None, **kwargs):
    pairs = math.prod(query[:-1]) * key[-2]
    return 2 * pairs * (query[-1] + value[-1])


@register_flop_formula("_scaled_dot_product_attention_backward", get_raw=True)
def sdpa_backward_flop(query, key, value, *args, out_val=None, **kwargs):
    # The scores again, where they were not kept, then the gradients of the weights, queries, keys and values.
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    again = not _keeps_weights(query, key, args)
    return 2 * pairs * ((2 + again) * query.shape[-1] + 2 * value.shape[-1])


def _keeps_weights(query, key, read):
    """Whether attention was made of products, by what its gradient reads besides queries, keys and values: a mask that
    wants a gradient, or a dropout's factors, of which there is one for each weight. The last is the result's gradient."""
    shape = (*query.shape[:-1], key.shape[-2])
    return any(t.requires_grad or (t.shape == shape and t.dtype is query.dtype) for t in read[:-1])


@register_flop_formula("einsum", get_raw=True)
def einsum_flop(equation, *tensors, out_val=None, **kwargs):
    tensors = tree_leaves(tensors)
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2 or "." in left or not (set(left) - {","} - set(right)):
        return 0  # of more than two operands each step is a call
    sizes = {c: n for term, t in zip(terms, tensors) for c, n in zip(term, t.shape)}
    return 2 * math.prod(sizes.values())


def _recurrent(x, w_ih, w_hh, w_hr=None):
    rows = math.prod(x[:-1])
    return 2 * rows * (math.prod(w_ih) + math.prod(w_hh) + (math.prod(w_hr) if w_hr else 0))


@register_flop_formula(["_lstm_layer", "_lstm_layer_backward"])
def lstm_flop(x, hx, cx, w_ih, w_hh, *args, out_shape=None, **kwargs):
    return _recurrent(x, w_ih, w_hh)


@register_flop_formula(["_rnn_layer", "_rnn_layer_backward"])
def rnn_flop(x, hx, w_ih, w_hh, *args, out_shape=None, **kwargs):
    return _recurrent(x, w_ih, w_hh)


# A backward op reads only what the gradients that are wanted need: the operands' shapes are found
# among those of what it reads and of what it gives.


def _register_backward(names, formula):
    def counted(*args, out_val=None, **kwargs):
        *read, grad = map(_shapes, args)
        given = [t.shape for t in tree_leaves(out_val) if isinstance(t, Tensor)]
        return formula(read, grad, given)

    register_flop_formula([f"{name}_backward" for name in names], get_raw=True)(counted)


def _product_backward(read, grad, given):
    if len(read) == 2:
        return _product(*read) * sum(shape in read for shape in given)
    (one,) = read
    (other,) = [shape for shape in given if len(shape) >= 2] or [()]
    if len(one) < 2 or len(other) < 2:
        return 0
    if one[-1] != grad[-1]:  # the left operand, and the gradient of the right one
        inner = one[-1]
    elif one[-2] != grad[-2]:
        inner = one[-2]
    else:  # a square matrix is what is given
        inner = other[-1]
    return 2 * math.prod(grad) * inner


def _linear_backward(read, grad, given):
    features = read[0][-1]
    return 2 * math.prod(grad) * features * sum(shape[-1:] == (features,) for shape in given
                                                if len(shape) > 1)


def _conv_backward(read, grad, given):
    x = read[0]
    weight = read[1] if len(read) == 2 else given[0]
    groups = x[-len(weight) + 1] // weight[1]
    # PyTorch counts the weight's gradient as that of a convolution without groups.
    wanted = sum(1 if shape == x else groups if shape == weight else 0 for shape in given)
    return wanted * conv_flop(x, weight, out_shape=grad)


def _conv_transpose_backward(read, grad, given):
    x = read[0]
    weight = read[1] if len(read) == 2 else given[0]
    wanted = sum(shape in (x, weight) for shape in given)
    return wanted * conv_transpose_flop(x, weight, out_shape=grad)


_register_backward(
    ["mm", "bmm", "matmul", "addmm", "baddbmm", "addbmm"], _product_backward
)
_register_backward(["linear"], _linear_backward)
_register_backward(["conv1d", "conv2d", "conv3d"], _conv_backward)
_register_backward([f"conv_transpose{n}d" for n in (1, 2, 3)], _conv_transpose_backward)


# --- the mode --------------------------------------------------------------------------

suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number):
    """The unit in which a number is shown: one smaller than what would fit."""
    digits = len(str(number))
    return suffixes[max(0, min(len(suffixes) - 1, (digits - 2) // 3))]


def convert_num_with_suffix(number, suffix):
    """``1,234`` thousand as ``"1.234K"`` where the suffix is K."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def _shown(number, suffix):
    # Without a suffix it is a number to the table, which leaves zeros out.
    return f"{number:g}" if not suffix else convert_num_with_suffix(number, suffix)


def convert_to_percent_str(num, denom):
    return f"{num / denom:.2%}" if denom else "0%"


def _counted_as(name, args, out) -> str | None:
    """The operator of PyTorch's that does the work of a call, None for those that it does not count.

    On the CPU those are LSTMs, and attention but where it is made of products (for a dropout, or a mask's gradient).
    """
    first = next((t for t in args if isinstance(t, Tensor)), None)
    if first is not None and first.device.type == "cpu":
        if name == "_scaled_dot_product_attention":
            return "bmm" if _is_of_products(*args) else None
        if name == "_scaled_dot_product_attention_backward":
            query, key, _, *read = args
            return "bmm" if _keeps_weights(query, key, read) else None
        if name in ("_lstm_layer", "_lstm_layer_backward"):
            return None
    if name.startswith("conv") and name[-2:] != "nd":
        return "convolution_backward" if name.endswith("_backward") else "convolution"
    base = name.removesuffix("_backward")
    if base == "einsum":
        return "bmm"
    if base != name and base in ("mm", "bmm", "matmul", "addmm", "baddbmm", "addbmm", "linear"):
        wide = any(t.dim() > 2 for t in tree_leaves(out) if isinstance(t, Tensor))
        return "bmm" if wide and base != "linear" and base != "addmm" else "mm"
    return name


def _is_of_products(query, key, value, mask=None, dropped=None, *rest):
    """Whether PyTorch's attention on the CPU is made of products: with dropout, or with a mask that wants a gradient."""
    return dropped is not None or (mask is not None and mask.requires_grad)


class _Backward(str):
    """An operator of PyTorch's that has no packet here: those of gradients are made for each call."""

    __repr__ = str.__str__


class _Count(TorchDispatchMode):
    def __init__(self, counter):
        self.counter = counter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.counter._count(func.overloadpacket, args, kwargs, out)
        return out


class FlopCounterMode:
    """Counts the floating-point operations of what runs in its block, by module and operator.

    Args:
        depth: how deep modules are listed in the table.
        display: whether the table is printed at the end.
        custom_mapping: {operator: formula}, as for `register_flop_formula`.

    >>> import ftorch as torch
    >>> from ftorch.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = torch.nn.Linear(3, 4)(torch.ones(2, 3))
    >>> counter.get_total_flops()
    48
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.flop_counts: dict[str, dict] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.flop_registry = dict(flop_registry)
        for target, formula in (custom_mapping or {}).items():
            raw = getattr(formula, "_get_raw", False)
            self.flop_registry[target] = formula if raw else _on_shapes(formula)
        self.mod_tracker = ModuleTracker()
        self._packets: dict = {}
        self.mode: _Count | None = None

    def _count(self, packet, args, kwargs, out):
        name = str(packet).removeprefix("aten.")
        formula = self.flop_registry.get(packet) or self.flop_registry.get(name)
        if formula is not None:
            own = _counted_as(name, args, out)
            if own is None:
                return
            flops = formula(*args, **kwargs, out_val=out)
            if own != name and own not in self._packets:
                packet = getattr(ops.aten, own, None) or _Backward(f"aten.{own}")
            packet = self._packets.setdefault(own, packet)  # backward ops have a new one each time
            for parent in self.mod_tracker.parents:
                self.flop_counts[parent][packet] += flops

    def get_total_flops(self) -> int:
        """The number for all that ran."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict]:
        """{module's name: {operator: number}}, with ``"Global"`` for all."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth=None) -> str:
        """The counts as a table, modules up to a depth."""
        depth = depth or self.depth or 999999
        total = self.get_total_flops()
        suffix = get_suffix_str(total)

        def rows_of(module):
            counts = self.flop_counts[module]
            entries = [(module, sum(counts.values()))]
            entries += [(f"- {packet}", flops) for packet, flops in counts.items()]
            return [
                (name, _shown(flops, suffix),
                 convert_to_percent_str(flops, total))
                for name, flops in entries
            ]

        rows, covered = [], False
        for module in sorted(self.flop_counts):
            level = module.count(".") + 1
            if module != "Global" and level <= depth:
                rows += rows_of(module)
                covered |= sum(self.flop_counts[module].values()) >= total
        if "Global" in self.flop_counts and not covered:
            rows = rows_of("Global") + rows
        return _table(["Module", "FLOP", "% Total"], rows or [("Global", "0", "0%")])

    def __enter__(self):
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Count(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *args):
        assert self.mode is not None
        self.mode.__exit__(*args)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))


def _table(header, rows):
    """Columns below each other, the first one's left edges and the others' right edges aligned."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    widths = [max(w, len(h) + 2) for w, h in zip(widths, header)]

    def line(cells):
        first, *others = (
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))
        )
        return "  ".join([first, *others])

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)])
