"""Pickles of tensors: how they are taken apart, put together again, and named in files.

Files call everything by PyTorch's names, so that PyTorch reads what ftorch writes and the other way
round: ``ftorch.nn.modules.linear.Linear`` is ``torch.nn.modules.linear.Linear`` in a file.
"""

from __future__ import annotations

import importlib
import pickle
import struct
import types
from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import _utils
from ..eager.core import device as _device
from ..eager.core import dtype as _dtype
from ..eager.core import formats as _formats
from ..eager.core.geometry import CONJ, NEG, Size, geometry, memory_order
from ..eager.memory.storage import Storage
from ..eager.tensor import DISPATCHING, Tensor, state_of, wrap, wrap_view
from ..eager.tensor_api.storage_memory import bytes_of, cell_of
from ..eager.tensor_api.storages import BaseStorage, TypedStorage, UntypedStorage
from .storage_types import STORAGE_TYPE_OF, STORAGE_TYPES, UNTYPED, StorageType

# --- tensors to storages and back --------------------------------------------------------


class SavedStorage:
    """A tensor's storage on its way into a file."""

    def __init__(self, cell: Storage, dtype: _dtype.dtype, kind: StorageType | None = None):
        self.cell, self.dtype = cell, dtype
        self.type = kind or STORAGE_TYPE_OF.get(dtype, UNTYPED)
        self.nbytes, self.device = cell.nbytes, cell.root.device
        self.count = self.nbytes // self.type.itemsize

    def data(self) -> np.ndarray:
        """The bytes, in memory order."""
        cell = self.cell
        if cell.host is not None:
            memory = cell.host
        else:
            order = memory_order(cell.root.stride, cell.root.shape)
            memory = np.ascontiguousarray(np.asarray(cell.ready()).transpose(order))
        return memory.reshape(-1).view(np.uint8)


