"""Modes and subclasses with ``__torch_dispatch__``, and Python kernels of declared ops.

They see calls below autograd and transforms, as overloads of ``torch.ops``. The graph is made here,
around them: what they return becomes the result of the op's node. Nothing of this is asked for while
no mode is active and all tensors are plain: the call path comes here by a hook that is set for just as
long (`activate`), and by the way of foreign classes (`ftorch.eager.dispatch.overrides`).
"""

from __future__ import annotations

import functools
from types import SimpleNamespace

from .. import _ops
from ..eager.autograd import tape
from ..eager.autograd.views import view_call
from ..eager.call import op as _op
from ..eager.call.operands import tensors_of
from ..eager.core import api
from ..eager.core.device import get_default_device
from ..eager.core.formats import preserve_format
from ..eager.core.registry import OPS, OpDef
from ..eager.dispatch import overrides
from ..eager.dispatch.levels import Wrapped
from ..eager.tensor import DISPATCHING, Tensor, TensorBase, modes
from ..eager.tensor_api.index_masks import with_masks
from . import composite_arguments, composition, gradients
from .dispatch_state import DeclaredKernels, DisableTorchDispatch, state  # noqa: F401
from .function_overloads import METHODS, FunctionOverload
from .handled_results import (
    count_write,
    has_dispatch,
    no_grad,
    recorded,
    recorded_inplace,
    recorded_view,
)

OVERRIDES: dict[OpDef, dict] = {}  # kernels registered in the place of the engine's
users = [0]


def activate() -> None:
    """Makes the call path ask here, until `deactivate` was called as often."""
    install()
    users[0] += 1
    _op.special[0] += 1


def deactivate() -> None:
    """Takes back one `activate`."""
    users[0] -= 1
    _op.special[0] -= 1
    if not users[0]:
        _op.hooks.python = _op.hooks.python_view = None


def install() -> None:
    """Puts what is asked into the hooks of the call path."""
    _op.hooks.python = engine_call
    _op.hooks.python_view = engine_view
    _declare()


def see_gradients():
    """Lets backward passes make ATen's calls where somebody sees them."""
    _op.hooks.sees = _sees
    _op.hooks.view_gradient = view_gradient
    _op.hooks.first_gradient = _first_gradient
    _op.hooks.gradient = _gradient
    _op.hooks.unsafe_view = _unsafe_view
    _op.hooks.lifted = _lifted


def _declare():
    _op.hooks.python_overload = overload_call
    _op.hooks.python_out = _out_call
    see_gradients()
    _op.hooks.python_composite = _composite
    _op.hooks.python_method = _method


def _out_call(op, operands, static, outs):
    from .out_overloads import seen  # which stands on this module

    return seen(op, operands, static, outs)


def _run_disabled(func, args, kwargs):
    with DisableTorchDispatch():
        return func(*args, **kwargs)


_op.hooks.python_disabled = _run_disabled


def register_class(cls) -> None:
    """A class with a ``__torch_dispatch__`` was made: calls on its tensors come here."""
    _op.hooks.subclass = engine_call
    _op.hooks.subclass_view = engine_view
    _declare()
    for name in ("numpy", "tolist", "data_ptr"):
        if not any(name in vars(c) for c in cls.__mro__[: cls.__mro__.index(Tensor)]):
            setattr(cls, name, _refused(name, vars(Tensor)[name]))


def _refused(name, method):
    """The method for tensors that hold elements; others have none to give."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if self._ftorch_storage.error is not None and self._ftorch_storage.array is None:
            if name == "data_ptr":
                return 0
            of = f", got {type(self).__name__}" if name == "tolist" else "."
            raise RuntimeError(f".{name}() is not supported for tensor subclasses{of}")
        return method(self, *args, **kwargs)

    return call


def _subclasses(tensors) -> list:
    found: list = []
    for t in tensors:
        kind = type(t)
        if kind is not Tensor and has_dispatch(kind) and all(type(f) is not kind for f in found):
            place = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
            found.insert(place, t)
    return found


def _is_transformed(values) -> bool:
    """Whether a transform's tensor is among some values: modes see the calls below it."""
    return any(isinstance(v, Wrapped) and not v._ftorch_level.is_graph for v in values)


