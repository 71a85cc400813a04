"""Parameters computed from others whenever they are read (``torch.nn.utils.parametrize``)."""

from __future__ import annotations

import collections.abc
import copy
import copyreg

from ...autograd import no_grad
from ...eager.native.contexts import contextmanager
from ...eager.tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_SEQUENCE = "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "


_cache_enabled = 0  # how many blocks of `cached` are open
_cache: dict[tuple[int, str], Tensor] = {}  # the tensors computed in them


@contextmanager
def cached():
    """Computes each parametrized tensor once while the block is active.

    >>> import ftorch as torch
    >>> from ftorch.nn.utils import parametrize, parametrizations
    >>> layer = parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _describe_change(what, value, expected, flag, before, after):
    raise ValueError(
        f"Registering a parametrization may not change the {what} of the tensor, unless "
        f"{flag} flag is enabled.\n{before}: {expected}\n{after}: {value}"
    )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and the tensors that they start from.

    Attributes:
        original: what the first parametrization is applied to; ``original0``, ``original1``, ... if
            its ``right_inverse`` gave several tensors.
        unsafe: whether dtype and shape may change.

    Raises:
        ValueError: if ``right_inverse`` or the parametrizations give what they may not.
    """

    def __init__(self, modules, original, unsafe=False):
        modules = list(modules)
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            start = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        start = module.right_inverse(start)
                    except NotImplementedError:
                        pass  # it can be registered, but not assigned to
        self.is_tensor = isinstance(start, Tensor)
        if self.is_tensor:
            self.ntensors = 1
            self._adopt(original, start)
        elif isinstance(start, collections.abc.Sequence):
            self.ntensors = len(start)
            for i, part in enumerate(start):
                self._adopt_part(i, part, original)
        else:
            raise ValueError(f"{_SEQUENCE}{type(start).__name__}")
        if not unsafe:
            self._ftorch_check(self(), shape, dtype)

    def _adopt(self, original, start):
        for what in ("dtype", "device"):
            old, new = getattr(original, what), getattr(start, what)
            if old != new:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {old}\nright_inverse(original).{what}: {new}"
                )
        with no_grad():
            original.set_(start)
        _register(self, "original", original)

    def _adopt_part(self, i, part, original):
        if not isinstance(part, Tensor):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got element {i} of the sequence with type {type(part).__name__}."
            )
        if isinstance(original, Parameter):
            part = Parameter(part, original.requires_grad)
        part.requires_grad_(original.requires_grad)
        _register(self, f"original{i}", part)

    @staticmethod
    def _ftorch_check(result, shape, dtype):
        if not isinstance(result, Tensor):
            raise ValueError(
                f"A parametrization must return a tensor. Got {type(result).__name__}."
            )
        for what, expected in (("dtype", dtype), ("shape", shape)):
            value = getattr(result, what)
            if value != expected:
                _describe_change(
                    what, value, expected, "`unsafe`", f"unparametrized {what}",
                    f"parametrized {what}",
                )

    def _originals(self):
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Changes the original tensors so that the parametrized one becomes ``value``.

        Raises:
            RuntimeError: if a parametrization has no ``right_inverse``.
            ValueError: if one gives tensors of another number or dtype.
        """
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                    )
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} "
                        f"while `original` has dtype {self.original.dtype}"
                    )
                self.original.set_(value)
            else:
                self._assign_parts(value)

    def _assign_parts(self, parts):
        if not isinstance(parts, collections.abc.Sequence):
            raise ValueError(
                "'right_inverse' must return a sequence of tensors. Got "
                f"{type(parts).__name__}."
            )
        if len(parts) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(parts)}."
            )
        for i, (original, part) in enumerate(zip(self._originals(), parts, strict=True)):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. "
                    f"Got element {i} of type {type(part).__name__}."
                )
            if part.dtype != original.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} "
                    f"while `original{i}` has dtype {original.dtype}"
                )
            original.set_(part)

    def forward(self):
        first, *rest = self
        result = first(*self._originals())
        for module in rest:
            result = module(result)
        return result


def _make_class(module):
    """Gives the module a class of its own, which the properties go to."""
    cls = type(module)

    def deepcopy(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        for slot in copyreg._slotnames(type(self)):
            if hasattr(self, slot):
                setattr(replica, slot, copy.deepcopy(getattr(self, slot), memo))
        return replica

    def getstate(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    members = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _make_property(module, name):
    def read(self):
        parametrization = self.parametrizations[name]
        if not _cache_enabled:
            return parametrization()
        key = id(self), name
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def write(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def _check_addition(module, name, parametrization):
    """A further parametrization may change neither the tensor's dtype nor its shape."""
    old = getattr(module, name)
    new = parametrization(old)
    if not isinstance(new, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(new, what) != getattr(old, what):
            _describe_change(
                what, getattr(new, what), getattr(old, what), "the `unsafe`",
                f"module.{name}.{what}", f"parametrization(module.{name}).{what}",
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(new)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(old, what):
            raise ValueError(
                "The tensor returned by parametrization.right_inverse must have the same "
                f"{what} as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {getattr(old, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Makes a parameter or buffer the result of a module: ``parametrization(original)``.

    A parametrized tensor can get further parametrizations, applied in the order of registration.
    If the parametrization has a method ``right_inverse``, the tensor can be assigned to.

    Args:
        unsafe: the parametrization may change dtype or shape; nothing is checked.

    Returns:
        the module.

    Raises:
        ValueError: for no such tensor, or if the checks of a safe parametrization fail.

    >>> import ftorch as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = torch.nn.Linear(3, 3)
    >>> torch.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    ParametrizedLinear(
      in_features=3, out_features=3, bias=True
      (parametrizations): ModuleDict(
        (weight): ParametrizationList(
          (0): Symmetric()
        )
      )
    )
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_addition(module, tensor_name, parametrization)
        chain = module.parametrizations[tensor_name]
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        chain = ParametrizationList(
            [parametrization], getattr(module, tensor_name), unsafe=unsafe
        )
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _make_class(module)
            module.parametrizations = ModuleDict()
        _make_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def is_parametrized(module, tensor_name=None) -> bool:
    """Whether a tensor of the module, or any, is parametrized."""
    chains = getattr(module, "parametrizations", None)
    if not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes a parametrized tensor an ordinary parameter or buffer again.

    Args:
        leave_parametrized: it keeps the value that it has; otherwise it becomes the original.

    Raises:
        ValueError: if it is not parametrized, or for ``leave_parametrized=False`` where there are
            several originals.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        kept = chain.original
        if leave_parametrized:
            with no_grad():
                kept.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        kept = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, kept)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module) -> type:
    """The class that the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Registers the parametrizations of one module with another, which shares their originals.

    Args:
        tensor_name: the tensor to transfer; by default all that are parametrized.
    """
    if is_parametrized(from_module):
        chains = from_module.parametrizations
        for name in [tensor_name] if tensor_name is not None else list(chains):
            if not hasattr(to_module, name):
                setattr(to_module, name, Parameter(getattr(from_module, name)))
            for parametrization in chains[name]:
                register_parametrization(to_module, name, parametrization)
            target: Module = to_module.parametrizations[name]
            for key, original in chains[name]._parameters.items():
                setattr(target, key, original)
            for key, original in chains[name]._buffers.items():
                setattr(target, key, original)
    return to_module
