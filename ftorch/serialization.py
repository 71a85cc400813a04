"""`save` and `load`: PyTorch's checkpoint files (``torch.serialization``).

Files that ftorch writes are read by PyTorch, and the other way round: state dicts, tensors with
shared storages, optimizer states and, with ``weights_only=False``, whole objects.
"""

from __future__ import annotations

import io
import mmap as _mmap
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import IO, Any

import numpy as np

import ftorch as torch

from . import _weights_only_unpickler
from ._serialization import pickling as _pickle
from ._serialization import zip_archive as _zip
from ._serialization.locations import (
    SourceChangeWarning,
    default_restore_location,
    location_tag,
    mkdtemp,
    normalize_storage_type,
    register_package,
    restorer,
    storage_to_tensor_type,
    validate_cuda_device,
    validate_hpu_device,
)
from ._serialization.options import (
    OPTIONS,
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from ._serialization.pickling import (
    LoadedStorage,
    StorageType,
    TypedLoadedStorage,
    _get_layout,  # noqa: F401  (files name it here)
)
from ._serialization.record_files import PyTorchFileReader, PyTorchFileWriter
from ._utils import unread, validate_sparse
from .eager.native.contexts import contextmanager

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "mkdtemp",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
    "validate_hpu_device",
]

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # starts a file of the legacy format
PROTOCOL_VERSION = 1001

_ALIGNMENT = 64  # of storages in a file

UNSAFE_MESSAGE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed, but it can result in arbitrary code execution. Do it only if you got the "
    "file from a trusted source."
)


# --- what may be loaded ------------------------------------------------------------------


FileLike = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION = Callable[[Any, str], Any] | torch.device | str | dict[str, str] | None


def add_safe_globals(safe_globals: list[Callable | tuple[Callable, str]]) -> None:
    """Lets ``load(weights_only=True)`` use these classes and functions.

    Args:
        safe_globals: the objects, or pairs of an object and the path that files name it by.
    """
    _weights_only_unpickler._add_safe_globals(safe_globals)


def get_safe_globals() -> list[Callable | tuple[Callable, str]]:
    """What was added by `add_safe_globals`."""
    return _weights_only_unpickler._get_safe_globals()


def clear_safe_globals() -> None:
    """Takes back what was added by `add_safe_globals`."""
    _weights_only_unpickler._clear_safe_globals()