class LoadedStorage(UntypedStorage):
    """A storage out of a file, from which tensors are made. It is what ``map_location`` gets.

    Its cell is made with the first tensor, whose geometry it takes if it can.

    Args:
        data: its bytes, or None if they are not wanted or not read yet (`fill`).
        dtype: that of its elements, None if only its tensors know.
    """

    def __init__(self, nbytes: int, data: np.ndarray | None, dtype: _dtype.dtype | None,
                 location: str = "cpu"):
        self._nbytes, self._data, self.dtype, self.location = nbytes, data, dtype, location
        self.device = _device.CPU
        self._made: Storage | None = None

    device: _device.device = _device.CPU  # type: ignore[assignment]

    @property
    def _cell(self) -> Storage:  # type: ignore[override]
        return self._made or self._make_cell(None)

    def __reduce__(self):
        return LoadedStorage, (self._nbytes, self._data, self.dtype)

    def nbytes(self) -> int:
        """How many bytes it has."""
        return self._nbytes

    def to(self, *, device, non_blocking=False) -> LoadedStorage:
        """Says on which device its tensors are to be."""
        self.device = _device.canonical(_device.device(device))
        return self

    def cpu(self) -> LoadedStorage:
        """``to(device="cpu")``."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False) -> LoadedStorage:
        """``to(device=...)`` with a CUDA device."""
        return self.to(device=_device.device("cuda", device) if device is not None else "cuda")

    def as_tensor(self, dtype, offset, size, stride) -> Tensor:
        """The tensor that lies in this storage as the arguments say.

        Raises:
            RuntimeError: if it reaches outside the storage.
        """
        dtype = dtype or self.dtype or _dtype.uint8
        size, stride = tuple(size), tuple(stride)
        self._check_bounds(dtype, offset, size, stride)
        g = geometry(Size(size), dtype, self.device, stride)
        cell = self._made or self._make_cell(g if offset == 0 else None)
        return wrap(cell) if g is cell.root and offset == 0 else wrap_view(cell, g, offset, None)

    def _make_cell(self, first) -> Storage:
        # A tensor that fills the storage gives it its shape: reading it is then free.
        dtype = first.dtype if first else self.dtype or _dtype.uint8
        count = self._nbytes // dtype.itemsize
        fits = first is not None and first.is_dense and first.numel == count
        root = first if fits else geometry(Size((count,)), dtype, self.device)
        self._made = Storage(root)
        if self._data is not None:
            self.fill(self._data)
        return self._made

    def _check_bounds(self, dtype, offset, size, stride):
        if len(size) != len(stride):
            raise RuntimeError(
                f"mismatch in length of strides and shape: {list(stride)} and {list(size)}"
            )
        if any(n < 0 for n in (offset, *size, *stride)):
            raise RuntimeError(
                f"a tensor of size {list(size)}, stride {list(stride)} and storage offset {offset} "
                "cannot exist"
            )
        if 0 in size:
            return
        needed = 1 + offset + sum((n - 1) * s for n, s in zip(size, stride))
        if needed * dtype.itemsize > self._nbytes:
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, "
                f"and itemsize {dtype.itemsize} requiring a storage size of "
                f"{needed * dtype.itemsize} are out of bounds for storage of size {self._nbytes}"
            )

    def fill(self, data: np.ndarray) -> None:
        """Provides the bytes; tensors that were made before have them from then on."""
        self._data = data
        cell = self._made
        if cell is None or self.device is _device.META:
            return
        root = cell.root
        flat = data[: root.numel * root.dtype.itemsize]
        # A damaged file must not bring bools into the world that are neither 0 nor 1.
        flat = flat != 0 if root.dtype is _dtype.bool else flat.view(root.dtype.numpy)
        order = memory_order(root.stride, root.shape)
        inverse = sorted(range(len(order)), key=order.__getitem__)
        array = flat.reshape([root.shape[d] for d in order]).transpose(inverse)
        cell.array = _device.put(array, self.device)


class TypedLoadedStorage(TypedStorage):
    """A storage out of a file as the pickle has it: of elements. Tensors are made of it first, so that it has no cell before
    `settle` makes it an ordinary one.
    """

    def __init__(self, loaded: LoadedStorage, dtype: _dtype.dtype | None):
        self.loaded, self.dtype = loaded, dtype or _dtype.uint8

    def as_tensor(self, dtype, offset, size, stride) -> Tensor:
        """As of the `LoadedStorage`."""
        return self.loaded.as_tensor(dtype, offset, size, stride)

    @property
    def _cell(self) -> Storage:  # type: ignore[override]
        return self.loaded._cell

    def settle(self) -> None:
        """Becomes a storage as others are."""
        loaded = self.__dict__.pop("loaded")
        self.__class__ = TypedStorage  # type: ignore[assignment]
        self._cell = loaded._cell  # type: ignore[misc]


class StorageView(TypedStorage):
    """A part of a storage, as files before PyTorch 0.4 have it; no storage before `settle`, as `TypedLoadedStorage`."""

    def __init__(self, storage: TypedLoadedStorage, offset: int, size: int):
        self.storage, self.offset, self.dtype = storage, offset, storage.dtype
        self.stop = offset + size

    def as_tensor(self, dtype, offset, size, stride):
        """As of the `LoadedStorage`."""
        return self.storage.as_tensor(dtype, self.offset + offset, size, stride)

    def settle(self) -> None:
        """Becomes a storage of its own over the same memory."""
        own = {name: self.__dict__.pop(name) for name in ("storage", "offset", "stop")}
        memory = bytes_of(own["storage"]._cell).view(self.dtype.numpy)[own["offset"] : own["stop"]]
        self.__class__ = TypedStorage  # type: ignore[assignment]
        self._cell = cell_of(memory, self.dtype)


# --- names -------------------------------------------------------------------------------

_MemoryFormat = _formats.memory_format

# Objects whose place in the package is not the one that files name.
_ALIASES = {
    ("torch", "Size"): Size,
    ("torch", "Tensor"): Tensor,
    ("torch", "device"): _device.device,
    **{("torch", d.name): d for d in _dtype.ALL},
    **{("torch", f._name): f for f in vars(_formats).values() if isinstance(f, (_MemoryFormat, _formats.qscheme))},
}
_ALIAS_OF = {id(value): path for path, value in _ALIASES.items()}
_MOVED = {"torch._C._nn": "torch.nn.functional", "torch._tensor": "torch._utils"}


def resolve(module: str, name: str):
    """The counterpart of something that a file names ``torch...``.

    Raises:
        AttributeError: if there is none.
    """
    if (module, name) in _ALIASES:
        return _ALIASES[module, name]
    path = ["ftorch", *_MOVED.get(module, module).split(".")[1:]]
    # Where modules are cut differently here, a package above exports the name.
    while path:
        try:
            value = importlib.import_module(".".join(path))
            for part in name.split("."):
                value = getattr(value, part)
            return value
        except (ImportError, AttributeError):
            path.pop()
    raise AttributeError(f"ftorch has no counterpart of {module}.{name}, which the file refers to")


def _file_name(obj, name):
    """The module and name under which a file refers to a global of this package, or None."""
    alias = _ALIAS_OF.get(id(obj))
    if alias is not None:
        return alias
    name = name or getattr(obj, "__qualname__", None) or obj.__name__
    module = pickle.whichmodule(obj, name)  # type: ignore[attr-defined]
    if module.partition(".")[0] not in ("ftorch", "torch"):
        return None
    module = "torch" + module.removeprefix("ftorch").removeprefix("torch")
    try:
        found = resolve(module, name)
    except AttributeError:
        found = None
    if found is not obj:
        raise pickle.PicklingError(f"Can't pickle {obj!r}: it's not found as {module}.{name}")
    return module, name


def _rebuild_from_type_v2(func, new_type, args, state):
    tensor = func(*args)
    if tensor.is_nested and isinstance(state, dict):
        state = {name: value for name, value in state.items() if name not in _OF_JAGGED}
    if new_type is not None and type(tensor) is not new_type and not (new_type is Tensor and _is_layout(type(tensor))):
        tensor = tensor.as_subclass(new_type)
    if new_type is not None and _has_own_setstate(new_type):
        tensor.__setstate__(state)
        return tensor
    return _utils._set_obj_state(tensor, state)


# What jagged tensors of PyTorch have for attributes: they were made of it.
_OF_JAGGED = frozenset((
    "_ragged_idx", "_size", "_strides", "_values", "_offsets", "_lengths", "_metadata_cache",
    "_dynamo_propagated_dynamic_indices",
))


def _is_layout(kind) -> bool:
    """Whether a class is that of tensors which are `Tensor` itself in PyTorch: sparse, nested or quantized ones."""
    return vars(kind).get("_slots_are_data", False)


def with_state(kind, function, arguments, state):
    """How a tensor is pickled that has attributes, if it has some: by what makes it without them.

    Args:
        kind: its class; None: that of what ``function`` makes, which in a file is `Tensor`.
    """
    return (_rebuild_from_type_v2, (function, kind, arguments, state)) if state else (function, arguments)


def _has_own_setstate(kind):
    """Whether a subclass of Tensor defines ``__setstate__``; what dispatches Tensor's own for it does not count."""
    between = kind.__mro__[: kind.__mro__.index(Tensor)]
    found = next((vars(c)["__setstate__"] for c in between if "__setstate__" in vars(c)), None)
    return found is not None and getattr(found, "__module__", "").partition(".")[0] != __name__.partition(".")[0]