def run(func, tensors, args, kwargs):
    """(True, what the innermost mode, or else a subclass, makes of a call), or (False, None).

    Raises:
        TypeError: if all of them decline.
    """
    if state.off or (modes.levels and _is_transformed(tensors)):
        return False, None
    found = _subclasses(tensors)
    stack = state.stack
    if not stack and not found:
        return False, None
    by = next((t for t in found if hasattr(type(t), "_ftorch_functionalized")), state.functional)
    if by is not None:  # before all modes
        result = by._ftorch_functionalized(func, args, kwargs)
        if result is not NotImplemented:
            return True, result
        found = [t for t in found if t is not by]
        stack = [m for m in stack if m is not by]
        if not stack and not found:
            return False, None
    types = tuple(map(type, found))
    rules = getattr(func, "dispatch_rules", {})
    declined = []
    if stack:
        mode = stack[-1]
        outer = state.stack
        at = len(outer) - 1 if outer[-1] is mode else max(i for i, m in enumerate(outer) if m is mode)
        state.stack = outer[:at] + outer[at + 1 :]  # a mode that was entered twice is asked twice
        try:
            rule = rules.get(type(mode))
            if rule is None:
                handler = mode.__torch_dispatch__
                if isinstance(getattr(handler, "__self__", None), type):
                    raise RuntimeError(
                        "Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a plain "
                        "method"
                    )
                result = handler(func, types, args, kwargs)
            else:
                result = rule(mode, func, types, args, kwargs)
        finally:
            state.stack = outer
        if result is not NotImplemented:
            return True, result
        declined.append(f"mode object {mode}")
    for value in found:
        kind = type(value)
        rule = rules.get(kind)
        if rule is None:
            result = kind.__torch_dispatch__(func, types, args, kwargs)
        else:
            result = rule(kind, func, types, args, kwargs)
        if result is not NotImplemented:
            return True, result
        declined.append(f"tensor subclass {kind}")
    lines = "\n".join(f"  - {d}" for d in declined)
    error = TypeError(
        f"Multiple dispatch failed for 'torch._ops.{func}'; all __torch_dispatch__ handlers returned "
        f"NotImplemented:\n\n{lines}\n\nFor more information, try re-running with "
        "TORCH_LOGS=not_implemented"
    )
    error._ftorch_declined = True  # type: ignore[attr-defined]  # operators ask their other operand
    raise error


def overload_call(func, tensors, args, kwargs):
    """`run` for an op of `torch.library`; without ``tensors``, for one that is a function of others.

    What the latter's results depend on is recorded inside, so that only modes may take them over where
    somebody wants gradients.
    """
    if tensors is None:
        tensors = [v for v in overrides.flat_arguments(args, kwargs) if isinstance(v, TensorBase)]
        if not (state.stack or (not modes.grad and _subclasses(tensors))) or not _by_users(tensors):
            return False, None
    return run(func, tensors, args, kwargs)


# --- ops of the engine ---------------------------------------------------------------


class EngineOverload(_ops.OpOverload):
    """An op that is no part of ``torch.ops``, such as a gradient's, as handlers see it."""

    def __init__(self, op, static, form):
        packet = _ops.OpOverloadPacket(op.name.replace(".", "_") + ("_" if form == "inplace" else ""))
        packet._overloads["default"] = self
        self._packet, self._overloadname, self._form = packet, "default", form
        self._schema = SimpleNamespace(
            name=f"aten::{op.name}", arguments=(), returns=(), is_view=False, overload_name="",
            is_mutable=form == "inplace",
        )
        self._engine_op, self._static = op, static

    def _call(self, args, kwargs):
        if self._form == "inplace":
            return _op.call_inplace(self._engine_op, args, self._static)
        return _op.call(self._engine_op, args, self._static)

    @property
    def is_view(self):
        """False: it makes new tensors."""
        return False


def overload_seen(op, operands, static, form):
    """(overload, args, kwargs) of a call, as ATen names it."""
    definition = op.definition if isinstance(op, _op.Op) else op
    found = _ops.overload_call(definition, operands, static, form)
    if found is None:
        return EngineOverload(op, static, form), tuple(operands), {}
    func, args, kwargs = found
    aten, name = _ops.ops.aten, definition.name
    by_number = name in _BY_NUMBER or (gradients.composing.active and name in _ARITHMETIC)
    if by_number and len(operands) > 1 and not isinstance(operands[1], TensorBase):
        overload = "Tensor_Scalar" if name == "pow" else "Scalar"
        func = getattr(getattr(aten, func._opname), overload)
    elif name in ("softmax", "log_softmax") and len(args) == 2 and not kwargs:
        func, args = getattr(aten, f"_{name}").default, (*args, False)
    elif name in ("index", "index_put") and len(args) > 1:
        args = (args[0], with_masks(args[1]), *args[2:])
    elif name == "argwhere":
        func = aten.nonzero.default
    elif name == "copy":
        args = args[:2]
    return func, args, kwargs


