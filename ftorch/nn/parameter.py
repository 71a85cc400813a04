"""Tensors that modules keep: `Parameter`, `Buffer`, and those whose shape is not known yet."""

from __future__ import annotations

from collections import OrderedDict

from ..eager.core import api as torch
from ..eager.dispatch.overrides import disabled
from ..eager.tensor import PLAIN, Tensor, modes, set_state, state_of

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _FlaggedMeta(type(Tensor)):
    """``isinstance`` also holds for a tensor subclass's instance that carries the class's flag."""

    _ftorch_flag: str

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        flag = cls.__dict__.get("_ftorch_flag")  # of the class itself: a subclass asks for itself
        return flag is not None and isinstance(instance, Tensor) and getattr(instance, flag, False)


class _ParameterMeta(_FlaggedMeta):
    """The type of `Parameter`, by PyTorch's name: libraries test and subclass it."""


class _BufferMeta(_FlaggedMeta):
    """The type of `Buffer`."""


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module trains: assigned to a module, it becomes one of its parameters.

    Args:
        data: the values (shared, not copied).
        requires_grad: whether a gradient is computed; ``no_grad`` makes no difference to it.

    >>> import ftorch as torch
    >>> torch.nn.Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    _ftorch_flag = "_is_param"
    __torch_function__ = classmethod(disabled)

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = torch.empty(0)
        if requires_grad and isinstance(data, Tensor) and data._ftorch_storage.version < 0 and not modes.inference:
            data.requires_grad_()  # raises
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        # A user's tensor type stays what it is, and is marked.
        tensor = data.detach().requires_grad_(requires_grad)
        if type(tensor) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires "
                "that detach() returns an instance of the same type, but return type "
                f"{type(tensor).__name__} was found instead. To use the type as a Parameter, "
                "please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        tensor._is_param = True
        return tensor

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, **kwargs):
        return "Parameter containing:\n" + super().__repr__(**kwargs)

    def __reduce_ex__(self, protocol):
        # The third element stands for hooks, which are not saved; PyTorch's files have it.
        return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict(), state_of(self))


PLAIN.add(Parameter)  # calls on parameters take the fast path


def _rebuild_parameter(data, requires_grad, backward_hooks, state=None):
    parameter = Parameter(data, requires_grad)
    set_state(parameter, state)
    return parameter


class Buffer(Tensor, metaclass=_FlaggedMeta):
    """A tensor that belongs to a module's state but is not trained.

    Assigned to a module, it is registered as with `Module.register_buffer`.

    Args:
        data: the values (shared, not copied).
        persistent: whether it is part of the module's `state_dict`.
    """

    _ftorch_flag = "_is_buffer"
    __torch_function__ = classmethod(disabled)

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = torch.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


PLAIN.update((Parameter, Buffer))  # calls on them take the fast path: they override nothing


class UninitializedTensorMixin:
    """A tensor without data yet: only its dtype and device are known, and can be changed."""

    cls_to_become: type
    _lazy_allowed = frozenset(
        [
            "size",
            "copy_",
            "is_complex",
            "is_floating_point",
            "half",
            "float",
            "double",
            "char",
            "short",
            "int",
            "long",
            "cuda",
            "cpu",
            "to",
            "get_device",
            "__hash__",
        ]
    )

    def materialize(self, shape, device=None, dtype=None) -> None:
        """Becomes an ordinary parameter or buffer of the given shape, with undefined values.

        Args:
            device, dtype: instead of the ones it was made with.
        """
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = torch.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self, **kwargs):
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in cls._lazy_allowed or name in ("__get__", "__set__"):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` "
            "with a dummy batch to initialize the parameters before calling torch functions"
        )


def is_lazy(param) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy module before its first call.

    Args:
        device, dtype: of the parameter it will become.
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        data = torch.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copied = type(self)(self.requires_grad, self.data.device, self.data.dtype)
            memo[id(self)] = copied
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module before its first call.

    Args:
        device, dtype: of the buffer it will become.
    """

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        data = torch.empty(0, device=device, dtype=dtype)
        tensor = Tensor._make_subclass(cls, data, requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor
