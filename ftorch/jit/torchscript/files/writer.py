"""TorchScript archives, written: the program's text, and its objects as PyTorch pickles them."""

from __future__ import annotations

import ast
import enum
import os
import struct
import sys
from contextlib import nullcontext

from ...._serialization import zip_archive
from ...._serialization.pickling import SavedStorage
from ....eager.core.device import device as device_class
from ....eager.tensor import TensorBase
from ..program.modules import ScriptFunction, wrap_module
from ..program.objects import ClassType, Function, ScriptObject
from ..program.types import Type, infer, name_of, parse_type

__all__ = ["placeholder", "write_archive"]

_ALIGNMENT = 64


# The types of the states, where values do not say them: empty lists, and None in lists.
_STATES = {
    "Conv2dPackedParamsBase": parse_type("Tuple[str, List[Tensor], List[Optional[Tensor]]]"),
    "EmbeddingPackedParamsBase": parse_type("Tuple[int, List[Tensor], List[float], List[int]]"),
    "CellParamsBase": parse_type("Tuple[str, List[Tensor], List[float], List[int], "
                                 "List[__torch__.torch.classes.quantized.LinearPackedParamsBase]]"),
}
_STATES["Conv3dPackedParamsBase"] = _STATES["Conv2dPackedParamsBase"]


class _Pickler:
    """Writes values with the opcodes that PyTorch's reader of modules knows."""

    def __init__(self):
        self.out = bytearray(b"\x80\x02")
        self.storages: list[SavedStorage] = []
        self.keys: dict[int, str] = {}

    def finished(self) -> bytes:
        return bytes(self.out + b".")

    def name(self, module, name):
        self.out += b"c" + module.encode() + b"\n" + name.encode() + b"\n"

    def text(self, value):
        data = value.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(data)) + data

    def int(self, value):
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def tuple(self, items, write):
        self.out += b"("
        for item in items:
            write(item)
        self.out += b"t"

    def tagged(self, kind, write):
        """A container, with the types of what it holds."""
        self.name("torch.jit._pickle", "restore_type_tag")
        self.out += b"("
        write()
        self.text(str(kind))
        self.out += b"tR"

    def value(self, value, kind: Type | None = None):
        """Any value; ``kind``: its declared type."""
        if kind is not None and kind.name == "Optional":
            kind = kind.args[0]
        if kind is not None and kind.name == "float" and type(value) is int:
            value = float(value)
        if value is None:
            self.out += b"N"
        elif isinstance(value, TensorBase):
            self.tensor(value)
        elif isinstance(value, ScriptObject):
            self.object(value)
        elif hasattr(type(value), "_qualified"):
            self.packed(value)
        elif isinstance(value, enum.Enum):
            module, _, name = (name_of(type(value)) or "").rpartition(".")
            self.name(module, name)
            self.value(value.value)
            self.out += b"R"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self.int(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, complex):
            self.name("builtins", "complex")
            self.tuple([value.real, value.imag], self.value)
            self.out += b"R"
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, device_class):
            self.name("torch", "device")
            self.tuple([str(value)], self.value)
            self.out += b"R"
        elif isinstance(value, tuple):
            kinds = kind.args if kind is not None and kind.name == "Tuple" else ()
            parts = [*tuple.__iter__(value)]  # a subclass may say something else of its length
            kinds = [*kinds, *[None] * (len(parts) - len(kinds))]
            pairs = list(zip(parts, kinds))
            self.tuple(pairs, lambda p: self.value(*p))
        elif isinstance(value, list):
            kind = kind or infer(value) or Type("List", (Type("Any"),))
            inner = kind.args[0] if kind.args else None
            self.tagged(kind, lambda: self.items(b"]", value, lambda v: self.value(v, inner), b"e"))
        elif isinstance(value, dict):
            kind = kind or infer(value) or Type("Dict", (Type("str"), Type("Any")))

            def entry(item):
                self.value(item[0])
                self.value(item[1], kind.args[1])

            self.tagged(kind, lambda: self.items(b"}", value.items(), entry, b"u"))
        else:
            raise RuntimeError(f"Cannot serialize a value of type {type(value).__name__}")

    def items(self, empty, items, write, end):
        self.out += empty + b"("
        for item in items:
            write(item)
        self.out += end

    def object(self, obj: ScriptObject):
        kind: ClassType = obj._type
        module, _, name = kind.name.rpartition(".")
        self.name(module, name)
        self.out += b")\x81"
        get_state = kind.methods.get("__getstate__")
        if get_state is not None:
            returns = get_state.node.returns
            self.value(get_state.compiled(obj), None if returns is None else parse_type(returns))
            self.out += b"b"
            return

        def entry(item):
            self.text(item[0])
            self.value(obj.__dict__.get(item[0]), item[1])

        self.items(b"}", kind.attributes.items(), entry, b"u")
        self.out += b"b"

    def packed(self, value):
        """Packed weights: the class and a state."""
        from ...._quantized._script_states import state_of

        module, _, name = type(value)._qualified.rpartition(".")
        self.name(module, name)
        self.out += b")\x81"
        self.value(state_of(value), _STATES.get(name))
        self.out += b"b"

    def quantized(self, t):
        """A quantized tensor: its storage, its sizes, its quantizer."""
        storage = self.storage(t)
        quantizer = t._quantizer.arguments()
        self.name("torch._utils", "_rebuild_qtensor")
        self.out += b"("
        self.reference(t, storage)
        self.out += b"("
        self.name("torch", str(quantizer[0]).rpartition(".")[2])
        for value in quantizer[1:]:
            self.value(value)
        self.out += b"t"
        self.out += b"\x89"
        self.name("collections", "OrderedDict")
        self.out += b")RtR"

    def tensor(self, t):
        if t.is_quantized:
            return self.quantized(t)
        storage = self.storage(t)
        self.name("torch._utils", "_rebuild_tensor_v2")
        self.out += b"("
        self.reference(t, storage)
        self.out += b"\x88" if t.requires_grad and t.grad_fn is None else b"\x89"
        self.name("collections", "OrderedDict")
        self.out += b")RtR"

    def storage(self, t):
        """(the key, the type and size) of a tensor's storage, which the file gets once."""
        g, cell = t._ftorch_geometry, t._ftorch_storage
        storage = SavedStorage(cell, g.dtype)
        key = self.keys.get(id(cell))
        if key is None:
            key = self.keys[id(cell)] = str(len(self.storages))
            self.storages.append(storage)
        return key, storage

    def reference(self, t, found):
        """A storage's persistent id, the offset, the sizes and the strides."""
        key, storage = found
        g = t._ftorch_geometry
        self.out += b"("
        self.text("storage")
        self.name("torch", storage.type.name)
        self.text(key)
        self.text(str(t.device))
        self.int(storage.count)
        self.out += b"tQ"
        self.int(t._ftorch_offset)
        self.tuple(tuple(g.shape), self.int)
        self.tuple(tuple(g.stride), self.int)



