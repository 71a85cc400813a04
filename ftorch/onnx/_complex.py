"""Programs with complex numbers as programs of pairs of real ones, since ONNX's operators have none.

A complex tensor is a real one with one more dimension of two, the last (as `torch.view_as_real` gives it), also where it is an
input or an output. The program's graph is run with such pairs and exported again.
"""

from __future__ import annotations

import functools
import math
import operator

from .._ops import ops, own_name
from ..eager.core import api as torch
from ..eager.core import dtype as dtypes
from ..eager.tensor import TensorBase
from ..export import export
from ..export._stablehlo import _dims_of
from ..export.graph_signature import ConstantArgument, OutputKind
from ..fx.experimental.symbolic_shapes import SymInt
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..nn import Module, Parameter
from ..nn.functional import pad
from ..utils import _pytree as pytree
from .errors import UnsupportedOperatorError


def has_complex(module) -> bool:
    """Whether something that a graph computes or takes is complex."""
    return any(
        _is_complex(t) for node in module.graph.nodes for t in pytree.tree_leaves(node.meta.get("val"))
    )


def _is_complex(t):
    return isinstance(t, TensorBase) and t.dtype.category == 3


def real_program(program, sizes):
    """(the program on pairs of real numbers, {symbol: name of the size}).

    Args:
        program: without writes; ``sizes``: {symbol: name of the size} of the program.

    Raises:
        UnsupportedOperatorError: an operator has no form for pairs.
    """
    leaves = pytree.tree_leaves(program.example_inputs)
    names = [spec.arg.name for spec in program._user_specs()]
    pairs = {name for name, leaf in zip(names, leaves) if _is_complex(leaf)}
    module = _Real(program, pairs, names)
    leaves = [torch.view_as_real(leaf.resolve_conj()) if _is_complex(leaf) else leaf for leaf in leaves]
    dims = tuple(d or None for d in _dims_of(program))
    made = export(module, tuple(leaves), dynamic_shapes=dims if any(dims) else None)
    values = [{n.name: n.meta.get("val") for n in p.graph.nodes if n.op == "placeholder"} for p in (program, made)]
    found = {}
    for old, new in zip(program._user_specs(), made._user_specs(), strict=True):
        if not isinstance(old.arg, ConstantArgument):
            shapes = (v[spec.arg.name].shape for v, spec in zip(values, (old, new)))
            found.update((str(n.expr), sizes.get(str(o.expr), str(o.expr))) for o, n in zip(*shapes)
                         if isinstance(n, SymInt) and isinstance(o, SymInt))
    return made, found


class _Real(Module):
    """The program's module with pairs in place of complex tensors, of its parameters and buffers, too."""

    def __init__(self, program, pairs, names):
        super().__init__()
        self.__dict__["_ftorch_run"] = run = _Run(program, pairs)
        for path, value in run.state.items():
            owner, _, name = path.rpartition(".")
            at = self
            for part in owner.split(".") if owner else ():
                if not hasattr(at, part):
                    at.add_module(part, Module())
                at = getattr(at, part)
            if isinstance(value, Parameter):
                at.register_parameter(name, value)
            else:
                at.register_buffer(name, value)
        scope: dict = {}
        exec(f"def forward(self, {', '.join(names)}): return self._ftorch_run(self, [{', '.join(names)}])", scope)
        self.__dict__["forward"] = scope["forward"].__get__(self)


class _Run:
    def __init__(self, program, pairs):
        self.program, self.pairs = program, pairs
        self.specs = [s for s in program.graph_signature.input_specs if s not in program._user_specs()]
        self.state = {}
        for spec in self.specs:
            t = program._tensor_of(spec)
            self.state[spec.target] = torch.view_as_real(t.detach().resolve_conj()).clone() if _is_complex(t) else t

    def __call__(self, module, leaves):
        program = self.program
        kept = {s.arg.name: (_attribute(module, s.target), _is_complex(program._tensor_of(s))) for s in self.specs}
        given = iter(leaves)
        env: dict[Node, object] = {}

        def look(values):
            return map_aggregate(values, lambda n: env[n] if isinstance(n, Node) else n)

        for node in program.graph.nodes:
            if node.op == "placeholder":
                value, is_pair = kept[node.name] if node.name in kept else (next(given), node.name in self.pairs)
                env[node] = Pair(value) if is_pair else value
            elif node.op == "get_attr":
                env[node] = getattr(program.graph_module, node.target)
            elif node.op == "call_function":
                env[node] = _called(node, look(node.args), dict(look(node.kwargs)))
            else:
                results = look(node.args[0])
                kinds = [spec.kind for spec in program.graph_signature.output_specs]
                users = [r for r, kind in zip(results, kinds) if kind is OutputKind.USER_OUTPUT]
                return tuple(r.t if isinstance(r, Pair) else r for r in users)
        raise AssertionError("a graph without output")


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _called(node, args, kwargs):
    values = pytree.tree_leaves((args, kwargs), is_leaf=lambda v: isinstance(v, Pair))
    made = pytree.tree_leaves(node.meta.get("val"))
    if not any(isinstance(v, (Pair, complex)) for v in values) and not any(map(_is_complex, made)):
        return node.target(*args, **kwargs)
    if node.target is operator.getitem:
        return args[0][args[1]]
    name = own_name(node.target)
    rule = _RULES.get(name)
    if rule is None or any(isinstance(m, GraphModule) for m in values):
        raise UnsupportedOperatorError(node.target, node, " of complex numbers")
    found = next(filter(_is_complex, made), None)
    if found is not None and name not in _INDEXING:
        args = map_aggregate(args, functools.partial(_promoted, dtype=found.dtype.to_real()))
    return rule(*args, **{k: v for k, v in kwargs.items() if k not in ("device", "layout", "pin_memory", "memory_format")})


