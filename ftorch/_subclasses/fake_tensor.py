"""Tensors without elements (``torch._subclasses.fake_tensor``): shapes and dtypes of any device.

A `FakeTensor` is a tensor on the ``meta`` device that says it is on another. It has its place in the graph
like any tensor. Sizes may be symbolic (`ftorch.fx.experimental.symbolic_shapes.SymInt`).
"""

from __future__ import annotations

import weakref
from typing import Any

from .._ops import ops
from ..eager.core.device import META, get_default_device
from ..eager.core.device import device as make_device
from ..eager.core.geometry import Size, geometry
from ..eager.dispatch.levels import Wrapped
from ..eager.dispatch.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
)
from ..eager.memory.storage import Storage
from ..eager.native.contexts import contextmanager
from ..eager.tensor import Tensor, TensorBase, modes, wrap
from ..eager.tensor_api.conversions import retyped
from ..utils import _pytree as pytree


class DataDependentOutputException(RuntimeError):
    """The value of a fake tensor was asked for."""

    def __init__(self, func):
        super().__init__(func)
        self.func = func


class DynamicOutputShapeException(RuntimeError):
    """The shape of a result depends on the values of fake tensors."""

    def __init__(self, func):
        super().__init__(func)
        self.func = func


class FakeTensorDeviceMismatchError(RuntimeError):
    """Fake tensors of several devices met in one call."""


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that has no fake one."""


class UnsupportedOperatorException(RuntimeError):
    """An op that fake tensors do not know."""


# --- what depends on values ------------------------------------------------------------

# By the public function: the op of PyTorch's that asks for values.
_SHAPES = {
    "argwhere": "nonzero.default", "bincount": "bincount.default",
    "masked_select": "masked_select.default", "nonzero": "nonzero.default",
    "repeat_interleave": "repeat_interleave.Tensor", "to_sparse": "nonzero.default",
    "unique": "_unique2.default", "unique_consecutive": "unique_consecutive.default",
    "where": "nonzero.default", "__getitem__": "nonzero.default",
}
_VALUES = {"allclose": "allclose.default", "equal": "equal.default"}
_ANY_DEVICE = frozenset("to cuda cpu copy_ type_as _to_copy __get__ __set__ __getitem__ __setitem__".split())


def _unknown_value(name) -> Exception:
    """The error of a function that asks for the values of fake tensors."""
    if name in _SHAPES:
        return DynamicOutputShapeException(f"aten.{_SHAPES[name]}")
    return DataDependentOutputException(f"aten.{_VALUES.get(name, '_local_scalar_dense.default')}")


# --- tensors ---------------------------------------------------------------------------


class _FakeTensorMeta(type(Tensor)):
    """Tensors of a graph that PyTorch records with fake tensors (exported modules) are instances, too."""

    def __instancecheck__(cls, value):
        return super().__instancecheck__(value) or (
            cls is FakeTensor and issubclass(type(value), Wrapped) and value._ftorch_level.fakes
        )


def _is_own(value) -> bool:
    """Whether a value is a fake tensor itself, and not a graph's tensor that says so."""
    return issubclass(value.__class__, FakeTensor)