_rebuild_from_type_v2.__module__ = "ftorch._tensor"
_ALIASES["torch._tensor", "_rebuild_from_type_v2"] = _rebuild_from_type_v2
_ALIAS_OF[id(_rebuild_from_type_v2)] = ("torch._tensor", "_rebuild_from_type_v2")


def _get_layout(name):
    """``torch.strided`` and the like, by their text."""
    value = getattr(_formats, name.removeprefix("torch."), None)
    if not isinstance(value, _formats.layout):
        raise pickle.UnpicklingError(f"{name} is no layout")
    return value


_get_layout.__module__ = "ftorch.serialization"  # by which files name it


_JAGGED = "torch.nested._internal.nested_tensor"


@dataclass(frozen=True, slots=True)
class _DimRange:
    """The bounds of a dimension that was said to be dynamic, which PyTorch's files of jagged tensors mention."""

    dim: int
    min: int
    max: int


_DimRange.__module__ = "ftorch._dynamo.decorators"


def safe_names() -> dict:
    """What the weights-only unpickler may use of this package, by the names in files."""
    from ..nn.parameter import Parameter

    rebuild = (
        "parameter parameter_with_state qtensor tensor tensor_v2 tensor_v3 sparse_tensor "
        "nested_tensor meta_tensor_no_storage wrapper_subclass device_tensor_from_numpy device_tensor_from_cpu_tensor"
    )
    return {
        **{".".join(path): value for path, value in _ALIASES.items()},
        **{
            f"torch._utils._rebuild_{name}": getattr(_utils, f"_rebuild_{name}")
            for name in rebuild.split()
        },
        **{f"torch.{name}": storage for name, storage in STORAGE_TYPES.items()},
        "torch.UntypedStorage": UNTYPED,
        "torch.storage.UntypedStorage": UNTYPED,
        "torch.nn.parameter.Parameter": Parameter,
        "torch.serialization._get_layout": _get_layout,
        "torch._dynamo.decorators._DimRange": _DimRange,
        **{f"{_JAGGED}.{name}": resolve(_JAGGED, name) for name in ("NestedTensor", "_rebuild_njt")},
    }


