"""An unpickler that runs nothing: it knows the opcodes of plain data and an allow-list of names.

Names are looked up in a table, never imported; what may be called is a function that rebuilds a
tensor, or what the user has allowed (``torch.serialization.add_safe_globals``). Python's own
unpickler is of no use here: it would let a file set attributes on whatever it can reach.
"""

from __future__ import annotations

import _compat_pickle
import functools
import struct
import warnings
from collections import Counter, OrderedDict
from pickle import UnpicklingError, decode_long
from typing import Any

from .eager.tensor import Tensor

# Never allowed, whatever the user says.
_BLOCKED_MODULES = ("sys", "os", "posix", "nt")

_user_globals: set = set()


def _add_safe_globals(safe_globals) -> None:
    _user_globals.update(safe_globals)


def _get_safe_globals() -> list:
    return list(_user_globals)


def _clear_safe_globals() -> None:
    _user_globals.clear()


class _safe_globals:
    """Allows names for the duration of a ``with`` block."""

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        _add_safe_globals(self.safe_globals)

    def __exit__(self, *exc):
        _user_globals.difference_update(self.safe_globals)


def _user_table() -> dict[str, Any]:
    """The user's globals by the path that a file names them with."""
    table = {}
    for entry in _user_globals:
        if isinstance(entry, tuple):
            if len(entry) != 2:
                raise ValueError(
                    "Expected tuple of length 2 (global, str of callable full path), but got "
                    f"tuple of length: {len(entry)}"
                )
            value, path = entry
            if type(path) is not str:
                raise TypeError(
                    "Expected second item in tuple to be str of callable full path, but got: "
                    f"{type(path)}"
                )
        else:
            value, path = entry, f"{entry.__module__}.{entry.__qualname__}"
        table[path] = value
        if path.startswith("ftorch."):
            table[path[1:]] = value  # files call it torch
    return table


def _encode(text, encoding="latin1"):
    """``_codecs.encode``, as far as pickled bytes need it."""
    if encoding not in ("latin1", "latin-1"):
        raise UnpicklingError(f"bytes in encoding {encoding!r}")
    return text.encode(encoding)


@functools.cache
def _built_in_table() -> dict[str, Any]:
    from ._serialization import pickling as _pickle

    return {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "_codecs.encode": _encode,
        "builtins.bytearray": bytearray,
        "builtins.set": set,
        "builtins.complex": complex,
        **_pickle.safe_names(),
    }


def allowed_names() -> set[str]:
    """The paths that files may name at the moment."""
    return set(_built_in_table()) | set(_user_table())


def _python3_name(module, name):
    # Protocol 2, which PyTorch writes, uses the names of Python 2.
    module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


