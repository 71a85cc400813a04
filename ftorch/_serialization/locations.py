"""How files name the devices of storages, and where storages are restored to."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import ftorch as torch

_package_registry: list[tuple[int, Callable, Callable]] = []


def register_package(
    priority: int,
    tagger: Callable[[Any], str | None],
    deserializer: Callable[[Any, str], Any],
) -> None:
    """Registers how storages of a device are tagged in files, and restored by their tag.

    The entry with the lowest priority whose function does not return None decides.
    """
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda entry: entry[0])


def _register_device(priority, kind):
    def restore(storage, location):
        if re.fullmatch(rf"{kind}(:?\d+)?", location):
            return storage.to(device=_validate_device(location, kind))
        return None

    def tag(storage):
        device = storage.device
        return str(device) if device.type == kind else None

    register_package(priority, tag, restore)


def _validate_device(location, kind):
    device = torch.device(location)
    if kind in ("cpu", "meta"):
        return torch.device(kind)
    module = getattr(torch, kind)
    if not module.is_available():
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but "
            f"torch.{kind}.is_available() is False. If you are running on a CPU-only machine, "
            "please use torch.load with map_location=torch.device('cpu') to map your storages to "
            "the CPU."
        )
    if (device.index or 0) >= module.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on {kind.upper()} device {device.index} but "
            f"torch.{kind}.device_count() is {module.device_count()}. Please use torch.load with "
            "map_location to map your storages to an existing device."
        )
    return device


for _priority, _kind in enumerate(("cpu", "cuda", "meta")):
    _register_device(10 * (_priority + 1), _kind)


def location_tag(storage) -> str:
    """The name of a storage's device in files.

    Raises:
        RuntimeError: if no registered function knows.
    """
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage, location: str):
    """The storage, on the device with that name.

    Raises:
        RuntimeError: if no registered function knows, or the device is not there.
    """
    for _, _, deserializer in _package_registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
        f"{location})"
    )


def restorer(map_location) -> Callable:
    """The function from a storage and its location that ``map_location`` stands for."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, map_location.get(location, location)
        )
    if isinstance(map_location, (str, bytes, torch.device)):
        target = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, target)

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


def validate_cuda_device(location: str):
    """The device that a file names, which must be there.

    Raises:
        RuntimeError: there is no such GPU.
    """
    return _validate_device(location, "cuda")


def validate_hpu_device(location: str):
    """Raises RuntimeError: JAX has no devices of that kind."""
    raise RuntimeError(
        "The HPU device module is not registered. If you are running on a CPU-only machine, please use "
        "torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
    )


# --- small things that older code names -------------------------------------------------


class SourceChangeWarning(Warning):
    """The source of a loaded module's class is another than when it was saved."""

    __module__ = "torch.serialization"


def mkdtemp():
    """A context that gives the name of a new folder, which is removed at its end."""
    return tempfile.TemporaryDirectory()


def normalize_storage_type(storage_type: type) -> type:
    """The class of storages on the CPU: ``torch.FloatStorage`` of ``torch.cuda.FloatStorage``."""
    return getattr(torch, storage_type.__name__)


def storage_to_tensor_type(storage) -> type:
    """The class of tensors of a storage's class, beside which it is named.

    Raises:
        AttributeError: there is none.
    """
    kind = type(storage)
    return getattr(sys.modules[kind.__module__], kind.__name__.replace("Storage", "Tensor"))
