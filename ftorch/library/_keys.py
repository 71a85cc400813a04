"""Dispatch keys: what a kernel is registered for, and in which order they are asked."""

from __future__ import annotations

import enum
import threading

from ..eager.dispatch.levels import Wrapped
from ..eager.native.contexts import repeatable
from ..eager.tensor import modes

_BACKENDS = (
    "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta"
).split()
_FUNCTIONALITIES = (
    "Undefined Dense FPGA Vulkan Metal Quantized CustomRNGKeyId MkldnnCPU Sparse SparseCsr NestedTensor "
    "BackendSelect Python Fake FuncTorchDynamicLayerBackMode Functionalize Named Conjugate Negative "
    "ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor Tracer "
    "AutocastCPU AutocastXPU AutocastCUDA AutocastMPS AutocastXLA FuncTorchBatched "
    "BatchedNestedTensor FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper "
    "DeferredInit PythonTLSSnapshot FuncTorchDynamicLayerFrontMode PreDispatch PythonDispatcher"
).split()
_ALIASES = (
    "Autograd CompositeImplicitAutograd CompositeImplicitAutogradNestedTensor "
    "CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional FuncTorchBatchedDecomposition"
).split()
_START = _FUNCTIONALITIES.index("AutogradOther")
_NAMES = [
    *_BACKENDS, *_FUNCTIONALITIES[:_START], *(f"Autograd{b}" for b in _BACKENDS),
    *_FUNCTIONALITIES[_START:], *_ALIASES,
]

DispatchKey = enum.Enum("DispatchKey", _NAMES, start=0)  # type: ignore[misc]
DispatchKey.__doc__ = "What an operator's kernels are registered for (``torch._C.DispatchKey``)."

_KEY_OF_DEVICE = {
    "cpu": "CPU", "cuda": "CUDA", "tpu": "XLA", "xla": "XLA", "meta": "Meta", "mps": "MPS",
    "xpu": "XPU", "hpu": "HPU", "ipu": "IPU", "ve": "VE", "lazy": "Lazy", "mtia": "MTIA",
    "maia": "MAIA", "hip": "HIP", "privateuseone": "PrivateUse1",
}


def key_of_device(device_type: str) -> str:
    """The backend's key of a device type: ``"cuda"`` is ``"CUDA"``.

    Raises:
        RuntimeError: for an unknown device type.
    """
    found = _KEY_OF_DEVICE.get(device_type.partition(":")[0])
    if found is None:
        raise RuntimeError(
            "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, "
            "maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of "
            f"device string: {device_type}"
        )
    return found


def parse(key) -> str:
    """The name of a key.

    Raises:
        RuntimeError: if there is no such key.
    """
    name = key.name if isinstance(key, DispatchKey) else key
    if name not in DispatchKey.__members__:
        raise RuntimeError(f"could not parse dispatch key: {name}")
    return name


class DispatchKeySet:
    """A set of keys (``torch._C.DispatchKeySet``).

    >>> import ftorch as torch
    >>> torch._C.DispatchKeySet(torch._C.DispatchKey.CPU).has(torch._C.DispatchKey.CPU)
    True
    """

    def __init__(self, *keys):
        self._keys = frozenset(k for key in keys for k in (
            key._keys if isinstance(key, DispatchKeySet) else (key,)))

    def has(self, key) -> bool:
        """Whether a key is in the set."""
        return key in self._keys

    def __or__(self, other):
        return DispatchKeySet(self, other)

    def __and__(self, other):
        return DispatchKeySet(*(self._keys & other._keys))

    def __sub__(self, other):
        return DispatchKeySet(*(self._keys - other._keys))

    def __contains__(self, key):
        return key in self._keys

    def __iter__(self):
        return iter(sorted(self._keys, key=lambda k: k.value))

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def __repr__(self):
        return f"DispatchKeySet({', '.join(k.name for k in self)})"


def backend_of(tensors) -> str:
    """The key of the backend that computes on some tensors: an accelerator's before the CPU's."""
    found = "CPU"
    for t in tensors:
        kind = t._ftorch_geometry.device.type
        if kind == "meta":
            return "Meta"
        if kind != "cpu":
            found = _KEY_OF_DEVICE[kind]
    return found


def keys_of(tensors) -> DispatchKeySet:
    """The keys that a call on some tensors goes through."""
    backend = backend_of(tensors)
    names = [backend, "ADInplaceOrView", f"Autograd{backend}"]
    if backend in ("CPU", "CUDA", "XLA"):
        names.append(f"Autocast{backend}")
    if any(isinstance(t, Wrapped) for t in tensors):
        names.append("FuncTorchBatched")
    return DispatchKeySet(*(DispatchKey[n] for n in names if n not in excluded()))


class _Excluded(threading.local):
    names: frozenset = frozenset()


_excluded = _Excluded()


def excluded() -> frozenset:
    """The names of the keys that calls of this thread skip."""
    return _excluded.names


class Exclude:
    """Within, calls skip some keys."""

    def __init__(self, names):
        self._names = frozenset(names)

    def __enter__(self):
        self._outer = _excluded.names, modes.grad
        _excluded.names = _excluded.names | self._names
        if any(name.startswith("Autograd") for name in self._names):
            modes.grad = False
        return self

    @repeatable
    def __exit__(self, *_):
        _excluded.names, modes.grad = self._outer


AUTOGRAD = frozenset(n for n in _NAMES if n.startswith(("Autograd", "ADInplace")))


class AutoDispatchBelowAutograd(Exclude):
    """Within, calls go straight to the backends' kernels (``torch._C._AutoDispatchBelowAutograd``)."""

    def __init__(self):
        super().__init__(AUTOGRAD)


class ExcludeKeys(Exclude):
    """Within, calls skip the keys of a set (``torch._C._ExcludeDispatchKeyGuard``)."""

    def __init__(self, keyset):
        names = {k.name for k in keyset}
        super().__init__(names | (AUTOGRAD if any(n in AUTOGRAD for n in names) else frozenset()))