class Unpickler:
    """Reads one pickle from a file that is not trusted.

    Args:
        encoding: of the text that Python 2 wrote; "bytes" keeps it as it is.

    Raises:
        pickle.UnpicklingError: for what is not allowed, and for damaged data.
    """

    handlers: dict[bytes, Any]  # what each opcode does

    def __init__(self, file, *, encoding: str = "bytes", collect_names: bool = False):
        self.file = file
        self.encoding = encoding
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.names: set[str] | None = set() if collect_names else None

    def persistent_load(self, pid):
        raise UnpicklingError("unsupported persistent id encountered")

    def load(self):
        """The object."""
        self.allowed = _built_in_table()
        self.user_allowed = _user_table()
        try:
            while True:
                opcode = self.file.read(1)
                if not opcode:
                    raise EOFError
                if opcode == b".":
                    return self.stack.pop()
                handler = self.handlers.get(opcode)
                if handler is None:
                    raise UnpicklingError(f"Unsupported operand {opcode[0]}")
                handler(self)
        except (IndexError, KeyError, OverflowError, struct.error, UnicodeDecodeError) as e:
            # The stack, the memo or a fixed-size operand: the data makes no sense.
            raise UnpicklingError(f"invalid pickle data: {type(e).__name__}: {e}") from None

    # --- operands ---

    def read(self, size):
        data = self.file.read(size)
        if len(data) != size:
            raise UnpicklingError("pickle data was truncated")
        return data

    def number(self, form):
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise UnpicklingError("pickle data was truncated")
        return line[:-1].decode()

    def text(self, size):
        return str(self.read(size), "utf-8", "surrogatepass")

    def python2_text(self, size):
        data = self.read(size)
        return data if self.encoding == "bytes" else data.decode(self.encoding)

    def pop_mark(self):
        items = self.stack
        self.stack = self.marks.pop()
        return items

    # --- opcodes ---

    def push(self, value):
        self.stack.append(value)

    def mark(self):
        self.marks.append(self.stack)
        self.stack = []

    def remember(self, index):
        self.memo[index] = self.stack[-1]

    def push_tuple(self, items):
        self.stack.append(tuple(items))

    def tuple_of(self, count):
        if len(self.stack) < count:
            raise UnpicklingError("invalid pickle data: a tuple of what is not there")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def names_from_stack(self):
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise UnpicklingError("STACK_GLOBAL requires str")
        return module, name

    def protocol(self):
        version = self.number("B")
        if version > 5:
            raise UnpicklingError(f"unsupported pickle protocol: {version}")
        if version != 2:
            warnings.warn(
                f"Detected pickle protocol {version} in the checkpoint, which was not the default pickle protocol used by "
                "`torch.load` (2). The weights_only Unpickler might not support all instructions implemented by this "
                "protocol, please file an issue for adding support if you encounter this.", stacklevel=2)

    def global_name(self, module, name):
        module, name = _python3_name(module, name)
        path = f"{module}.{name}"
        if self.names is not None:
            self.names.add(path)
            return self.push(_Unknown())
        if module in _BLOCKED_MODULES:
            raise UnpicklingError(
                f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked."
            )
        for table in (self.allowed, self.user_allowed):
            if path in table:
                return self.push(table[path])
        shown = path.removeprefix("builtins.")
        raise UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. "
            f"Please use `torch.serialization.add_safe_globals([{shown}])` or the "
            f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this "
            "global if you trust this class/function."
        )

    def is_allowed(self, value):
        return any(
            value is entry
            for table in (self.allowed, self.user_allowed)
            for entry in table.values()
        )

    def may_call(self, function):
        # A file mentions tensor classes, and rebuilds their objects with functions.
        return (
            callable(function)
            and self.is_allowed(function)
            and not (isinstance(function, type) and issubclass(function, Tensor))
        )

    def reduce(self):
        arguments, function = self.stack.pop(), self.stack[-1]
        if isinstance(function, _Unknown):
            return
        if not self.may_call(function):
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {function}")
        self.stack[-1] = function(*arguments)

    def new_object(self):
        arguments, cls = self.stack.pop(), self.stack.pop()
        if isinstance(cls, _Unknown):
            return self.push(cls)
        if not isinstance(cls, type) or not self.is_allowed(cls):
            raise UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted "
                f"via `add_safe_globals` but got {cls}"
            )
        from ._serialization import pickling as _pickle

        self.push(_pickle.new_object(cls, arguments))

    def build(self):
        state, instance = self.stack.pop(), self.stack[-1]
        if isinstance(instance, _Unknown):
            return
        if type(instance) is OrderedDict:
            instance.__dict__.update(state)
        elif not self.is_allowed(type(instance)):
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted "
                f"via `add_safe_globals`, but got {type(instance)}"
            )
        elif hasattr(instance, "__setstate__"):
            instance.__setstate__(state)
        else:
            slots = None
            if isinstance(state, tuple) and len(state) == 2:
                state, slots = state
            if state:
                instance.__dict__.update(state)
            for name, value in (slots or {}).items():
                setattr(instance, name, value)

    def append(self, items):
        target = self.stack[-1]
        if type(target) is not list and not isinstance(target, _Unknown):
            raise UnpicklingError(f"Can only append to lists, but got {type(target)}")
        if type(target) is list:
            target.extend(items)

    def add_items(self, items):
        target = self.stack[-1]
        if type(target) is not set:
            raise UnpicklingError(f"Can only add items to sets, but got {type(target)}")
        target.update(items)

    def set_items(self, items):
        target = self.stack[-1]
        if isinstance(target, _Unknown):
            return
        if type(target) not in (dict, OrderedDict, Counter):
            raise UnpicklingError(
                "Can only SETITEMS for dict, collections.OrderedDict, "
                f"collections.Counter, but got {type(target)}"
            )
        if len(items) % 2:
            raise UnpicklingError("odd number of items for SETITEMS")
        for key, value in zip(items[::2], items[1::2]):
            target[key] = value

    def persistent(self):
        pid = self.stack.pop()
        if type(pid) not in (tuple, int):
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if self.names is not None:
            return self.push(_Unknown())
        if type(pid) is tuple and (not pid or pid[0] not in ("storage", b"storage")):
            raise UnpicklingError(
                "Only persistent_load of storage is allowed, "
                f"but got {pid[0] if pid else 'nothing'!r}"
            )
        self.push(self.persistent_load(pid))