def _files(unit) -> dict[str, str]:
    """{path below ``code``: text} of everything in a program."""
    importer = unit.importer
    if importer is not None and hasattr(importer, "texts"):
        return dict(importer.texts)
    files: dict[str, list[str]] = {}
    for name, function in unit.functions.items():
        if not name.startswith("__torch__"):
            continue
        path = name.rpartition(".")[0].replace(".", "/") + ".py"
        files.setdefault(path, []).append(function.code)
    for name, kind in unit.classes.items():
        if kind.kind == "bound":
            continue
        path = name.rpartition(".")[0].replace(".", "/") + ".py"
        files.setdefault(path, []).append(kind.source)
    return {path: "\n".join(texts) for path, texts in files.items()}


def _check_python(unit):
    left = getattr(unit, "python", None)
    for name, value in (left or {}).items():
        shown = name.rpartition(".")[2]
        if isinstance(value, dict):
            shown = next(iter(value), shown)
        raise RuntimeError(
            f"Could not export Python function call '{shown}'. Remove calls to Python functions "
            "before export. Did you forget to add @script or @script_method annotation? If this is "
            "a nn.ModuleList, add it to __constants__:"
        )


def write_archive(data: ScriptObject, f, extra_files=None) -> None:
    """Writes a module's object and its program.

    Args:
        f: a path, or a writable binary file.
    """
    unit = data._type.unit
    _check_python(unit)
    if unit.clashes:
        raise RuntimeError(
            f"Could not save: parts that were compiled by themselves define {sorted(unit.clashes)} "
            "differently. Compile the whole module at once, or give the functions different names."
        )
    objects, constants = _Pickler(), _Pickler()
    objects.value(data)
    constants.tuple(unit.constants, constants.value)
    is_path = isinstance(f, (str, os.PathLike))
    name = os.path.splitext(os.path.basename(os.fspath(f)))[0] if is_path else "archive"
    target = zip_archive.replacing(os.fspath(f)) if is_path else nullcontext(f)
    with target as file, zip_archive.ArchiveWriter(file, name or "archive", _ALIGNMENT) as archive:
        for key, storage in enumerate(objects.storages):
            archive.write(f"data/{key}", storage.data())
        archive.write("data.pkl", objects.finished())
        for path, text in _files(unit).items():
            archive.write(f"code/{path}", text.encode())
        for key, storage in enumerate(constants.storages):
            archive.write(f"constants/{key}", storage.data())
        archive.write("constants.pkl", constants.finished())
        for key, content in (extra_files or {}).items():
            content = content.encode() if isinstance(content, str) else bytes(content)
            archive.write(f"extra/{key}", content)
        archive.write("version", b"10\n")  # of the ops' signatures: PyTorch 1.11 and later
        archive.write("byteorder", sys.byteorder.encode())


def placeholder(function: ScriptFunction):
    """A module whose ``forward`` is a function."""
    from ..frontend.emit import class_text, define

    inner: Function = function._function
    node = ast.parse(inner.code).body[0]
    assert isinstance(node, ast.FunctionDef)
    name = "__torch__.PlaceholderModule"
    node.name = "forward"
    node.args.args.insert(0, ast.arg("self", ast.parse(name, mode="eval").body))
    from ..program.objects import unparse

    text = class_text("PlaceholderModule", "Module", {"training": "bool"}, [unparse(node)])
    kind = inner.unit.classes.get(name) or define(inner.unit, name, text)
    data = kind.python()
    data.__dict__["training"] = True
    return wrap_module(data)