class safe_globals(_weights_only_unpickler._safe_globals):
    """`add_safe_globals` for the duration of a ``with`` block."""


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """The names in a checkpoint that ``load(weights_only=True)`` would refuse. Runs nothing.

    Raises:
        ValueError: if it is no file of `save`'s.
    """
    with _open_for_reading(f) as file:
        if not _zip.is_zip(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        archive = _zip.ArchiveReader(file)
        if _is_torchscript(archive):
            raise ValueError(
                "Expected input to be a checkpoint returned by torch.save but got a torchscript "
                "checkpoint"
            )
        names = _weights_only_unpickler.get_globals_in_pkl(io.BytesIO(archive.read("data.pkl")))
    return list(names - _weights_only_unpickler.allowed_names())


# --- saving ------------------------------------------------------------------------------


def save(obj: object, f: str | os.PathLike | IO[bytes], pickle_module: Any = pickle,
         pickle_protocol: int = DEFAULT_PROTOCOL, _use_new_zipfile_serialization: bool = True,
         _disable_byteorder_record: bool = False) -> None:
    """Writes an object to a file (``torch.save``) that PyTorch can read as well.

    Tensors that share storage share it in the file. A path is replaced when the new file is
    complete: an error or a crash leaves the old one as it was.

    Args:
        f: a path, or a file that can be written to.
        pickle_module: pickles the object. Files of other modules than `pickle` name ftorch's
            classes and functions, so PyTorch cannot read them.

    Raises:
        AttributeError: if ``f`` is neither.
        RuntimeError: if a folder does not exist, or if tensors share storage but not the dtype.

    >>> import ftorch as torch, io
    >>> buffer = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2)}, buffer)
    >>> _ = buffer.seek(0)
    >>> torch.load(buffer)
    {'weight': tensor([1., 1.])}
    """
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        name, target = (
            os.path.splitext(os.path.basename(path))[0] or "archive",
            _zip.replacing(path),
        )
    elif hasattr(f, "write"):
        name, target = "archive", nullcontext(f)
    else:
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    if _use_new_zipfile_serialization:
        # Pickled before the file is opened: most errors come from here.
        pickled, storages = _pickled(obj, pickle_module, pickle_protocol)
        with target as file, _zip.ArchiveWriter(file, name, _ALIGNMENT) as archive:
            archive.write("data.pkl", pickled)
            archive.write(".format_version", b"1")
            archive.write(".storage_alignment", str(_ALIGNMENT).encode())
            if not _disable_byteorder_record:
                archive.write("byteorder", sys.byteorder.encode())
            for key, storage in storages.items():
                skipped = OPTIONS.skip_data
                archive.write(f"data/{key}", bytes(storage.nbytes) if skipped else storage.data())
            archive.write("version", b"3\n")
            archive.write(".data/serialization_id", archive.identity())
    elif OPTIONS.skip_data:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    else:
        pickled, storages = _pickled(obj, pickle_module, pickle_protocol, legacy=True)
        with target as file:
            for value in (MAGIC_NUMBER, PROTOCOL_VERSION, _system_information()):
                pickle.dump(value, file, protocol=pickle_protocol)
            file.write(pickled)
            pickle.dump(sorted(storages), file, protocol=pickle_protocol)
            file.flush()
            for key in sorted(storages):
                _pickle.write_storage(file, storages[key])
            file.flush()


def _pickled(obj, pickle_module, protocol, legacy=False):
    buffer = io.BytesIO()
    pickler = _pickle.pickler(buffer, protocol, location_tag, pickle_module, legacy)
    pickler.dump(obj)
    return buffer.getvalue(), pickler.storages


def _system_information():
    return {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }


# --- loading -----------------------------------------------------------------------------


def load(f: str | os.PathLike | IO[bytes], map_location: Any = None, pickle_module: Any = None, *,
         weights_only: bool | None = None, mmap: bool | None = None,
         **pickle_load_args: Any) -> Any:
    """Reads what `save`, or PyTorch's, has written (``torch.load``).

    Args:
        f: a path, or a seekable file.
        map_location: the device to load to: a device, a dict from saved locations to devices, or a
            function of a storage and its location. By default where it was saved from.
        weights_only: accept tensors, plain containers and what `add_safe_globals` lists, and run
            nothing else. False runs whatever the file says: for trusted files only.
        mmap: map the file instead of reading it; pages are read when they are used.
        pickle_load_args: passed to the unpickler, with ``weights_only=False``.

    Raises:
        pickle.UnpicklingError: if ``weights_only`` forbids something in the file.
        RuntimeError: if the file is damaged, or a device is not there.
        FileNotFoundError: if there is none.
    """
    weights_only, pickle_module = _check_mode(weights_only, pickle_module)
    if pickle_load_args and weights_only:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    pickle_load_args.setdefault("encoding", "utf-8")
    is_path = isinstance(f, (str, os.PathLike))
    if is_path and os.fspath(f).endswith(".safetensors"):
        return _load_safetensors(os.fspath(f), map_location)
    with _open_for_reading(f) as file:
        if _zip.is_zip(file):
            archive = _zip.ArchiveReader(file)
            if _is_torchscript(archive):
                warnings.warn(
                    "'torch.load' received a zip file that looks like a TorchScript archive "
                    "dispatching to 'torch.jit.load' (call 'torch.jit.load' directly to silence this "
                    "warning)",
                    UserWarning,
                    stacklevel=2,
                )
                if weights_only:
                    raise RuntimeError(
                        "Cannot use ``weights_only=True`` with TorchScript archives passed to "
                        "``torch.load``. " + UNSAFE_MESSAGE
                    )
                file.seek(0)
                return torch.jit.load(file, map_location=map_location)
            if mmap:
                if not is_path:
                    raise ValueError("f must be a file path in order to use the mmap argument")
                shared = OPTIONS.mmap_flags == getattr(_mmap, "MAP_SHARED", -1)
                archive.mapped = _zip.map_file(os.fspath(f), shared)
            reader = _ZipReader(archive, map_location)
        elif mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with "
                f"`torch.save({f'{f}, ' if is_path else ''}_use_new_zipfile_serialization=True), "
                "please torch.save your checkpoint with this option in order to use mmap."
            )
        else:
            reader = _LegacyReader(file, map_location)
        if not weights_only:
            return reader.load(pickle_module, pickle_load_args)
        try:
            return reader.load(_weights_only_unpickler, pickle_load_args)
        except pickle.UnpicklingError as e:
            raise pickle.UnpicklingError(_weights_only_message(str(e))) from None