# Where ATen has an overload for numbers that it does not turn into tensors first.
_BY_NUMBER = frozenset(
    "eq ne lt le gt ge pow remainder fmod bitwise_and bitwise_or bitwise_xor fill".split()
)
_ARITHMETIC = frozenset("add sub mul div".split())


def _matmul(x, y):
    """The products that PyTorch's ``matmul`` is made of; None for what is broadcast."""
    name = {(2, 2): "mm", (1, 1): "dot", (2, 1): "mv", (3, 3): "bmm"}.get((x.dim(), y.dim()))
    if name is None or (name == "bmm" and x.shape[0] != y.shape[0]):
        return None
    return _op.call(_op.op_named(name), (x, y))


def _linear(x, weight, bias=None):
    if weight.dim() != 2 or x.dim() not in (2, 3):
        return None
    rows = x if x.dim() == 2 else x.reshape(x.shape[0] * x.shape[1], x.shape[-1])
    if bias is None:
        out = _op.call(_op.op_named("mm"), (rows, weight.t()))
    else:
        out = api.addmm(bias, rows, weight.t())
    return out if x.dim() == 2 else out.view(*x.shape[:-1], out.shape[-1])


_DECOMPOSED = {"matmul": _matmul, "linear": _linear}


def _override(definition, tensors, names):
    """A kernel that was registered for a declared op and one of some keys."""
    table = None if state.declared else OVERRIDES.get(definition)
    if table is None:
        return None
    from ..library import _keys

    backend = _keys.backend_of(tensors)
    return next((k for n in names if (k := table.get(n.format(backend))) is not None), None)


_ABOVE = ("Autograd{}", "Autograd", "CompositeImplicitAutograd")
_BELOW = ("{}", "CompositeExplicitAutograd")


def engine_call(op, operands, static, form="function"):
    """(True, the result) of an engine's call that somebody takes over, or (False, None)."""
    tensors = list(tensors_of(operands))
    kernel = _override(op.definition, tensors, _ABOVE) if OVERRIDES else None
    below = _override(op.definition, tensors, _BELOW) if OVERRIDES else None
    asked = not state.off and (state.stack or _subclasses(tensors))
    if kernel is None and below is None and not asked:
        return False, None
    static = tuple(tuple(s) if s.__class__ is list else s for s in static)  # plans are found by them
    pick = None
    seen = form == "function" and asked and _by_users(tensors)
    if seen:
        result = composition.composed(op, operands, static)
        if result is not None:
            return True, result
        found = composition.renamed(op.definition, operands, static) if isinstance(op.definition, OpDef) else None
    else:
        found = None
        decomposed = _DECOMPOSED.get(op.name) if form == "function" else None
        if decomposed is not None:
            result = decomposed(*operands)
            if result is not None:
                return True, result
    if found is None:
        func, args, kwargs = overload_seen(op, operands, static, form)
    else:
        func, args, kwargs, pick = found
    if kernel is not None and modes.grad:
        return True, kernel.function(*args, **kwargs)

    beside: tuple | None = None if not seen else ()

    def compute():
        nonlocal beside
        handled, result = run(func, tensors, args, kwargs) if asked else (False, None)
        if not handled and below is not None:
            return True, below.function(*args, **kwargs)
        if pick is None or not handled:
            return handled, result
        beside = tuple(result)
        return handled, result[pick]

    if not (modes.grad and any(t.requires_grad for t in tensors)):
        handled, result = compute()
        if handled and form == "inplace":
            count_write(operands[0], result)
            return True, operands[0]
        return handled, result
    if form == "inplace":
        return recorded_inplace(op, operands, static, tensors, compute, asked and _by_users(tensors))
    with no_grad():
        handled, result = compute()
    if not handled:
        return False, None
    return True, recorded(op, operands, static, result, beside, pick, seen)


