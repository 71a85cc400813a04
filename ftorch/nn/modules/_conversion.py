"""Moving and casting modules: `Module.to` and its relatives."""

from __future__ import annotations

import warnings

from ... import __future__ as _settings
from ...autograd import no_grad
from ...eager.core import api as torch
from ...eager.core import dtype as dtypes
from ...eager.core.device import device as as_device
from ...eager.core.device import device as device_type
from ...eager.tensor import DISPATCHING, Tensor
from ...eager.tensor_api.conversions import wrong_combination
from ...eager.tensor_api.graph_methods import can_have_data_of
from ...utils._swap import swap_tensors
from ..parameter import Parameter


def _parse_to(*args, device=None, dtype=None, non_blocking=False, tensor=None, memory_format=None, copy=None, **others):
    """The arguments of ``to``: a tensor stands for its dtype and device.

    Returns:
        device, dtype, non_blocking, memory_format.

    Raises:
        TypeError: there is no such combination. RuntimeError: a copy is asked for.
    """
    given = {"device": device, "dtype": dtype, "tensor": tensor, "memory_format": memory_format}
    named = {k: v for k, v in given.items() if v is not None} | ({"non_blocking": non_blocking} if non_blocking else {})
    kinds = [next((n for n, kind in _KINDS.items() if isinstance(value, kind)), None) for value in args]
    given_twice = {*kinds} & {k for k in ("device", "dtype", "tensor") if given[k] is not None}
    if others or given_twice or not any(_fits(kinds, first) for first in (["device", "dtype"], ["dtype"], ["tensor"])):
        raise wrong_combination(args, named | others)
    if copy is not None or "copy" in _places(kinds):
        raise RuntimeError(".to() does not accept copy argument")
    for value in args:
        if isinstance(value, Tensor):
            tensor = value
        elif isinstance(value, dtypes.dtype):
            dtype = value
        elif isinstance(value, bool):
            non_blocking = value
        elif value is not None:
            device = value
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        dtype = torch.empty(0).to(dtype=dtype).dtype  # Python's types stand for some
    if tensor is not None:
        dtype, device = tensor.dtype, tensor.device
    device = device if device is None else as_device(device)
    return device, dtype, non_blocking, memory_format


_KINDS: dict = {"tensor": Tensor, "dtype": dtypes.dtype, "flag": bool, "device": (str, int, device_type), "none": type(None)}


def _fits(kinds, first):
    """Whether arguments of these kinds are those of ``to``: what ``first`` names, then two flags."""
    second = ("dtype", "none") if "device" in first else ("dtype",)
    takes = {"device": ("device", "none"), "dtype": second, "tensor": ("tensor",)}
    slots = [takes[name] for name in first] + [("flag",)] * 2
    return len(kinds) <= len(slots) and all(kind in slot for kind, slot in zip(kinds, slots))


def _places(kinds):
    """What the flags among arguments are."""
    return ("non_blocking", "copy")[: kinds.count("flag")]


class Conversion:
    """The part of `Module` that replaces its tensors' data."""

    _buffers: dict
    _parameters: dict

    def _apply(self, fn, recurse=True):
        """Replaces every parameter, gradient and buffer by ``fn`` of it, parameters in place.

        Raises:
            RuntimeError: parameters are to be exchanged (`ftorch.__future__`), and one cannot be.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            grad = parameter.grad
            if _settings.get_swap_module_params_on_conversion():
                self._ftorch_swap(name, parameter, fn)
            elif _settings.get_overwrite_module_params_on_conversion():
                with no_grad():
                    new = Parameter(fn(parameter), parameter.requires_grad)
                    if grad is not None:
                        new.grad = fn(grad).requires_grad_(grad.requires_grad)
                self._parameters[name] = new
            elif parameter.__class__ in DISPATCHING and hasattr(parameter, "__tensor_flatten__") and (
                not hasattr(parameter, "_local_tensor")
            ):
                self._ftorch_swap(name, parameter, fn)  # the class keeps its numbers where it likes
            else:
                with no_grad():
                    made = fn(parameter)
                    if can_have_data_of(parameter, made):
                        parameter.data = made
                    else:
                        self._parameters[name] = parameter = Parameter(made, parameter.requires_grad)
                    made = None if grad is None else fn(grad)
                    if made is not None and can_have_data_of(grad, made):
                        grad.data = made
                    elif made is not None:
                        parameter.grad = made.requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _ftorch_swap(self, name, parameter, fn):
        """Exchanges a parameter, and then its gradient, with ``fn`` of it."""
        grad = parameter.grad
        with no_grad():
            new = Parameter(fn(parameter), parameter.requires_grad)
        parameter.grad = None
        try:
            swap_tensors(parameter, new)
        except Exception as error:
            parameter.grad = grad
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}") from error
        if grad is None:
            return
        with no_grad():
            new_grad = fn(grad).requires_grad_(grad.requires_grad)
        try:
            swap_tensors(grad, new_grad)
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{name}.grad") from error
        parameter.grad = grad

    def apply(self, fn):
        """Calls ``fn`` with every submodule and then this module; for initialisation.

        >>> import ftorch as torch
        >>> layer = torch.nn.Linear(2, 1)
        >>> _ = layer.apply(lambda m: torch.nn.init.ones_(m.weight))
        >>> layer.weight.tolist()
        [[1.0, 1.0]]
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _ftorch_cast_floating(self, convert):
        return self._apply(lambda t: convert(t) if t.is_floating_point() else t)

    def float(self):
        """Casts floating-point parameters and buffers to float32."""
        return self._ftorch_cast_floating(lambda t: t.float())

    def double(self):
        """Casts floating-point parameters and buffers to float64."""
        return self._ftorch_cast_floating(lambda t: t.double())

    def half(self):
        """Casts floating-point parameters and buffers to float16."""
        return self._ftorch_cast_floating(lambda t: t.half())

    def bfloat16(self):
        """Casts floating-point parameters and buffers to bfloat16."""
        return self._ftorch_cast_floating(lambda t: t.bfloat16())

    def type(self, dst_type):
        """Casts all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def cuda(self, device=None):
        """Moves all parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device=None):
        """Moves all parameters and buffers to a GPU of Intel's; raises where there is none."""
        return self._apply(lambda t: t.xpu(device))

    def ipu(self, device=None):
        """Moves all parameters and buffers to an IPU; raises where there is none."""
        return self._apply(lambda t: t.ipu(device))

    def mtia(self, device=None):
        """Moves all parameters and buffers to an MTIA device; raises where there is none."""
        return self._apply(lambda t: t.mtia(device))

    def cpu(self):
        """Moves all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def to_empty(self, *, device, recurse=True):
        """Moves to a device without copying: the values are undefined afterwards."""
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse=recurse)

    def to(self, *args, **kwargs):
        """Moves or casts parameters and buffers in place: ``to(device, dtype)``, ``to(tensor)``.

        Only floating-point and complex tensors are cast.

        Raises:
            TypeError: a dtype that is neither floating point nor complex.
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                    f"dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may "
                    "change, and some modules might not work as expected when using complex "
                    "tensors as parameters or buffers. Please file an issue at "
                    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a "
                    "complex module does not work as expected.",
                    stacklevel=2,
                )

        def convert(t):
            castable = t.is_floating_point() or t.is_complex()
            more = {}
            if memory_format is not None and t.dim() in (4, 5):
                more["memory_format"] = memory_format
            try:
                return t.to(device, dtype if castable else None, non_blocking, **more)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def share_memory(self):
        """Moves the tensors where other processes see them: `Tensor.share_memory_` of each."""
        return self._apply(lambda t: t.share_memory_())