def _check_mode(weights_only, pickle_module):
    forced = os.getenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
    lifted = os.getenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in (
        "1", "y", "yes", "true",
    )
    if forced and lifted:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if forced:
        weights_only = True
    elif lifted and weights_only is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the"
            "`weights_only` argument was not explicitly passed to `torch.load`, forcing "
            "weights_only=False.",
            stacklevel=3,
        )
        weights_only = False
    if weights_only is None:
        weights_only = pickle_module is None or pickle_module is _weights_only_unpickler
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return weights_only, pickle_module or pickle


def _weights_only_message(message):
    manual = (
        "\n\nCheck the documentation of torch.load to learn more about types accepted by default "
        "with weights_only https://pytorch.org/docs/stable/generated/torch.load.html."
    )
    if "was not an allowed global by default." in message:
        return (
            "Weights only load failed. This file can still be loaded, to do so you have two "
            "options, \033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
            f"\n\t(1) {UNSAFE_MESSAGE}\n\t(2) Alternatively, to load with `weights_only=True` "
            "please check the recommended steps in the following error message.\n\t"
            f"WeightsUnpickler error: {message}{manual}"
        )
    report = "" if "is blocked" in message else (
        "Please file an issue with the following so that we can make `weights_only=True` compatible with your use "
        "case: WeightsUnpickler error: "
    )
    return f"Weights only load failed. {UNSAFE_MESSAGE}\n{report}\n\n{message}{manual}"


def _open_for_reading(f):
    if isinstance(f, (str, os.PathLike)):
        return _zip.open_file(f, "rb")
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as e:
        raise type(e)(
            f"{e}. You can only torch.load from a file that is seekable. Please pre-load the data "
            "into a buffer like io.BytesIO and try to load from it instead."
        ) from None
    return nullcontext(f)


_is_zipfile = _zip.is_zip


@contextmanager
def _open_zipfile_reader(name_or_buffer):
    yield PyTorchFileReader(name_or_buffer)


@contextmanager
def _open_zipfile_writer(name_or_buffer):
    writer = PyTorchFileWriter(name_or_buffer)
    yield writer
    writer.write_end_of_file()


def _is_torchscript(archive):
    return "constants.pkl" in archive


def _load_safetensors(path, map_location):
    if isinstance(map_location, dict) or callable(map_location):
        kind = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(  # noqa: TRY004  (PyTorch's)
            f"Loading safetensors file with {kind} map_location is not supported. "
            "Use a device string or torch.device instead."
        )
    from safetensors.numpy import load_file

    device = "cpu" if map_location is None else str(map_location)
    return {name: torch.from_numpy(a).to(device) for name, a in load_file(path).items()}


class _Reader:
    """What the two formats have in common."""

    def __init__(self, map_location):
        self.restore = restorer(map_location)
        self.storages: dict[Any, Any] = {}
        self.typed: dict[Any, TypedLoadedStorage] = {}

    def unpickle(self, file, pickle_module, arguments):
        """One pickle of the file."""
        if pickle_module is _weights_only_unpickler:
            unpickler = _weights_only_unpickler.Unpickler(file, **arguments)
            unpickler.persistent_load = self.persistent_load  # type: ignore[method-assign]
        else:
            unpickler = _pickle.unpickler(file, self.persistent_load, pickle_module, **arguments)
        found = unpickler.load()
        self.settle()
        return found

    def settle(self):
        """Makes storages that a pickle has named such as others are."""
        while self.typed:
            self.typed.popitem()[1].settle()

    def persistent_load(self, saved_id):
        """The storage that a persistent id names."""
        if not isinstance(saved_id, tuple) or _text(saved_id[0]) != "storage":
            raise pickle.UnpicklingError(f"Unknown saved id: {saved_id!r}")
        if len(saved_id) < 5 or not isinstance(saved_id[1], StorageType):
            raise pickle.UnpicklingError(f"Unknown saved id: {saved_id!r}")
        kind, key, location, count = saved_id[1:5]
        if not isinstance(count, int) or count < 0:
            raise pickle.UnpicklingError(f"A storage of {count!r} elements")
        if key not in self.storages:
            storage = self.make_storage(key, count * kind.itemsize, kind.dtype, _text(location))
            self.storages[key] = self.restore(storage, storage.location)
        if key not in self.typed:
            self.typed[key] = TypedLoadedStorage(self.storages[key], kind.dtype)
        return self.typed[key]

    def make_storage(self, key, nbytes, dtype, location) -> LoadedStorage:
        raise NotImplementedError