def new_object(cls, arguments):
    """What the opcode NEWOBJ makes of an allowed class."""
    if cls is resolve("torch.nn.parameter", "Parameter"):
        return cls(*arguments)
    return cls.__new__(cls, *arguments)


# --- writing -----------------------------------------------------------------------------


def reduce_tensor(tensor, storage_of):
    """How a tensor is pickled: a function to rebuild it and its arguments.

    Args:
        storage_of: makes of a storage cell and a dtype what stands for them in the pickle.
    """
    reduce = type(tensor).__reduce_ex__
    if reduce is not Tensor.__reduce_ex__ and not (tensor.is_quantized or _reduces_as_parameter(reduce)):
        reduced = tensor.__reduce_ex__(2)  # a subclass that says itself how it is made again
        if reduced[0] is _rebuild_from_type_v2 and reduced[1][1] is None:
            function, _, arguments, attributes = reduced[1]
            return with_state(Tensor, function, arguments, attributes)
        return reduced
    attributes = state_of(tensor)
    if _is_parameter(tensor):
        arguments = (tensor.detach(), tensor.requires_grad, OrderedDict())
        if attributes:
            return _utils._rebuild_parameter_with_state, (*arguments, attributes)
        return _utils._rebuild_parameter, arguments
    function, arguments = _reduce_data(tensor, storage_of)
    if type(tensor) is Tensor or _is_layout(type(tensor)):
        return with_state(Tensor, function, arguments, attributes)
    return _rebuild_from_type_v2, (function, type(tensor), arguments, {} if attributes is None else attributes)


def _reduces_as_parameter(reduce):  # which is written as below
    from ..nn.parameter import Parameter

    return reduce is Parameter.__reduce_ex__


def _is_parameter(tensor):
    if type(tensor) is Tensor:  # a process that has only these does without `nn`
        return False
    from ..nn.parameter import Parameter

    return type(tensor) is Parameter


def _reduce_data(tensor, storage_of):
    import ftorch as torch

    from ..utils.hooks import warn_if_has_hooks

    warn_if_has_hooks(tensor)
    layout = tensor.layout
    if layout is torch.sparse_coo:
        parts = (tensor._indices(), tensor._values(), tensor.size(), tensor.is_coalesced())
        return _utils._rebuild_sparse_tensor, (layout, parts)
    if layout is not torch.strided:
        by_row = layout in (torch.sparse_csr, torch.sparse_bsr)
        names = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
        indices = [getattr(tensor, name)() for name in names]
        parts = (*indices, tensor.values(), tensor.size())
        return _utils._rebuild_sparse_tensor, (layout, parts)
    g = tensor._ftorch_geometry
    size, stride = tuple(g.shape), tuple(g.stride)
    if type(tensor) in DISPATCHING and not tensor._ftorch_storage.has_memory():
        arguments = (
            type(tensor),
            tensor.dtype,
            tuple(tensor.size()),
            stride,
            tensor.storage_offset(),
            layout,
            tensor.device,
        )
        return _utils._rebuild_wrapper_subclass, (*arguments, tensor.requires_grad)
    if tensor.is_quantized:
        storage, quantizer = storage_of(tensor._ftorch_storage, g.dtype), tensor._quantizer.arguments()
        return _utils._rebuild_qtensor, (storage, tensor._ftorch_offset, size, stride, quantizer, False, OrderedDict())
    if g.device is _device.META:
        arguments = (g.dtype, size, stride, tensor.requires_grad)
        return _utils._rebuild_meta_tensor_no_storage, arguments
    storage = storage_of(tensor._ftorch_storage, g.dtype)
    arguments = (storage, tensor._ftorch_offset, size, stride, tensor.requires_grad, OrderedDict())
    bits = {name: True for name, bit in (("conj", CONJ), ("neg", NEG)) if g.bits & bit}
    metadata = (bits,) if bits else ()
    if g.dtype in STORAGE_TYPE_OF:
        return _utils._rebuild_tensor_v2, (*arguments, *metadata)
    return _utils._rebuild_tensor_v3, (*arguments, g.dtype, *metadata)


