"""Devices: ``torch.device``, what JAX platform each stands for, and the default device."""

from __future__ import annotations

import functools
import re
import threading

import jax
import numpy as np

from . import forking
from .jax_internals import batched_put
from .jax_scope import scoped

# PyTorch's device types and the JAX platform behind each. "cuda" covers CUDA and ROCm.
_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu", "meta": None}
_SYNONYMS = {"gpu": "cuda", "xla": "tpu"}
_KNOWN_ELSEWHERE = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)
_FORM = re.compile(r"([a-z]+)(?::(0|[1-9]\d*))?\Z")


class device:
    """Where a tensor lives: ``device("cpu")``, ``device("cuda:1")``, ``device("cuda", 1)``.

    "gpu" is accepted for "cuda". As a context manager it sets the device of new tensors.
    Instances are interned.

    Raises:
        RuntimeError: for an unknown device type or a malformed string.

    >>> import ftorch as torch
    >>> torch.device("cuda:1").index
    1
    """

    __module__ = "ftorch"

    __slots__ = ("type", "index")
    type: str
    index: int | None

    def __new__(cls, device=None, index=None, *, type=None):
        device = type if device is None else device
        if isinstance(device, _Device):
            return device
        if isinstance(device, int):
            if device < 0:
                raise RuntimeError("Device index must not be negative")
            kind = next((kind for kind in ("cuda", "tpu") if _count(kind)), None)
            if kind is None:
                raise RuntimeError("Cannot access accelerator device when none is available.")
            return _intern(kind, device)
        if not isinstance(device, str):
            given = "" if device is None else _type_name(device)
            if device is None and index is not None:
                given = f"index={_type_name(index)}, "
            why = "" if not given else (
                f"\n      didn't match because some of the arguments have invalid types: (!{given}!)"
                if device is not None else "\n      didn't match because some of the keywords were incorrect: index"
            )
            raise TypeError(
                f"device() received an invalid combination of arguments - got ({given}), but expected one of:\n"
                f" * (torch.device device){why}\n * (str type, int index = -1)\n"
            ) if index is None or device is None else TypeError(
                f"device(): argument 'type' (position 1) must be str, not {given}"
            )
        if index is not None and not isinstance(index, int):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {_type_name(index)}")
        kind, ordinal = _parse(device)
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        if index is not None and ordinal is not None:
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: "
                f"{device}"
            )
        return _intern(kind, ordinal if index is None else index)

    def __repr__(self):
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self):
        return _Device, (str(self),)

    def __enter__(self):
        local.stack = (*local.stack, self)
        return self

    def __exit__(self, *_):
        local.stack = local.stack[:-1]


_Device = device


def _type_name(value):
    return type(value).__name__


def _parse(text):
    match = _FORM.match(text)
    if not text:
        raise RuntimeError("Device string must not be empty")
    if not match:
        raise RuntimeError(f"Invalid device string: '{text}'")
    kind = _SYNONYMS.get(match[1], match[1])
    if kind not in _PLATFORMS:
        if kind in _KNOWN_ELSEWHERE:
            return kind, None if match[2] is None else int(match[2])
        raise RuntimeError(
            f"Expected one of {', '.join(_KNOWN_ELSEWHERE)} device type at start of device string: "
            f"{match[1]}"
        )
    return kind, None if match[2] is None else int(match[2])


_interned: dict[tuple, device] = {}


def _intern(kind, index):
    found = _interned.get((kind, index))
    if found is None:
        found = object.__new__(_Device)
        found.type, found.index = kind, index
        found = _interned.setdefault((kind, index), found)  # another thread may have been first
    return found


CPU = _intern("cpu", None)
META = _intern("meta", None)


@functools.cache
def jax_devices(kind: str) -> tuple:
    """The JAX devices of a device type, () where there are none."""
    try:
        return tuple(jax.devices(_PLATFORMS[kind]))
    except (RuntimeError, KeyError):
        return ()


def _count(kind):
    return len(jax_devices(kind))


@functools.cache
def over(mesh: jax.sharding.Mesh) -> device:
    """What tensors over several JAX devices of this process have for a device: each is one array with a sharding.

    It looks like the device of one of them (``device(type='cpu')``), and is another object than that.
    """
    made = object.__new__(_Device)
    made.type, made.index = from_jax(mesh.devices.flat[0]).type, None
    _over[made] = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return made


