"""Reads packages: modules that are apart from Python's own (``torch.package.package_importer``)."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.machinery
import importlib.util
import io
import linecache
import os
import types
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from .._C import PyTorchFileReader
from .._serialization.locations import restorer
from .._serialization.pickling import LoadedStorage
from ._mangling import PackageMangler, demangle
from ._package_pickler import PackageUnpickler
from .file_structure_representation import Directory, _create_directory_from_file_list
from .glob_group import GlobPattern
from .importer import Importer

__all__ = ["PackageImporter"]

_GRANTED = {"__future__", "builtins"}  # what every module may import


class PackageImporter(Importer):
    """A package's modules and objects.

    Its modules are its own: what has the same name in Python's is another module. Those that the package was
    written without (`PackageExporter.extern`) are Python's.

    Args:
        file_or_buffer: a path, an open binary file, or a ``torch._C.PyTorchFileReader``.
        module_allowed: says of each extern module whether it may be used.

    Raises:
        ImportError: for an extern module that may not be.

    >>> import io, ftorch as torch
    >>> buffer = io.BytesIO()
    >>> with torch.package.PackageExporter(buffer) as exporter:
    ...     exporter.save_source_string("settings", "rate = 0.1")
    ...     exporter.save_text("notes", "a.txt", "first")
    >>> importer = torch.package.PackageImporter(buffer)
    >>> importer.import_module("settings").rate, importer.load_text("notes", "a.txt")
    (0.1, 'first')
    """

    modules: dict[str, types.ModuleType]

    def __init__(self, file_or_buffer: str | os.PathLike[str] | IO[bytes] | PyTorchFileReader,
                 module_allowed: Callable[[str], bool] = lambda module_name: True):
        if isinstance(file_or_buffer, PyTorchFileReader):
            self.filename = "<pytorch_file_reader>"
            self.zip_reader = file_or_buffer
        elif isinstance(file_or_buffer, (str, os.PathLike)):
            self.filename = os.fspath(file_or_buffer)
            with open(self.filename, "rb") as file:
                self.zip_reader = PyTorchFileReader(io.BytesIO(file.read()))
        else:
            self.filename = "<binary>"
            self.zip_reader = PyTorchFileReader(file_or_buffer)
        self._mangler = PackageMangler()
        self._records = set(self.zip_reader.get_all_records())
        self.extern_modules = self._read_extern()
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{file_or_buffer}' needs the external module '{name}' but that module has been "
                    "disallowed"
                )
        self._folders = {
            "/".join(parts[:i])
            for parts in (r.split("/") for r in self._records)
            for i in range(1, len(parts))
        }
        self.modules = {}
        self._storages: dict[str, LoadedStorage] = {}
        self._reduced: dict[int, Any] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}
        self._restore: Callable | None = None

    def _read_extern(self) -> list[str]:
        return (
            self.zip_reader.get_record(".data/extern_modules")
            .decode("utf-8")
            .splitlines(keepends=False)
        )

    # --- modules -------------------------------------------------------------------------

    def import_module(self, name: str, package=None) -> types.ModuleType:  # type: ignore[override]
        """A module of the package, or an extern one.

        Args:
            package: that to which a relative name (``".part"``) belongs.

        Raises:
            ModuleNotFoundError: there is no such module.
        """
        name = demangle(name)
        if name.startswith("."):
            name = importlib.util.resolve_name(name, demangle(package))
        return self._find(name)

    def _path_of(self, name: str) -> tuple[str, bool] | None:
        """(record, whether it is a package) of a module, where it is in the package; folders have no record."""
        path = name.replace(".", "/")
        if f"{path}/__init__.py" in self._records:
            return f"{path}/__init__.py", True
        if f"{path}.py" in self._records:
            return f"{path}.py", False
        return ("", True) if path in self._folders and path != ".data" else None

    def _has_own(self, name: str) -> bool:
        return self._path_of(name) is not None

    def _find(self, name: str) -> types.ModuleType:
        if name in self.modules:
            return self.modules[name]
        if name in _GRANTED or self._is_extern(name):
            root, dot, rest = name.partition(".")
            # What a package calls torch is this one.
            own = __name__.partition(".")[0] if root == "torch" else root
            self.modules[name] = importlib.import_module(own + dot + rest)
            return self.modules[name]
        parent, _, child = name.rpartition(".")
        if parent:
            self._find(parent)
            if name in self.modules:  # the parent has imported it
                return self.modules[name]
        found = self._path_of(name)
        if found is None:
            raise ModuleNotFoundError(
                f'No module named "{name}" in self-contained archive "{self.filename}" and the module is also not '
                f"in the list of allowed external modules: {self.extern_modules}",
                name=name,
            )
        module = self._execute(name, *found)
        if parent:
            setattr(self.modules[parent], child, module)
        return module

    def _is_extern(self, name: str) -> bool:
        if self._has_own(name):
            return False
        parts = name.split(".")
        return any(".".join(parts[: i + 1]) in self.extern_modules for i in range(len(parts)))

    def _execute(self, name: str, record: str, is_package: bool) -> types.ModuleType:
        mangled = self._mangler.mangle(name)
        spec = importlib.machinery.ModuleSpec(
            name,
            self,
            origin="<package_importer>",
            is_package=is_package,  # type: ignore[arg-type]
        )
        module = types.ModuleType(mangled)
        parent = name if is_package else name.rpartition(".")[0]
        module.__dict__.update(
            __spec__=spec, __loader__=self, __package__=parent, __cached__=None, __builtins__=self._builtins,
            __torch_package__=True,
        )
        if is_package:
            module.__path__ = (
                [f"{self._mangler.parent_name()}.{name.replace('.', '/')}"] if record else []
            )
        self.modules[name] = module
        if not record:
            return module
        module.__file__ = f"{self._mangler.parent_name()}.{record}"
        source = self._source(record)
        lines = source.splitlines(keepends=True)
        linecache.cache[module.__file__] = (
            len(source),
            None,
            lines,
            module.__file__,
        )  # for tracebacks
        try:
            exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            self.modules.pop(name, None)
            raise
        return self.modules[name]

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        # What an import statement in the package calls.
        if level:
            package = demangle(globals["__package__"])
            name = importlib.util.resolve_name("." * level + name, package)
        module = self._find(name)
        if not fromlist:
            return module if level else self._find(name.partition(".")[0])
        if hasattr(module, "__path__"):
            wanted = getattr(module, "__all__", ()) if "*" in fromlist else fromlist
            for part in wanted:
                if not hasattr(module, part):
                    with contextlib.suppress(ModuleNotFoundError):
                        self._find(f"{name}.{part}")
        return module

    def _source(self, record: str) -> str:
        return importlib.util.decode_source(self.zip_reader.get_record(record))

    def get_source(self, module_name) -> str:
        """A module's source.

        Raises:
            ModuleNotFoundError: it is not in the package, or is only a folder.
        """
        found = self._path_of(demangle(module_name))
        if not found or not found[0]:
            raise ModuleNotFoundError(f"No source of {module_name} in {self.filename}")
        return self._source(found[0])

    # --- objects -------------------------------------------------------------------------

    def load_binary(self, package: str, resource: str) -> bytes:
        """The bytes of a resource.

        Raises:
            RuntimeError: there is none.
        """
        return self.zip_reader.get_record(f"{demangle(package).replace('.', '/')}/{resource}")

    def load_text(
        self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """The text of a resource (see `load_binary`)."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location=None) -> Any:
        """A pickled object, whose classes are those of the package.

        Args:
            map_location: where storages are put, as for `torch.load`.

        Raises:
            RuntimeError: there is none.
        """
        restore = restorer(map_location)
        storages: dict[str, LoadedStorage] = {}

        def load(saved_id):
            kind, *arguments = saved_id
            if kind == "storage":
                storage_type, key, location, count = arguments
                if key not in storages:
                    data = np.frombuffer(
                        bytearray(self.zip_reader.get_record(f".data/{key}.storage")), np.uint8
                    )
                    nbytes = count * storage_type.itemsize
                    made = LoadedStorage(nbytes, data, storage_type.dtype, location)
                    storages[key] = restore(made, made.location)
                return storages[key]
            if kind == "reduce_package":
                number, function, given = arguments
                if number not in self._reduced:
                    self._reduced[number] = function(self, *given)
                return self._reduced[number]
            raise ValueError(f"Unknown typename for persistent_load, expected 'storage' or 'reduce_package' but "
                             f"got '{kind}'")

        data = io.BytesIO(self.load_binary(package, resource))
        result = PackageUnpickler(self, data, load).load()
        self._reduced.clear()
        return result

    # --- what is in it -------------------------------------------------------------------

    def id(self) -> str:
        """What stands before the names of this importer's modules."""
        return self._mangler.parent_name()

    def file_structure(
        self, *, include: GlobPattern = "**", exclude: GlobPattern = ()
    ) -> Directory:
        """The tree of the files whose paths match."""
        return _create_directory_from_file_list(
            self.filename, self.zip_reader.get_all_records(), include, exclude
        )

    def python_version(self) -> str | None:
        """The version of Python that the package was written with; None where it does not say."""
        name = ".data/python_version"
        return (
            self.zip_reader.get_record(name).decode("utf-8").strip()
            if name in self._records
            else None
        )

    def get_resource_reader(self, fullname):
        """A reader of the resources of a package (``importlib.resources``); None for a module."""
        found = self._path_of(demangle(fullname))
        return _ResourceReader(self, demangle(fullname)) if found and found[1] else None

    def __repr__(self):
        return f"PackageImporter({self.filename!r})"


class _ResourceReader:
    """The resources of one package, as ``importlib.resources`` asks for them."""

    def __init__(self, importer: PackageImporter, fullname: str):
        self.importer, self.fullname = importer, fullname
        self._folder = fullname.replace(".", "/")

    def open_resource(self, resource) -> io.BytesIO:
        try:
            return io.BytesIO(self.importer.load_binary(self.fullname, resource))
        except RuntimeError:
            raise FileNotFoundError(f"{self._folder}/{resource}") from None

    def resource_path(self, resource):
        raise FileNotFoundError(f"{self._folder}/{resource} is not a file of its own")

    def is_resource(self, name) -> bool:
        return f"{self._folder}/{name}" in self.importer._records

    def contents(self) -> Iterator[str]:
        before = f"{self._folder}/"
        yield from sorted(
            {
                r[len(before) :].partition("/")[0]
                for r in self.importer._records
                if r.startswith(before)
            }
        )