class FakeTensor(Tensor, metaclass=_FakeTensorMeta):
    """A tensor without elements.

    Attributes:
        fake_device: the device it stands for.
        fake_mode: the `FakeTensorMode` that made it.
        constant: the tensor whose value is known after all, as that of ``torch.tensor(3)``.

    >>> import ftorch as torch
    >>> from ftorch._subclasses.fake_tensor import FakeTensorMode
    >>> with FakeTensorMode() as mode:
    ...     x = mode.from_tensor(torch.ones(2, 3))
    ...     y = x @ torch.ones(3, 4)
    >>> y.shape, y.device
    (torch.Size([2, 4]), device(type='cpu'))
    """

    fake_device: Any
    _constant: Any = None

    @property
    def device(self):
        return self.fake_device

    is_cuda = property(lambda self: self.fake_device.type == "cuda")
    is_cpu = property(lambda self: self.fake_device.type == "cpu")
    is_meta = property(lambda self: self.fake_device.type == "meta")

    def get_device(self):
        """The number of the device, -1 for the CPU."""
        return -1 if self.fake_device.index is None else self.fake_device.index

    @property
    def fake_mode(self):
        """The mode that made the tensor."""
        return self.__dict__.get("_mode") or default_mode()

    @property
    def constant(self):
        """The tensor with the value, if it is known."""
        known = self._constant
        return known[0] if known is not None and known[1] == self._version else None

    @property
    def shape(self):
        symbolic = self.__dict__.get("_symbolic_shape")
        return Tensor.shape.fget(self) if symbolic is None else symbolic  # type: ignore[attr-defined]

    def size(self, dim=None):
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def grad(self):
        """The gradient, fake as well."""
        found = Tensor.grad.fget(self)  # type: ignore[attr-defined]
        return None if found is None else _wrapped(found, self.fake_device, self.__dict__.get("_mode"))

    @grad.setter
    def grad(self, value):
        Tensor.grad.fset(self, value)  # type: ignore[attr-defined]

    def item(self):
        """The value, where it is known.

        Raises:
            DataDependentOutputException: it is not.
        """
        if self.constant is not None:
            return self.constant.item()
        raise _unknown_value("item")

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __index__(self):
        return self.item().__index__()

    def tolist(self):
        """The values, where they are known: see `item`."""
        if self.constant is not None:
            return self.constant.tolist()
        raise _unknown_value("tolist")

    def numpy(self, *, force=False):
        """Not possible.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def data_ptr(self):
        """0: there is no memory."""
        return 0

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            made = fake_like(self, self.__dict__.get("_symbolic_shape"))
            memo[id(self)] = _adopted(made, self, self.__dict__.get("_mode"))
        return memo[id(self)]

    def __repr__(self, *, tensor_contents=None):
        parts = ["..."]
        if self.fake_device.type != "cpu":
            parts.append(f"device='{self.fake_device}'")
        parts.append(f"size={tuple(self.shape)}")
        if self.dtype is not _default():
            parts.append(f"dtype={self.dtype}")
        if self._grad_fn is not None:
            parts.append(f"grad_fn=<{self._grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = f"FakeTensor({', '.join(parts)})"
        return f"Parameter({text})" if self.__dict__.get("_is_param") else text

    __str__ = __repr__

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(None, func, args, dict(kwargs or {}))


def _default():
    from ..eager.core.dtype import get_default_dtype

    return get_default_dtype()


def _wrapped(t, device, mode, symbolic=None) -> FakeTensor:
    """A tensor of the meta device as one that stands for another device."""
    if _is_own(t) and t.fake_device == device:
        return t
    made = retyped(t, FakeTensor)
    made.fake_device = device
    if mode is not None:
        made._mode = mode
    if symbolic is not None:
        made._symbolic_shape = Size(symbolic)
    return made


def fake_like(t, symbolic=None) -> FakeTensor:
    """A fake tensor with the shape, strides, dtype and device of a tensor, outside any graph.

    Args:
        symbolic: sizes to report, `SymInt` among them.
    """
    g = t._ftorch_geometry
    device = t.fake_device if _is_own(t) else g.device
    # Not by `empty_strided`: traces see what is made.
    dense = g if g.is_dense else geometry(g.shape, g.dtype, META)
    meta = wrap(Storage(geometry(dense.shape, g.dtype, META, dense.stride)))
    return _wrapped(meta, device, None, symbolic)


def _adopted(made, t, mode):
    """A fake tensor with the flags of the tensor that it is like."""
    made._ftorch_requires_grad = t._ftorch_requires_grad
    if mode is not None:
        made._mode = mode
    from ..nn import Parameter

    if isinstance(t, Parameter):
        made._is_param = True
    return made


# --- calls -----------------------------------------------------------------------------


def _name_of(func) -> str:
    """The name of a function, with the namespace of another package's operator."""
    name, namespace = getattr(func, "__name__", ""), getattr(func, "namespace", "aten")
    return name if namespace in ("aten", "prims") else f"{namespace}::{name}"


def _call(mode, func, args, kwargs):
    """A call on fake tensors, in a mode or outside."""
    name = _name_of(func)
    leaves = pytree.tree_leaves((args, kwargs))
    fakes = [a for a in leaves if _is_own(a)]
    mode = mode if name in ("__get__", "__set__") else _mode_of(mode, fakes)
    if name in _GIVEN and not isinstance(args[0] if args else None, TensorBase) and not fakes:
        return _known(mode, func, args, kwargs)
    if mode is not None and not mode.allow_non_fake_inputs:
        _refuse_others(func, args, leaves, name)
    device = _device_of(name, args, kwargs, fakes)
    if name in _MOVES:  # which a tensor on the meta device does not need
        return _wrapped(_on_meta(args[0]), device, mode)
    with DisableTorchFunctionSubclass():
        try:
            result = func(*map(_on_meta, args), **{k: _on_meta(v) for k, v in kwargs.items()})
        except NotImplementedError as error:
            if not str(error).startswith("Cannot copy out of meta tensor"):
                raise
            raise _unknown_value(name) from None
        except RuntimeError as error:
            if str(error) != "Tensor.item() cannot be called on meta tensors":
                raise
            raise _unknown_value(name) from None
    if name == "__set__" and _is_own(args[0]) and _is_own(args[1]):
        args[0].fake_device = args[1].fake_device  # new ``data``
    if name == "__get__" and isinstance(result, TensorBase) and _is_own(args[0]):  # `x.T`, `x.data`
        return _wrapped(result, args[0].fake_device, args[0].__dict__.get("_mode"))
    if name in ("__get__", "__set__") or not _has_tensors(result):
        return result
    return pytree.tree_map_only(TensorBase, lambda t: _wrapped(t, device, mode), result)