_over: dict[device, jax.sharding.NamedSharding] = {}  # where a tensor lies that is whole on each of them


def is_several(where: device) -> bool:
    """Whether a device stands for several of JAX's (`over`)."""
    return where in _over


@functools.cache
def to_jax(where: device):
    """The JAX device behind a device, or the sharding of what is whole on each of several (`over`).

    Raises:
        AssertionError, RuntimeError: in PyTorch's words if this machine has no such device.
    """
    if where in _over:
        return _over[where]
    found = jax_devices(where.type)
    if not found:
        if where.type == "cuda":
            raise AssertionError("Torch not compiled with CUDA enabled")
        raise RuntimeError(f"PyTorch is not linked with support for {where.type} devices")
    index = where.index or 0
    if index >= len(found):
        raise RuntimeError(f"{where.type.upper()} error: invalid device ordinal")
    return found[index]


forked = [False]
"""Whether this process was forked from one that had computed: XLA's threads are not there."""
NOT_COMPUTED = "a value was not computed yet when the process was forked: compute it before, or use the 'spawn' start method"


def _in_child():
    forked[0] = jax_devices.cache_info().currsize > 0


forking.after.append(_in_child)


@functools.lru_cache(256)  # sizes may change from step to step
def _placement(shape, dtype, jax_device):
    return jax.core.ShapedArray(shape, dtype), jax.sharding.SingleDeviceSharding(jax_device)


@scoped
def put(array, where: device) -> jax.Array:
    """A NumPy array on a device. On the CPU JAX may keep the buffer: hand over one that stays as it is.

    In a forked child the CPU's arrays are NumPy's: XLA copies in threads of its own, which are not there.
    """
    if forked[0] and where is CPU:
        return np.asarray(array)  # type: ignore[return-value]
    target = to_jax(where)
    if batched_put is None or where in _over:
        return jax.device_put(array, target)
    return batched_put(*_placement(array.shape, array.dtype, target), [array], [target], True)


@scoped
def moved(array, where: device):
    """An array for programs of an accelerator or of several devices: one of the CPU is put there."""
    if isinstance(array, jax.Array) and array.committed and array.sharding.device_set != device_set(where):
        return jax.device_put(array, to_jax(where))
    return array


@functools.cache
def device_set(where: device) -> frozenset:
    """The JAX devices behind a device."""
    found = to_jax(where)
    return frozenset(found.device_set if where in _over else (found,))


def canonical(where: device) -> device:
    """The device a tensor reports: accelerators always have an index, the CPU and meta never."""
    if where.type in ("cpu", "meta"):
        return where if where in _over else _intern(where.type, None)
    return where if where.index is not None else _intern(where.type, current_index())


def current_index() -> int:
    """The index that an accelerator without one stands for in this thread."""
    return local.index


def set_current_index(index: int) -> None:
    """Makes ``device("cuda")`` stand for another accelerator in this thread."""
    local.index = index


@functools.cache
def from_jax(jax_device) -> device:
    """The device of a JAX device."""
    if jax_device.platform == "cpu":
        return CPU
    kind = "tpu" if jax_device.platform == "tpu" else "cuda"
    return _intern(kind, jax_devices(kind).index(jax_device))


# --- the default device --------------------------------------------------------------

class _Local(threading.local):
    index = 0  # of the accelerator that one without an index stands for
    stack: tuple[device, ...] = ()  # of default devices: what is missing takes a thread long to find


local = _Local()
default = CPU


def get_default_device() -> device:
    """The device of new tensors (``torch.get_default_device``)."""
    stack = local.stack
    return stack[-1] if stack else default


def set_default_device(device) -> None:
    """Sets the device of new tensors (``torch.set_default_device``); None means the CPU."""
    global default
    default = CPU if device is None else canonical(_Device(device))


_Device = device  # where a parameter has its name


def resolve(where) -> device:
    """The canonical device of a ``device=`` argument; None is the default device."""
    if where is None:
        where = get_default_device()
    elif where.__class__ is not _Device:
        where = _Device(where)
    return where if where is CPU else canonical(where)