def _by_users(tensors):
    """Whether who is asked first was written outside this package."""
    if state.stack:
        return composition.is_users(type(state.stack[-1]))
    return any(composition.is_users(type(t)) for t in _subclasses(tensors))


def view_gradient(definition, static, base, grad):
    """The gradient of what a view was taken of, by ATen's calls where somebody sees these; or None."""
    if not _sees([grad]):
        return None
    with gradients.composing:
        return gradients.of_view(definition, static, base, grad)


def _sees(values):
    """Whether ATen's calls on some tensors are seen: by a trace, a user's mode or a user's class."""
    if sees_aten(modes.levels):
        return True
    return not state.off and (state.stack or _subclasses(values)) and _by_users(values)


def _gradient(op, operands):
    """The gradients that an op gives, by ATen's calls where somebody sees them; or None."""
    if not _sees([o for o in operands if isinstance(o, TensorBase)]):
        return None
    return gradients.of_op(op.definition, operands, *tape.beside())


def _lifted(t):
    for level in modes.levels:
        if level.sees_aten:
            level.lifted(t)
        elif level.numbers_made is not None:
            level.numbers_made.append(t)
    if not state.off and state.stack and _by_users(()):
        _method("lift_fresh", t)


def _unsafe_view(x, size):
    return _ops.ops.aten._unsafe_view.default(x, list(size))


def _first_gradient(out):
    return _ops.ops.aten.ones_like.default(out, pin_memory=False, memory_format=preserve_format)


def sees_aten(levels) -> bool:
    """Whether a trace of ATen's ops is among the levels."""
    return any(level.sees_aten for level in levels)


def engine_view(definition, x, static):
    """(True, the view) that somebody makes, or (False, None)."""
    if state.off or not (state.stack or (type(x) is not Tensor and has_dispatch(type(x)))):
        return False, None
    if definition.name.startswith("_index_"):
        return True, _indexed(
            x, static[0], definition.name == "_index_slice" and len(static[0]) == 1
        )
    if definition.name in ("_real_part", "_imag_part") and _by_users([x]):
        is_imag = definition.name == "_imag_part"
        is_conj = x.is_conj()
        pairs = view_call(OPS["view_as_real"], x.conj() if is_conj else x, ())
        if is_conj and is_imag:
            pairs = view_call(OPS["_neg_view"], pairs, ())
        return True, view_call(OPS["select.int"], pairs, (x.dim(), int(is_imag)))
    found = None
    if _by_users([x]):
        definition.kernel(x._ftorch_geometry, *static)  # refuses bad arguments
        found = composition.renamed(definition, (x,), static)
    func, args, kwargs = found[:3] if found else overload_seen(definition, (x,), static, "function")
    with no_grad():
        handled, result = run(func, [x], args, kwargs)
    if not handled:
        return False, None
    if isinstance(result, TensorBase) and result is not x:
        recorded_view(definition, x, static, result)
    return True, result


END = 9223372036854775807  # of a slice to the end


def _indexed(x, items, is_slice=False):
    """``x[...]`` as the views that PyTorch makes of it; a slice alone is one, also of everything."""
    dim, sizes = 0, iter(x.shape)
    result = x
    for item in items:
        size = None if item is None else next(sizes)
        if item is None:
            result = view_call(OPS["unsqueeze"], result, (dim,))
        elif isinstance(item, int):
            result = view_call(OPS["select.int"], result, (dim, item))
            continue
        elif item != (0, 1, size) or is_slice:
            start, step, count = item
            stop = start + step * (count - 1) + 1 if count else start
            stop = END if start + step * count >= size else stop
            result = view_call(OPS["slice.Tensor"], result, (dim, start, stop, step))
        dim += 1
    return view_call(OPS["alias"], x, ()) if result is x else result


# --- functions and methods that are no ops of the engine -----------------------------


def _method(name, x, **named):
    """(True, what somebody makes of a method's call), or (False, None)."""
    if state.off or not (state.stack or x.__class__ in DISPATCHING):
        return False, None
    with no_grad():
        return run(METHODS[name]._packet.default, [x], (x,), named)