class _Unknown:
    """Stands for everything that a name leads to, while names are only collected."""


_HANDLERS = {
    b"\x80": Unpickler.protocol,
    b"\x95": lambda u: u.read(8),  # a frame's length
    b"N": lambda u: u.push(None),
    b"\x88": lambda u: u.push(True),
    b"\x89": lambda u: u.push(False),
    b"J": lambda u: u.push(u.number("<i")),
    b"K": lambda u: u.push(u.number("B")),
    b"M": lambda u: u.push(u.number("<H")),
    b"\x8a": lambda u: u.push(decode_long(u.read(u.number("B")))),
    b"G": lambda u: u.push(u.number(">d")),
    b"X": lambda u: u.push(u.text(u.number("<I"))),
    b"\x8c": lambda u: u.push(u.text(u.number("B"))),
    b"U": lambda u: u.push(u.python2_text(u.number("B"))),
    b"C": lambda u: u.push(u.read(u.number("B"))),
    b"\x8d": lambda u: u.push(u.text(u.number("<Q"))),
    b"B": lambda u: u.push(u.read(u.number("<I"))),
    b"\x8e": lambda u: u.push(u.read(u.number("<Q"))),
    b"\x96": lambda u: u.push(bytearray(u.read(u.number("<Q")))),
    b")": lambda u: u.push(()),
    b"]": lambda u: u.push([]),
    b"}": lambda u: u.push({}),
    b"\x8f": lambda u: u.push(set()),
    b"(": Unpickler.mark,
    b"t": lambda u: u.push_tuple(u.pop_mark()),
    b"\x85": lambda u: u.tuple_of(1),
    b"\x86": lambda u: u.tuple_of(2),
    b"\x87": lambda u: u.tuple_of(3),
    b"a": lambda u: u.append([u.stack.pop()]),
    b"e": lambda u: u.append(u.pop_mark()),
    b"\x90": lambda u: u.add_items(u.pop_mark()),
    b"s": lambda u: u.set_items([u.stack.pop(-2), u.stack.pop()]),
    b"u": lambda u: u.set_items(u.pop_mark()),
    b"h": lambda u: u.push(u.memo[u.number("B")]),
    b"j": lambda u: u.push(u.memo[u.number("<I")]),
    b"q": lambda u: u.remember(u.number("B")),
    b"r": lambda u: u.remember(u.number("<I")),
    b"\x94": lambda u: u.remember(len(u.memo)),
    b"c": lambda u: u.global_name(u.line(), u.line()),
    b"\x93": lambda u: u.global_name(*u.names_from_stack()),
    b"R": Unpickler.reduce,
    b"\x81": Unpickler.new_object,
    b"b": Unpickler.build,
    b"Q": Unpickler.persistent,
}


Unpickler.handlers = _HANDLERS


def get_globals_in_pkl(file) -> set[str]:
    """The paths of all globals that a pickle names, without loading any."""
    unpickler = Unpickler(file, collect_names=True)
    unpickler.load()
    return unpickler.names or set()


def load(file, *, encoding: str = "ASCII"):
    """Reads one pickle."""
    return Unpickler(file, encoding=encoding).load()