def _has_tensors(result) -> bool:
    return isinstance(result, (TensorBase, tuple, list, dict))


def _mode_of(mode, fakes):
    for fake in fakes:
        own = fake.__dict__.get("_mode")
        if own is not None and mode is not None and own is not mode:
            raise AssertionError(f"Mixing fake modes NYI x.fake_mode={own} vs self={mode}")
        mode = mode or own
    return mode


def _known(mode, func, args, kwargs):
    """A new tensor whose value is known."""
    device = make_device(kwargs.pop("device", None) or get_default_device() or "cpu")
    with DisableTorchFunction():
        value = func(*args, **kwargs)
    made = _wrapped(_adopted(fake_like(value), value, mode), _numbered(device), mode)
    if value.numel() == 1:
        made._constant = value.detach(), made._version
    return made


def _refuse_others(func, args, leaves, name):
    """Fails where a tensor with elements is an operand."""
    if not any(isinstance(a, TensorBase) and not _is_own(a) for a in leaves):
        return
    if name in ("__get__", "__set__"):
        return
    shown = ", ".join(_shown(a) for a in args)
    raise AssertionError(
        "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
        f"'allow_non_fake_inputs'. Found in {_op_name(name, args)}({shown})"
    )


def _op_name(name, args) -> str:
    base = name if name.endswith("_") and not name.startswith("__") else name.strip("_")
    packet = getattr(ops.aten, base, None)
    try:
        return str(packet._choose(args, {})) if packet is not None else f"aten.{base}"
    except (TypeError, AttributeError, RuntimeError):
        return f"aten.{base}.default"


def _shown(a) -> str:
    if isinstance(a, (list, tuple)):
        return f"[{', '.join(map(_shown, a))}]"
    if isinstance(a, TensorBase) and not _is_own(a):
        contents = "[...]" if a.dim() else str(a.tolist())
        grad = ", requires_grad=True" if a.requires_grad else ""
        return f"tensor({contents}, size={tuple(a.shape)}{grad})"
    return str(a)


def _numbered(device):
    """A device with a number, where there may be several."""
    return make_device(f"{device.type}:0") if device.type == "cuda" and device.index is None else device


def _as_device(value):
    """The device that an argument names, or None."""
    if isinstance(value, make_device):
        return value
    if isinstance(value, str):
        try:
            return make_device(value)
        except RuntimeError:
            return None
    return None


def _device_of(name, args, kwargs, fakes):
    """The device of a call's results.

    Raises:
        FakeTensorDeviceMismatchError: the operands are on several.
    """
    if name in ("cpu", "cuda") and fakes:
        where = args[1] if len(args) > 1 else kwargs.get("device")
        where = f"cuda:{where}" if isinstance(where, int) else where or name
        return _numbered(make_device(where))
    named = [kwargs["device"]] if kwargs.get("device") is not None else []
    if name == "to":
        named += [a.fake_device if _is_own(a) else a for a in args[1:]]
    found = next((d for d in map(_as_device, named) if d is not None), None)
    if found is not None:
        return _numbered(found)
    wide = [f.fake_device for f in fakes if f._ftorch_geometry.shape or f.fake_device.type != "cpu"]
    if wide and name not in _ANY_DEVICE:
        other = next((d for d in wide if d != wide[0]), None)
        if other is not None:
            raise FakeTensorDeviceMismatchError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{wide[0]} and {other}!"
            )
    if fakes:
        return wide[0] if wide and name not in _ANY_DEVICE else fakes[0].fake_device
    return _numbered(get_default_device() or make_device("cpu"))


def _on_meta(value):
    """An argument with tensors and devices of the meta device."""

    def moved(a):
        if isinstance(a, TensorBase):
            return a if _is_own(a) else a.to("meta")
        return META if isinstance(a, make_device) or (isinstance(a, str) and _is_device(a)) else a

    return pytree.tree_map(moved, value)


def _is_device(text) -> bool:
    return text.partition(":")[0] in ("cuda", "cpu", "meta", "xla", "mps", "xpu")