def _promoted(value, dtype):
    """An operand in the dtype that PyTorch computes in, which the result tells."""
    if isinstance(value, Pair):
        return Pair(value.t.to(dtype))
    return value.to(dtype) if isinstance(value, TensorBase) else value


# --- pairs ------------------------------------------------------------------------------


class Pair:
    """A complex tensor as a real one whose last dimension has two."""

    def __init__(self, t):
        self.t = t

    real = property(lambda self: self.t.select(-1, 0))
    imag = property(lambda self: self.t.select(-1, 1))

    def dim(self):
        """The number of dimensions of the complex tensor."""
        return self.t.dim() - 1


def _pair(real, imag):
    return Pair(torch.stack(torch.broadcast_tensors(real, imag), -1))


def _parts(value, like):
    """(real, imaginary) of a pair, a real tensor or a number."""
    if isinstance(value, Pair):
        return value.real, value.imag
    if isinstance(value, TensorBase):
        return value.to(like.dtype), torch.zeros_like(value, dtype=like.dtype)
    parts = (value.real, value.imag) if isinstance(value, complex) else (value, 0)  # a symbol is no number for Python
    return (torch.full((), part, dtype=like.dtype) for part in parts)


def _both(function):
    """A rule of two operands, of which one is a pair, by their parts."""

    def rule(a, b, **kwargs):
        pairs = [v for v in (a, b) if isinstance(v, Pair)]
        like = pairs[0].t if pairs else next(v for v in (a, b) if isinstance(v, TensorBase))
        return _pair(*function(*_parts(a, like), *_parts(b, like), **kwargs))

    return rule


def _divided(a, b, c, d):
    scale = torch.maximum(c.abs(), d.abs())  # squares of large and of small numbers are none
    c, d = c / scale, d / scale
    size = (c * c + d * d) * scale
    return (a * c + b * d) / size, (b * c - a * d) / size


def _pow(x, exponent):
    if isinstance(exponent, int) and 0 < exponent < 9:
        made = x
        for _ in range(exponent - 1):
            made = _RULES["mul"](made, x)
        return made
    if not isinstance(exponent, (int, float)):
        raise UnsupportedOperatorError(ops.aten.pow.Tensor_Tensor, None, " of complex numbers")
    return _RULES["polar"](_abs(x) ** exponent, _angle(x) * exponent)


def _abs(x):
    return torch.hypot(x.real, x.imag) if isinstance(x, Pair) else abs(x)


def _angle(x):
    return torch.atan2(x.imag, x.real)


def _product(name):
    function = getattr(torch, name)
    return _both(lambda a, b, c, d: (function(a, c) - function(b, d), function(a, d) + function(b, c)))


def _copied(x, dtype=None, *_, **__):
    if isinstance(x, Pair) and (dtype is None or dtype.category < 3):
        return x if dtype is None else (x.t != 0).any(-1) if dtype is dtypes.bool else x.real.to(dtype)
    real = dtype.to_real()
    return Pair(x.t.to(real)) if isinstance(x, Pair) else _pair(*_parts(x, torch.empty(0, dtype=real)))


def _converted(x, *args, dtype=None, **options):
    """``to`` and ``type_as``, whose dtype is an argument in any place, or that of another tensor."""
    for given in args:
        if isinstance(given, Pair):
            dtype = given.t.dtype.to_complex()
        elif isinstance(given, (dtypes.dtype, TensorBase)):
            dtype = given if isinstance(given, dtypes.dtype) else given.dtype
    return _copied(x, dtype)