class _ZipReader(_Reader):
    def __init__(self, archive, map_location):
        super().__init__(map_location)
        self.archive = archive
        self.is_meta = map_location is not None and str(map_location) == "meta"
        self.swap = self._byte_order() != sys.byteorder

    def _byte_order(self):
        if "byteorder" in self.archive:
            order = self.archive.read("byteorder").decode(errors="replace")
            if order not in ("little", "big"):
                raise ValueError(f"Unknown endianness type: {order}")
            return order
        assumed = OPTIONS.endianness or LoadEndianness.LITTLE
        return sys.byteorder if assumed is LoadEndianness.NATIVE else assumed.name.lower()

    def load(self, pickle_module, arguments):
        """The object in the archive."""
        return self.unpickle(io.BytesIO(self.archive.read("data.pkl")), pickle_module, arguments)

    def make_storage(self, key, nbytes, dtype, location):
        if OPTIONS.skip_data or self.is_meta:
            data = None if self.is_meta else np.zeros(nbytes, np.uint8)
        else:
            data = self.archive.read_array(f"data/{key}")
            if data.size != nbytes:
                raise RuntimeError(
                    f"PytorchStreamReader failed reading file data/{key}: it has {data.size} "
                    f"bytes, not {nbytes}"
                )
            if self.swap and dtype is not None:
                data = _swapped(data, dtype)
        return LoadedStorage(nbytes, data, dtype, location)


def _swapped(data, dtype):
    unit = dtype.itemsize // (2 if dtype.is_complex else 1)
    return data.reshape(-1, unit)[:, ::-1].reshape(-1)


class _LegacyReader(_Reader):
    """The format of PyTorch 0.1.10 to 1.5: pickles, then the storages one after the other."""

    def __init__(self, file, map_location):
        super().__init__(map_location)
        self.file = file

    def load(self, pickle_module, arguments):
        """The object in the file."""
        if self.unpickle(self.file, pickle_module, arguments) != MAGIC_NUMBER:
            raise RuntimeError("Invalid magic number; corrupt file?")
        version = self.unpickle(self.file, pickle_module, arguments)
        if version != PROTOCOL_VERSION:
            raise RuntimeError(f"Invalid protocol version: {version}")
        information = self.unpickle(self.file, pickle_module, arguments)
        swap = _is_little_endian(information) != (sys.byteorder == "little")
        before, sparse = getattr(unread, "sparse", None), []
        unread.sparse = sparse
        try:
            result = self.unpickle(self.file, pickle_module, arguments)
        finally:
            unread.sparse = before
        for key in self.unpickle(self.file, pickle_module, arguments):
            storage = self.storages.get(key)
            count = _pickle.read_count(self.file)
            if not isinstance(storage, LoadedStorage):
                raise pickle.UnpicklingError(f"{key!r} is not the key of a storage in the file")
            itemsize = storage.dtype.itemsize if storage.dtype else 1
            if count * itemsize != storage.nbytes():
                raise RuntimeError(f"storage has wrong byte size: expected {storage.nbytes()}")
            data = _zip.read_array(self.file, storage.nbytes())
            if data.size != storage.nbytes():
                raise RuntimeError("unexpected EOF. The file might be corrupted.")
            storage.fill(_swapped(data, storage.dtype) if swap and storage.dtype else data)
        for storage in self.storages.values():
            if isinstance(storage, _pickle.StorageView):
                storage.settle()
        validate_sparse(sparse)
        return result

    def persistent_load(self, saved_id):
        if isinstance(saved_id, tuple) and saved_id and _text(saved_id[0]) == "module":
            return saved_id[1]  # a class, with its source code as it was
        storage = super().persistent_load(saved_id)
        view = saved_id[5] if len(saved_id) > 5 else None
        if view is None:
            return storage
        key, offset, size = view
        if key not in self.storages:
            self.storages[key] = _pickle.StorageView(storage, offset, size)
        return self.storages[key]

    def make_storage(self, key, nbytes, dtype, location):
        return LoadedStorage(nbytes, None, dtype, location)


def _is_little_endian(information):
    return not isinstance(information, dict) or information.get("little_endian", True)


def _text(value):
    # Keys that Python 2 wrote are bytes if the encoding says so.
    return value.decode("ascii") if isinstance(value, bytes) else value


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether a module's ``__version__`` is at least the given tuple.

    Raises:
        RuntimeError: if the version is malformed and ``error_if_malformed``.
    """
    try:
        parts = module.__version__.split(".")
        version = tuple(type(field)(parts[i]) for i, field in enumerate(req_version_tuple))
        return version >= req_version_tuple
    except Exception as e:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and "
            f"cannot be compared with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from e
        warnings.warn(f"{message}, but continuing assuming that requirement is met", stacklevel=2)
        return True