_FACTORIES = frozenset(
    "zeros ones empty full arange eye linspace logspace rand randn randint randperm tensor as_tensor "
    "scalar_tensor empty_strided".split()
)
_GIVEN = frozenset("tensor scalar_tensor as_tensor asarray".split())  # made of Python's numbers
_MOVES = frozenset(("cpu", "cuda"))


class FakeTensorConverter:
    """Makes fake tensors of tensors, the same one for the same tensor.

    >>> import ftorch as torch
    >>> from ftorch._subclasses.fake_tensor import FakeTensorConverter, FakeTensorMode
    >>> FakeTensorConverter().from_real_tensor(FakeTensorMode(), torch.ones(2, 3))
    FakeTensor(..., size=(2, 3))
    """

    def __init__(self, *, copy_data: bool = False, export: bool = False):
        self.export = export
        self._made: dict[int, tuple[Any, FakeTensor]] = {}

    @property
    def tensor_memo(self) -> dict[int, FakeTensor]:
        """{id of a tensor that still is: its fake tensor}"""
        return {key: fake for key, (tensor, fake) in self._made.items() if tensor() is not None}

    def _get_memo(self, t):
        known = self._made.get(id(t))
        return known[1] if known is not None and known[0]() is t else None

    def set_tensor_memo(self, t, v) -> None:
        """Says which fake tensor stands for a tensor."""
        self._made[id(t)] = weakref.ref(t), v

    def from_real_tensor(self, fake_mode, t, make_constant=False, shape_env=None, *, source=None, symbolic_context=None,
                         trace=True) -> FakeTensor:
        """The fake tensor of a tensor.

        Args:
            fake_mode: the `FakeTensorMode` that the first one made of this tensor belongs to.
            make_constant: whether its value is known.
        """
        known = self._get_memo(t)
        if known is not None:
            return known
        made = _adopted(fake_like(t), t, fake_mode)
        if make_constant:
            made._constant = t, made._version
        self.set_tensor_memo(t, made)
        return made

    def from_meta_and_device(self, fake_mode, t, device, pytype=None, dispatch_keys=None) -> FakeTensor:
        """The fake tensor on a device of a tensor on the meta device.

        Raises:
            AssertionError: ``t`` is on another device.
        """
        if t.device.type != "meta":
            raise AssertionError(f"tensor's device must be `meta`, got {t.device.type} instead")
        return _wrapped(t, make_device(device), fake_mode)


class FakeTensorMode(TorchFunctionMode):
    """Inside, tensors are made without elements.

    Args:
        allow_non_fake_inputs: takes tensors with elements as operands, without them.
        shape_env: the `ShapeEnv` of symbolic sizes.
        options: PyTorch's others; they have no effect.
    """

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None,
                 static_shapes=None, **options):
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.fake_tensor_converter = FakeTensorConverter()

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None,
                    trace=True) -> FakeTensor:
        """A fake tensor like a tensor; the same one for the same tensor."""
        return self.fake_tensor_converter.from_real_tensor(self, tensor)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = _name_of(func)
        out = kwargs.get("out") if name in _FACTORIES else None
        if out is not None:
            made = self.__torch_function__(func, types, args, {**kwargs, "out": None, "dtype": kwargs.get("dtype", out.dtype)})
            return out if out.shape == made.shape else out.resize_(made.shape)
        if name in _FACTORIES and kwargs.get("device") is None:
            kwargs["device"] = get_default_device() or make_device("cpu")
        return _call(self, func, args, kwargs)


_the_default: list[FakeTensorMode] = []


def default_mode() -> FakeTensorMode:
    """The mode of fake tensors that were made outside one."""
    if not _the_default:
        _the_default.append(FakeTensorMode(allow_non_fake_inputs=True))
    return _the_default[0]


def is_fake(value) -> bool:
    """Whether a value is a fake tensor."""
    return isinstance(value, FakeTensor)


def maybe_get_fake_mode(value) -> FakeTensorMode | None:
    """The mode of a fake tensor; None for others."""
    return value.fake_mode if isinstance(value, FakeTensor) else None


def active_fake_mode() -> FakeTensorMode | None:
    """The innermost mode around."""
    return next((m for m in reversed(modes.function_modes) if isinstance(m, FakeTensorMode)), None)


@contextmanager
def unset_fake_temporarily():
    """Inside, no mode is active."""
    before = active_fake_mode()
    with DisableTorchFunction():
        yield before


__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor",
    "FakeTensorDeviceMismatchError", "FakeTensorMode", "UnsupportedFakeTensorException",
    "UnsupportedOperatorException", "active_fake_mode", "fake_like", "is_fake",
    "maybe_get_fake_mode", "unset_fake_temporarily",
]
