"""What a pickle holds, as text, without running anything of it (``python -m torch.utils.show_pickle FILE``)."""

from __future__ import annotations

import fnmatch
import pickle
import pprint
import struct
import sys
import zipfile
from typing import Any

__all__ = ["DumpUnpickler", "FakeClass", "FakeObject", "main"]


class FakeObject:
    """An object of a pickle: its class's name, the arguments it is made from and its state (None also if there is none)."""

    def __init__(self, module, name, args):
        self.module, self.name, self.args, self.state = module, name, args, None

    def __repr__(self):
        state = "" if self.state is None else f"(state={self.state!r})"
        return f"{self.module}.{self.name}{self.args!r}{state}"

    def __setstate__(self, state):
        self.state = state

    @staticmethod
    def pp_format(printer, obj, stream, indent, allowance, context, level):
        """Prints one over several lines, for ``pprint``.

        Raises:
            Exception: for one with arguments and a state.
        """
        if obj.state is None and not obj.args:
            stream.write(repr(obj))
        elif obj.state is None:
            stream.write(f"{obj.module}.{obj.name}")
            printer._format(obj.args, stream, indent + 1, allowance + 1, context, level)
        elif not obj.args:
            stream.write(f"{obj.module}.{obj.name}()(state=\n")
            indent += printer._indent_per_level
            stream.write(" " * indent)
            printer._format(obj.state, stream, indent, allowance + 1, context, level + 1)
            stream.write(")")
        else:
            raise Exception("Need to implement")


class FakeClass:
    """A class of a pickle, by its name: calls give a `FakeObject`."""

    def __init__(self, module, name):
        self.module, self.name = module, name
        self.__new__ = self.fake_new  # type: ignore[method-assign]  # pickle calls it on this object

    def __repr__(self):
        return f"{self.module}.{self.name}"

    def __call__(self, *args):
        return FakeObject(self.module, self.name, args)

    def fake_new(self, *args):
        """What ``cls.__new__(cls, ...)`` gives."""
        return FakeObject(self.module, self.name, args[1:])


class DumpUnpickler(pickle._Unpickler):  # type: ignore[name-defined]
    """Reads a pickle with `FakeObject` for all objects.

    Args:
        catch_invalid_utf8: whether text that is none becomes a `FakeObject`, as scripts may have written.

    >>> import collections, io
    >>> DumpUnpickler(io.BytesIO(pickle.dumps([1, collections.Counter]))).load()
    [1, collections.Counter]
    """

    dispatch = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, file, *, catch_invalid_utf8=False, **kwargs):
        super().__init__(file, **kwargs)
        self.catch_invalid_utf8 = catch_invalid_utf8

    def find_class(self, module, name):
        """A `FakeClass`."""
        return FakeClass(module, name)

    def persistent_load(self, pid):
        """A `FakeObject` with the name of what lies elsewhere."""
        return FakeObject("pers", "obj", (pid,))

    def load_binunicode(self):
        """Text."""
        (length,) = struct.unpack("<I", self.read(4))
        if length > sys.maxsize:
            raise Exception("String too long.")
        data = self.read(length)
        found: Any
        try:
            found = str(data, "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            if not self.catch_invalid_utf8:
                raise
            found = FakeObject("builtin", "UnicodeDecodeError", (str(error),))
        self.append(found)

    dispatch[pickle.BINUNICODE[0]] = load_binunicode

    @classmethod
    def dump(cls, in_stream, out_stream):
        """Reads one and prints it; gives it."""
        value = cls(in_stream).load()
        pprint.pprint(value, stream=out_stream)
        return value


_USAGE = """usage: show_pickle PICKLE_FILE
  PICKLE_FILE can be any of:
    path to a pickle file
    file.zip@member.pkl
    file.zip@*/pattern.*
      (shell glob pattern for members)
      (only first match will be shown)
"""


def main(argv, output_stream=None) -> int | None:
    """Prints the pickle that ``argv[1]`` names: a file, or ``file.zip@member`` (a pattern: the first that fits).

    Raises:
        Exception: for another number of arguments, or if no member fits.
    """
    if len(argv) != 2:
        if output_stream is not None:
            raise Exception("Pass argv of length 2.")
        sys.stderr.write(_USAGE)
        return 2
    path, at, member = argv[1].partition("@")
    if not at:
        with open(path, "rb") as file:
            DumpUnpickler.dump(file, output_stream)
        return None
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if fnmatch.fnmatch(n, member)] if "*" in member else [member]
        if not names:
            raise Exception(f"Could not find member matching {member} in {path}")
        with archive.open(names[0]) as file:
            DumpUnpickler.dump(file, output_stream)
    return None


if __name__ == "__main__":
    pprint.PrettyPrinter._dispatch[FakeObject.__repr__] = FakeObject.pp_format  # type: ignore[attr-defined]
    sys.exit(main(sys.argv))