def _along(name, count=1):
    """A rule of an operator whose first argument behind the tensor is a dimension (of ``count`` arguments, dimensions)."""
    packet = getattr(ops.aten, name)

    def rule(x, *args, **kwargs):
        extra = name == "unsqueeze"
        dims = [_dims(d, x.dim() + extra) for d in args[:count]]
        return _pairs(packet(x.t, *dims, *args[count:], **kwargs))

    return rule


def _dims(dim, rank):
    return [_dims(d, rank) for d in dim] if isinstance(dim, (list, tuple)) else dim % rank


def _pairs(found):
    return tuple(map(Pair, found)) if isinstance(found, (list, tuple)) else Pair(found)


def _shaped(name):
    return lambda x, sizes, **_: Pair(getattr(x.t, name)([*sizes, 2]))


def _parted(name):
    packet = getattr(ops.aten, name)
    return lambda x, size, dim=0: _pairs(packet(x.t, size, dim % x.dim()))


def _joined(name):
    def rule(tensors, dim=0):
        like = next(t for t in tensors if isinstance(t, Pair)).t
        parts = [t.t if isinstance(t, Pair) else _pair(*_parts(t, like)).t for t in tensors]
        return Pair(getattr(torch, name)(parts, dim % (like.dim() - 1 + (name == "stack"))))

    return rule


def _summed(name):
    def rule(x, dim=None, keepdim=False, **_):
        dims = list(range(x.dim())) if dim is None or dim == [] else _dims(dim, x.dim())
        return Pair(getattr(torch, name)(x.t, dims, keepdim))

    return rule


def _permuted(x, dims):
    return Pair(x.t.permute([*_dims(dims, x.dim()), x.dim()]))


def _where(condition, a, b):
    (c, d), (e, f) = _parts(a, condition), _parts(b, condition)
    condition = condition.to(dtypes.bool)  # it was promoted as an operand is
    return _pair(torch.where(condition, c, e), torch.where(condition, d, f))


# --- Fourier transforms -------------------------------------------------------------------


def _resized(t, n):
    have = t.shape[-1]
    return t if n is None or n == have else t[..., :n] if n < have else pad(t, (0, n - have))


def _waves(n, count, like):
    """(cosine, sine) of the angles of a transform: (n, count)."""
    turns = (torch.arange(n).unsqueeze(1) * torch.arange(count)) % n
    angles = turns.to(dtypes.float64) * (2 * math.pi / n)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def _scale(norm, n, is_inverse):
    if norm == "ortho":
        return n**-0.5
    return 1 / n if is_inverse == (norm in (None, "backward")) else None


