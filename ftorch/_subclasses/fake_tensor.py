"""Tensors without elements (``torch._subclasses.fake_tensor``): shapes and dtypes of any device.

A `FakeTensor` is a tensor on the ``meta`` device that says it is on another. Sizes may be symbolic
(`ftorch.fx.experimental.symbolic_shapes.SymInt`).
"""

from __future__ import annotations

from ..eager.conversions import as_subclass
from ..eager.device import META, get_default_device
from ..eager.device import device as make_device
from ..eager.geometry import Size, geometry
from ..eager.overrides import DisableTorchFunctionSubclass, TorchFunctionMode
from ..eager.storage import Storage
from ..eager.tensor import Tensor, TensorBase, wrap
from ..utils import _pytree as pytree


class DataDependentOutputException(RuntimeError):
    """The value of a fake tensor was asked for."""


class FakeTensor(Tensor):
    """A tensor without elements.

    Attributes:
        fake_device: the device it stands for.

    >>> import ftorch as torch
    >>> from ftorch._subclasses.fake_tensor import FakeTensorMode
    >>> with FakeTensorMode() as mode:
    ...     x = mode.from_tensor(torch.ones(2, 3))
    ...     y = x @ torch.ones(3, 4)
    >>> y.shape, y.device
    (torch.Size([2, 4]), device(type='cpu'))
    """

    @property
    def device(self):
        return self.fake_device

    @property
    def shape(self):
        symbolic = self.__dict__.get("_symbolic_shape")
        return Tensor.shape.fget(self) if symbolic is None else symbolic  # type: ignore[attr-defined]

    def size(self, dim=None):
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def item(self):
        """Not known.

        Raises:
            DataDependentOutputException: always.
        """
        raise DataDependentOutputException("aten._local_scalar_dense.default")

    tolist = numpy = __bool__ = __int__ = __float__ = __index__ = item

    def __repr__(self, *, tensor_contents=None):
        dtype = "" if self.dtype is _default() else f", dtype={self.dtype}"
        device = "" if self.fake_device.type == "cpu" else f", device='{self.fake_device}'"
        return f"FakeTensor(..., {device[2:] + ', ' if device else ''}size={tuple(self.shape)}{dtype})"

    __str__ = __repr__

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        fakes = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, FakeTensor)]
        device = kwargs.get("device")
        device = make_device(device) if device is not None else (
            fakes[0].fake_device if fakes else get_default_device()
        )
        if device is not None and "device" in kwargs:
            kwargs["device"] = "meta"
        with DisableTorchFunctionSubclass():
            args, kwargs = pytree.tree_map(
                lambda a: a.to("meta") if isinstance(a, TensorBase) and not isinstance(a, FakeTensor)
                else a, (args, kwargs),
            )  # fmt: skip
            result = func(*args, **kwargs)
        return pytree.tree_map_only(TensorBase, lambda t: _wrapped(t, device), result)


def _default():
    from ..eager.dtype import get_default_dtype

    return get_default_dtype()


def _wrapped(t, device, symbolic=None) -> FakeTensor:
    if isinstance(t, FakeTensor):
        return t
    made = as_subclass(t, FakeTensor)
    made._requires_grad, made._grad_fn = False, None
    made.fake_device = device
    if symbolic is not None:
        made._symbolic_shape = Size(symbolic)
    return made


def fake_like(t, symbolic=None) -> FakeTensor:
    """A fake tensor with the shape, strides, dtype and device of a tensor.

    Args:
        symbolic: sizes to report, `SymInt` among them.
    """
    g = t._geometry
    device = t.fake_device if isinstance(t, FakeTensor) else g.device
    # Not by `empty_strided`: traces see what is made.
    dense = g if g.is_dense else geometry(g.shape, g.dtype, META)
    meta = wrap(Storage(geometry(dense.shape, g.dtype, META, dense.stride)))
    return _wrapped(meta, device, symbolic)


class FakeTensorMode(TorchFunctionMode):
    """Inside, tensors are made without elements.

    Args:
        shape_env: the `ShapeEnv` of symbolic sizes.
        options: PyTorch's others; they have no effect.
    """

    def __init__(self, *, shape_env=None, **options):
        self.shape_env = shape_env

    def from_tensor(self, tensor, **options) -> FakeTensor:
        """A fake tensor like a tensor."""
        return fake_like(tensor)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return FakeTensor.__torch_function__(func, types, args, _on_device(func, kwargs))


_FACTORIES = frozenset(
    "zeros ones empty full arange eye linspace logspace rand randn randint randperm tensor as_tensor "
    "scalar_tensor empty_strided".split()
)


def _on_device(func, kwargs):
    kwargs = dict(kwargs or {})
    if getattr(func, "__name__", "") in _FACTORIES:
        kwargs.setdefault("device", get_default_device())
    return kwargs


def is_fake(value) -> bool:
    """Whether a value is a fake tensor."""
    return isinstance(value, FakeTensor)


__all__ = [
    "DataDependentOutputException", "FakeTensor", "FakeTensorMode", "fake_like", "is_fake",
]  # fmt: skip