# Composites that are ops of PyTorch's own; the others are seen by what they call.
_FACTORIES = composite_arguments.SIZED | frozenset(
    "full arange linspace logspace eye randint randperm empty_strided scalar_tensor tril_indices triu_indices hann_window "
    "hamming_window bartlett_window blackman_window kaiser_window".split()
)
# Composites that PyTorch has in C++, whose calls have numbers as C++ gives them.
_IN_CPP = frozenset("dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout".split())
_DRAWS = frozenset(
    "bernoulli normal poisson uniform_ normal_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ random_".split()
)
LEAVES = _FACTORIES | _DRAWS | frozenset(
    "zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_empty new_empty_strided new_zeros "
    "new_ones new_full multinomial equal allclose".split()
)
# Composites that are one op in PyTorch, whose users' modes see them so.
_WHOLE = frozenset(
    "split _method_split split_with_sizes chunk unbind unsafe_split unsafe_split_with_sizes unsafe_chunk batch_norm".split()
)


def _whole(name, args, kwargs):
    """A composite's result by ATen's op of the same meaning, or None."""
    aten = _ops.ops.aten
    if name == "batch_norm":
        return composition.batch_norm(aten, *args, **kwargs)
    func, given = composition.split_call(aten, name, *args, **kwargs)
    handled, result = run(func, list(tensors_of(args[:1])), given, {})
    return tuple(result) if handled else None


def _is_split_by_users(name, args):
    """Whether a class of the user's is to see the op that splits its tensor, of which nobody wants gradients."""
    x = args[0] if args else None
    if name == "batch_norm" or x.__class__ not in DISPATCHING or state.off or not _by_users([x]):
        return False
    return not (modes.grad and x.requires_grad)


def _composite(function, values, args, kwargs):
    """A composite's result; leaves among them are handed to modes and subclasses."""
    name = function.__name__
    if name in _WHOLE and _is_transformed(values):
        return function(*args, **kwargs)  # the calls below the transform are seen
    if name in _WHOLE and not state.stack and _is_split_by_users(name, args):
        result = _whole(name, args, kwargs)
        if result is not None:
            return result
    if (name in _WHOLE or name in _IN_CPP) and not state.off and state.stack and _by_users(()):
        if name in _IN_CPP:
            with gradients.composing:
                return function(*args, **kwargs)
        result = _whole(name, args, kwargs)
        if result is not None:
            return result
    if state.off or name not in LEAVES or not (
        state.stack or any(v.__class__ in DISPATCHING for v in values)
    ):
        return function(*args, **kwargs)
    if name in _DRAWS and modes.grad and any(isinstance(v, TensorBase) and v.requires_grad for v in values):
        return function(*args, **kwargs)  # whose node gives zeros
    kwargs = dict(kwargs)
    wants_grad = kwargs.pop("requires_grad", False)
    args = composite_arguments.shown(name, args, kwargs)
    kwargs = {k: v for k, v in kwargs.items() if v is not None}
    if gradients.composing.active:
        pass  # C++ says all that it wants
    elif name.endswith("_like") or name.startswith("new_"):
        kwargs.setdefault("pin_memory", False)
    is_factory = name in _FACTORIES or (name == "normal" and not any(isinstance(v, TensorBase) for v in values))
    if is_factory and "out" not in kwargs and not gradients.composing.active:
        kwargs.setdefault("device", get_default_device())
        kwargs.setdefault("pin_memory", False)
    overload = composite_arguments.overload_name(name, args)
    func = _aten_overload(name, overload) or _overload_of(name, function, overload)
    if "out" in kwargs:
        from .out_overloads import writing  # which stands on this module

        func, kwargs = writing(func, kwargs)
        if func is None:
            return function(*args, **kwargs)
    tensors = [v for v in values if isinstance(v, TensorBase)]
    with no_grad():
        handled, result = run(func, tensors, args, kwargs)
    if not handled:
        return function(*args, **kwargs)
    return result.requires_grad_(True) if wants_grad else result


@functools.cache
def _aten_overload(name, overload):
    """The overload that programs compare with, where there is one of that function."""
    packet = getattr(_ops.ops.aten, name, None)
    return getattr(packet, overload, None)


@functools.cache
def _overload_of(name, function, overload):
    def again(*args, **kwargs):  # the modes around may want to see it, too
        return _composite(function, list(overrides.flat_arguments(args, kwargs)), args, kwargs)

    return FunctionOverload(name, again, overload=overload)


__all__ = ["END", "activate", "deactivate", "engine_call", "engine_view", "overload_seen", "run", "see_gradients", "state"]