def _transformed(sign, half=False, to_real=False):
    """A rule of a transform along one dimension: a product with the matrix of its waves."""

    def rule(x, n=None, dim=-1, norm=None):
        is_pair = isinstance(x, Pair)
        rank = x.dim()
        real, imag = (None if t is None else t.transpose(dim % rank, -1) for t in ((x.real, x.imag) if is_pair else (x, None)))
        if to_real:
            n = 2 * (real.shape[-1] - 1) if n is None else n
            real, imag = (_resized(t, n // 2 + 1) for t in (real, imag))
            # The other half is the conjugate one: what lies between the first and the middle counts twice.
            weights = torch.full((n // 2 + 1,), 2.0, dtype=real.dtype)
            weights[0] = 1.0
            if n % 2 == 0:
                weights[n // 2] = 1.0
            cos, sin = (w[: n // 2 + 1] * weights.unsqueeze(1) for w in _waves(n, n, real))
            made = real @ cos - imag @ sin
            scale = _scale(norm, n, True)
            return (made if scale is None else made * scale).transpose(dim % rank, -1)
        real, imag = (None if t is None else _resized(t, n) for t in (real, imag))
        n = real.shape[-1]
        cos, sin = _waves(n, n // 2 + 1 if half else n, real)
        sin = sin * sign
        found = (real @ cos, real @ sin) if imag is None else (real @ cos - imag @ sin, real @ sin + imag @ cos)
        scale = _scale(norm, n, sign > 0)
        return _pair(*((t if scale is None else t * scale).transpose(dim % rank, -1) for t in found))

    return rule


def _over(last, rest, is_last_behind=False):
    """A rule of a transform along several dimensions: of the last one, and of the others (before it for a real result)."""

    def rule(x, sizes=None, dims=None, norm=None):
        if dims is None:
            dims = range(-(x.dim() if sizes is None else len(sizes)), 0)
        pairs = [*zip(sizes or [None] * len(dims), dims)]
        for n, dim in pairs if is_last_behind else pairs[::-1]:
            x = _RULES[last if dim == pairs[-1][1] else rest](x, n, dim, norm)
        return x

    return rule


def _plane(name):
    """The rule of a transform along two dimensions."""
    return lambda x, sizes=None, dims=(-2, -1), norm=None: _RULES[name](x, sizes, dims, norm)


def _stft(
    x, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None, return_complex=None, *_, **__
):
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    frames = x.unfold(-1, n_fft, hop)
    if window is not None or length < n_fft:
        window = torch.ones(length, dtype=x.dtype) if window is None else window
        left = (n_fft - length) // 2
        frames = frames * pad(window, (left, n_fft - length - left))
    found = _RULES["fft_rfft" if onesided in (None, True) else "fft_fft"](frames, None, -1, "ortho" if normalized else None)
    found = Pair(found.t.transpose(-2, -3))
    return found if return_complex else found.t


_INDEXING = frozenset({"index", "index_select"})  # their other tensors are no operands
_KEPT = "clone contiguous detach alias lift_fresh_copy resolve_conj resolve_neg positive".split()
_RULES = {
    "view_as_complex": Pair, "view_as_real": lambda x: x.t, "_conj_physical": lambda x: _RULES["_conj"](x),
    **{name: lambda x: x.real for name in ("_real_part", "real")},
    **{name: lambda x: x.imag for name in ("_imag_part", "imag")},
    "polar": lambda size, angle: _pair(size * angle.cos(), size * angle.sin()), "complex": _pair,
    "_conj": lambda x: _pair(x.real, -x.imag), "conj": lambda x: _RULES["_conj"](x), "neg": lambda x: Pair(-x.t),
    "conj_physical": lambda x: _RULES["_conj"](x), "abs": _abs, "angle": _angle, "pow": _pow,
    "square": lambda x: _RULES["mul"](x, x), "reciprocal": lambda x: _RULES["div"](1.0, x),
    "exp": lambda x: _RULES["polar"](x.real.exp(), x.imag),
    "add": _both(lambda a, b, c, d, alpha=1: (a + alpha * c, b + alpha * d)),
    "sub": _both(lambda a, b, c, d, alpha=1: (a - alpha * c, b - alpha * d)),
    "rsub": _both(lambda a, b, c, d, alpha=1: (c - alpha * a, d - alpha * b)),
    "mul": _both(lambda a, b, c, d: (a * c - b * d, a * d + b * c)), "div": _both(_divided),
    **{name: _product(name) for name in ("mm", "bmm", "matmul", "mv", "outer")},
    "_to_copy": _copied, **dict.fromkeys(("to", "type_as"), _converted), "_assert_tensor_metadata": lambda *_, **__: None,
    "where": _where, "permute": _permuted,
    **{name: lambda x, **_: x for name in _KEPT},
    **{name: _along(name) for name in ("select", "slice", "unsqueeze", "squeeze", "flip", "index_select", "unbind",
                                       "unflatten", "narrow")},
    **{name: _along(name, 2) for name in ("transpose",)},
    "flatten": lambda x, start=0, end=-1: Pair(x.t.flatten(start % x.dim(), end % x.dim())),
    **{name: _shaped(name) for name in ("view", "reshape", "expand")}, "_unsafe_view": _shaped("reshape"),
    **{name: _parted(name) for name in ("chunk", "split", "split_with_sizes")},
    "repeat": lambda x, sizes: Pair(x.t.repeat([*sizes, 1])), "index": lambda x, indices: Pair(ops.aten.index(x.t, indices)),
    **{name: _joined(name) for name in ("cat", "stack")}, **{name: _summed(name) for name in ("sum", "mean")},
    "fft_fft": _transformed(-1), "fft_ifft": _transformed(1), "fft_rfft": _transformed(-1, half=True),
    "fft_irfft": _transformed(1, to_real=True), "stft": _stft,
    "fft_fftn": _over("fft_fft", "fft_fft"), "fft_ifftn": _over("fft_ifft", "fft_ifft"),
    "fft_rfftn": _over("fft_rfft", "fft_fft"), "fft_irfftn": _over("fft_irfft", "fft_ifft", True),
    **{f"fft_{name}2": _plane(f"fft_{name}n") for name in ("fft", "ifft", "rfft", "irfft")},
    **{name: lambda x: Pair(x.t.transpose(0, 1)) if x.dim() > 1 else x for name in ("t", "numpy_T")},
    **{name: lambda x: Pair(x.t.transpose(-2, -3)) for name in ("mT",)},
    **{name: lambda x: _RULES["_conj"](_RULES["mT"](x)) for name in ("mH", "adjoint", "matrix_H")},
}