class _TensorReducer:
    """The part of a pickler that knows tensors, to be mixed into any module's pickler.

    ``storages`` collects what the pickle refers to, by key.
    """

    def __init__(self, file, protocol, location_tag):
        super().__init__(file, protocol=protocol)
        self.storages: dict[str, SavedStorage] = {}
        self._keys: dict[int, str] = {}
        self._location_tag = location_tag

    def storage_of(self, cell, dtype, kind=None):
        key = self._keys.setdefault(id(cell), str(len(self._keys)))
        saved = self.storages.setdefault(key, SavedStorage(cell, dtype, kind))
        if saved.dtype is not dtype and not cell.nbytes:
            return self.storage_of(cell_of(np.empty(0, dtype.numpy), dtype), dtype, kind)
        if saved.dtype is not dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        return saved

    def persistent_id(self, obj):
        if isinstance(obj, BaseStorage):
            is_untyped = isinstance(obj, UntypedStorage)
            obj = self.storage_of(
                obj._cell, *((_dtype.uint8, UNTYPED) if is_untyped else (obj.dtype,))
            )
        if isinstance(obj, SavedStorage):
            key, location = self._keys[id(obj.cell)], self._location_tag(obj)
            return self.storage_id(obj.type, key, location, obj.count)
        return None

    def storage_id(self, kind, key, location, count):
        return "storage", kind, key, location, count

    def reducer_override(self, obj):
        if isinstance(obj, Tensor):
            return reduce_tensor(obj, self.storage_of)
        inherited = getattr(super(), "reducer_override", None)
        return NotImplemented if inherited is None else inherited(obj)


class _Pickler(_TensorReducer, pickle._Pickler):  # type: ignore[misc]
    """Writes PyTorch's names. Python's slow pickler: the fast one leaves no say over names."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def reducer_override(self, obj):
        return reduce_tensor(obj, self.storage_of) if isinstance(obj, Tensor) else NotImplemented

    def save_global(self, obj, name=None):
        path = _file_name(obj, name)
        if path is not None:
            self._write_global(obj, *path)
            return
        try:
            super().save_global(obj, name)
        except pickle.PicklingError:
            pickle.dumps(obj, self.proto)  # the fast pickler refuses it in its own words, which are PyTorch's
            raise

    def _write_global(self, obj, module, name):
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def _save_alias(self, obj):
        self._write_global(obj, *_ALIAS_OF[id(obj)])

    def _save_storage_type(self, obj):
        self._write_global(obj, "torch.storage" if obj is UNTYPED else "torch", obj.name)

    def _save_device(self, obj):
        arguments = (obj.type,) if obj.index is None else (obj.type, obj.index)
        self.save_reduce(_device.device, arguments, obj=obj)

    def _save_layout(self, obj):
        self.save_reduce(resolve("torch.serialization", "_get_layout"), (repr(obj),), obj=obj)

    dispatch[types.FunctionType] = save_global
    dispatch[_formats.layout] = _save_layout
    dispatch[_MemoryFormat] = _save_alias
    dispatch[_formats.qscheme] = _save_alias
    dispatch[_dtype.dtype] = _save_alias
    dispatch[StorageType] = _save_storage_type
    dispatch[_device.device] = _save_device


class _LegacyPickler(_Pickler):
    """Writes the storage ids of the format before PyTorch 1.6."""

    def storage_id(self, kind, key, location, count):
        return "storage", kind, key, location, count, None


def pickler(file, protocol, location_tag, pickle_module=pickle, legacy=False):
    """A pickler with ``storages`` to be written after the pickle.

    Another ``pickle_module`` decides itself how it names things.
    """
    if pickle_module is pickle:
        return (_LegacyPickler if legacy else _Pickler)(file, protocol, location_tag)
    cls = type("Pickler", (_TensorReducer, pickle_module.Pickler), {})
    return cls(file, protocol, location_tag)


# --- reading -----------------------------------------------------------------------------


def unpickler(file, persistent_load, pickle_module, **arguments):
    """An unpickler of ``pickle_module`` that finds here what a file calls torch."""

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            if module.partition(".")[0] != "torch":
                return super().find_class(module, name)
            if name == "UntypedStorage":
                return UNTYPED
            return STORAGE_TYPES.get(name) or resolve(module, name)

    reader = Unpickler(file, **arguments)
    reader.persistent_load = persistent_load
    return reader


_COUNT = struct.Struct("<q")  # elements of a storage in the legacy format


def read_count(file) -> int:
    """The number of elements that precedes a storage in the legacy format."""
    data = file.read(_COUNT.size)
    if len(data) != _COUNT.size:
        raise EOFError("Ran out of input")
    return _COUNT.unpack(data)[0]


def write_storage(file, storage: SavedStorage) -> None:
    """Writes a storage as the legacy format has it."""
    file.write(_COUNT.pack(storage.count))
    file.write(storage.data().data)
