"""TorchScript archives, read: ``data.pkl`` holds the objects, ``code/`` the program.

Both are of no trust: pickles go through the weights-only unpickler, which knows of nothing but the
program's own classes, and the program is translated by `program.translate`, which runs nothing but ops.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from pickle import UnpicklingError

from .... import _weights_only_unpickler, serialization
from ...._serialization import zip_archive
from ....eager.core import device as _device
from ..program.objects import ClassType, ScriptObject
from ..program.source import SourceImporter
from ..program.types import parse_type

__all__ = ["Archive", "read_extra_files"]


def _restored(value, kind):
    """``restore_type_tag``: containers with the types of what they hold."""
    if isinstance(value, tuple) or parse_type(kind).name == "Tuple":
        return tuple(value)
    return value


def _listed(items):
    return list(items)


_CALLS = {
    "torch.jit._pickle.restore_type_tag": _restored,
    **{f"torch.jit._pickle.build_{n}": _listed
       for n in ("intlist", "tensorlist", "doublelist", "boollist")},
}


class _Class:
    """A class of the program, as the unpickler has it on its stack."""

    def __init__(self, kind: ClassType):
        self.kind = kind


class _Unpickler(_weights_only_unpickler.Unpickler):
    """An unpickler that makes objects of the program's classes, and none of Python's."""

    def __init__(self, file, unit, tensors=()):
        super().__init__(file, encoding="utf-8")
        self.unit, self.tensors = unit, tensors

    def global_name(self, module, name):
        path = f"{module}.{name}"
        if path in _CALLS:
            return self.push(_CALLS[path])
        if path == "torch.jit._pickle.build_tensor_from_id":
            return self.push(self._tensor)
        if module.partition(".")[0].startswith("__torch__"):
            return self.push(_Class(self.unit.class_named(path)))
        if path == "torch.device":
            return self.push(_device.device)
        return super().global_name(module, name)

    def _tensor(self, index):
        return self.tensors[index]

    def may_call(self, function):
        own = (*_CALLS.values(), _device.device)
        return any(function is f for f in own) or function == self._tensor or (
            function is OrderedDict or super().may_call(function)
        )

    def reduce(self):
        function = self.stack[-2] if len(self.stack) > 1 else None
        if isinstance(function, _Class):
            arguments = self.stack.pop()
            kind = function.kind
            if kind.kind not in ("enum", "namedtuple"):
                raise UnpicklingError(f"{kind.name} cannot be called")
            many = arguments if isinstance(arguments, tuple) else (arguments,)
            self.stack[-1] = kind.python(*many)
            return
        super().reduce()

    def new_object(self):
        if len(self.stack) > 1 and isinstance(self.stack[-2], _Class):
            arguments, cls = self.stack.pop(), self.stack.pop()
            if cls.kind.kind == "namedtuple":
                return self.push(cls.kind.python(*arguments))
            if cls.kind.kind == "bound":
                return self.push(cls)
            if cls.kind.kind not in ("module", "class"):
                raise UnpicklingError(f"{cls.kind.name} has no objects")
            return self.push(cls.kind.python())
        super().new_object()

    def build(self):
        if len(self.stack) > 1 and isinstance(self.stack[-2], _Class):
            state, cls = self.stack.pop(), self.stack.pop()
            return self._build_bound(cls.kind, state)
        if len(self.stack) > 1 and isinstance(self.stack[-2], ScriptObject):
            state, instance = self.stack.pop(), self.stack[-1]
            return _set_state(instance, state)
        super().build()

    def _build_bound(self, kind, state):
        """Packed weights: the file has their class, and then their state."""
        from ...._quantized._script_states import restored

        if kind.kind != "bound":
            raise UnpicklingError(f"{kind.name} has no state")
        self.push(restored(kind.name, state))


_Unpickler.handlers = {
    **_weights_only_unpickler.Unpickler.handlers,
    b"R": _Unpickler.reduce, b"\x81": _Unpickler.new_object, b"b": _Unpickler.build,
}


def _set_state(instance, state):
    kind = instance._type
    if "__setstate__" in kind.methods:
        kind.methods["__setstate__"].compiled(instance, state)
        return
    if not isinstance(state, dict):
        raise UnpicklingError(f"the state of {kind.name} is no dictionary")
    for name, value in state.items():
        if name not in kind.attributes:
            raise UnpicklingError(f"{kind.name} has no attribute {name!r}")
        instance.__dict__[name] = _typed(value, kind.attributes[name], kind.unit)


def _typed(value, t, unit):
    """A value with the named tuples that its declared type asks for: files have plain ones."""
    if t.is_class and type(value) is tuple:
        kind = unit.find(t.name)
        return kind.python(*value) if isinstance(kind, ClassType) else value
    if t.args and "__torch__" in str(t) and value is not None:
        if isinstance(value, list):
            return [_typed(v, t.args[0], unit) for v in value]
        if isinstance(value, dict):
            return {k: _typed(v, t.args[1], unit) for k, v in value.items()}
        if type(value) is tuple:
            return tuple(_typed(v, a, unit) for v, a in zip(value, t.args))
        if t.name == "Optional":
            return _typed(value, t.args[0], unit)
    return value


class Archive(serialization._ZipReader):
    """A TorchScript file, opened.

    Args:
        file: a seekable binary file.
        map_location: as `ftorch.load` has it.
    """

    def __init__(self, file, map_location=None):
        super().__init__(zip_archive.ArchiveReader(file), map_location)
        if "constants.pkl" not in self.archive:
            raise RuntimeError(
                "PytorchStreamReader failed locating file constants.pkl: file not found"
            )
        self.folder = "data"
        # All of it: programs are compiled when they are first called, and the file is closed by then.
        texts = {
            name: self.archive.read(name).decode(errors="replace")
            for name in self.archive.records
            if name.startswith("code/") and name.endswith(".py")
        }
        self.importer = SourceImporter(lambda name: texts.get(f"code/{name}"))
        self.importer.texts = {name.removeprefix("code/"): text for name, text in texts.items()}
        self.unit = self.importer.unit
        self.version = int(self.archive.read(
            "version" if "version" in self.archive else ".data/version"
        ).decode().strip() or 0)
        self.unit.version = self.version
        self.unit.constants = self._read("constants")

    def _read(self, name):
        self.folder, self.storages = name, {}
        unpickler = _Unpickler(io.BytesIO(self.archive.read(f"{name}.pkl")), self.unit)
        unpickler.persistent_load = self.persistent_load  # type: ignore[method-assign]
        found = unpickler.load()
        self.settle()
        return found

    def load_object(self):
        """The object that was saved: the root module's data."""
        found = self._read("data")
        if not isinstance(found, ScriptObject) or found._type.kind != "module":
            raise RuntimeError("the archive holds no module")
        return found

    def make_storage(self, key, nbytes, dtype, location):
        record = f"{self.folder}/{key}"
        archive = self.archive
        if self.folder != "data" and record in archive:
            archive = _Renamed(archive, self.folder)
        original, self.archive = self.archive, archive
        try:
            return super().make_storage(key, nbytes, dtype, location)
        finally:
            self.archive = original


class _Renamed:
    """Records of one folder in the place of ``data``'s."""

    def __init__(self, archive, folder):
        self.archive, self.folder = archive, folder

    def read_array(self, name):
        return self.archive.read_array(name.replace("data/", f"{self.folder}/", 1))


def read_extra_files(archive, wanted: dict) -> None:
    """Fills in the contents of the extra files that are keys of ``wanted``; of those missing, nothing."""
    for name in wanted:
        record = f"extra/{name}"
        wanted[name] = archive.read(record) if record in archive else b""




