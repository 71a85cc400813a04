"""Writes packages: code and pickled objects in one file (``torch.package.package_exporter``)."""

from __future__ import annotations

import contextlib
import importlib.machinery
import io
import itertools
import linecache
import os
import platform
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import IO, Any, NamedTuple

from .._C import PyTorchFileWriter
from ..serialization import location_tag
from ..utils.hooks import RemovableHandle
from ._digraph import DiGraph
from ._mangling import demangle, is_mangled
from ._package_pickler import create_pickler, globals_of
from .find_file_dependencies import find_files_source_depends_on
from .glob_group import GlobGroup, GlobPattern
from .importer import Importer, OrderedImporter, sys_importer

__all__ = ["EmptyMatchError", "PackageExporter", "PackagingError", "PackagingErrorReason"]

_WITH_ACCESS = {"sys", "io"}  # modules of the standard library that are not taken for granted
_MOCK_SOURCE = """from _mock import MockedObject


def __getattr__(name):
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    return MockedObject(f"{__name__}.{name}")
"""


class _Action(Enum):
    INTERN = 1
    EXTERN = 2
    DENY = 3
    MOCK = 4


class PackagingErrorReason(Enum):
    """Why a module cannot be packaged."""

    IS_EXTENSION_MODULE = (
        "Module is a C extension module. torch.package supports Python modules only."
    )
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. "
        "Please intern or extern the mocked modules if objects are supposed to be in the package."
    )

    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}>"


class EmptyMatchError(Exception):
    """A pattern with ``allow_empty=False`` matched nothing."""


class PackagingError(Exception):
    """Modules cannot be packaged.

    Attributes:
        dependency_graph: the graph of modules, whose nodes say why.
        broken: the modules.
    """

    def __init__(self, dependency_graph: DiGraph, debug: bool = False):
        by_reason: dict[PackagingErrorReason, list[tuple[str, dict]]] = {}
        for name, node in dependency_graph.nodes.items():
            if node.get("error") is not None:
                by_reason.setdefault(node["error"], []).append((name, node))
        lines = [""]
        for reason, modules in by_reason.items():
            lines.append(f"* {reason.value}")
            for name, node in modules:
                lines.append(f"    {name}")
                if node.get("error_context"):
                    lines.append(f"      Context: {node['error_context']}")
                if name in _WITH_ACCESS:
                    lines.append(
                        "      Note: While we usually use modules in the python standard library from the local "
                        f"environment, `{name}` has a lot of system level access and therefore can pose a security "
                        f"risk. We heavily recommend removing `{name}` from your packaged code. However, if that is "
                        "not possible, add it to the extern list by calling "
                        f'PackageExporter.extern("`{name}`")'
                    )
                if debug:
                    path = " -> ".join(dependency_graph.first_path(name))
                    lines.append(f"      A path to {name}: {path}")
        if not debug:
            lines.append("")
            lines.append(
                "Set debug=True when invoking PackageExporter for a visualization of where broken modules are "
                "coming from!"
            )
        super().__init__("\n".join(lines) + "\n")
        self.dependency_graph = dependency_graph
        self.broken = [name for modules in by_reason.values() for name, _ in modules]


class _Pattern(NamedTuple):
    action: _Action
    allow_empty: bool


class PackageExporter:
    """Writes a package: pickled objects together with the code that they need.

    For each module that is needed a pattern says what becomes of it: its source is put into the package
    (`intern`), it is expected where the package is loaded (`extern`), an object that raises when used stands for
    it (`mock`), or it may not be needed (`deny`). The first pattern that matches decides. PyTorch's modules and
    the standard library are extern.

    Args:
        f: a path, or an open binary file.
        importer: where modules and objects come from; several, in the order in which they are asked.
        debug: errors say by which path a module is needed.

    >>> import io, ftorch as torch
    >>> buffer = io.BytesIO()
    >>> with torch.package.PackageExporter(buffer) as exporter:
    ...     exporter.save_source_string("code", "def double(x): return 2 * x")
    ...     exporter.save_pickle("data", "x.pkl", torch.ones(2))
    >>> importer = torch.package.PackageImporter(buffer)
    >>> importer.import_module("code").double(importer.load_pickle("data", "x.pkl"))
    tensor([2., 2.])
    """

    def __init__(self, f: str | os.PathLike[str] | IO[bytes], importer: Importer | Sequence[Importer] = sys_importer,
                 debug: bool = False):
        self.debug = debug
        is_path = isinstance(f, (str, os.PathLike))
        self.buffer = None if is_path else f
        self.zip_file = PyTorchFileWriter(f)
        self.zip_file.set_min_version(6)
        self._written: set[str] = set()
        self.dependency_graph = DiGraph()
        self.patterns: dict[GlobGroup, _Pattern] = {}
        self._matched: set[GlobGroup] = set()
        self._hooks: dict[_Action, OrderedDict] = {
            action: OrderedDict() for action in (_Action.EXTERN, _Action.MOCK, _Action.INTERN)
        }
        self.importer = importer if isinstance(importer, Importer) else OrderedImporter(*importer)
        self._storages: dict[int, tuple[str, Any]] = {}
        self._reduced: dict[int, Any] = {}
        self._unique = itertools.count()

    # --- what is put in ------------------------------------------------------------------

    def save_source_file(self, module_name: str, file_or_directory: str, dependencies=True):
        """Puts in a file of source, or all ``.py`` files of a folder as a package.

        Args:
            module_name: its name in the package.
            dependencies: whether the modules that it imports are put in as patterns say.
        """
        path = Path(file_or_directory)
        if not path.is_dir():
            self.save_source_string(module_name, path.read_text(), False, dependencies)
            return
        for file in sorted(path.rglob("*.py")):
            parts = list(file.relative_to(path).with_suffix("").parts)
            is_package = parts[-1] == "__init__"
            name = ".".join([module_name, *(parts[:-1] if is_package else parts)])
            self.save_source_string(name, file.read_text(), is_package, dependencies)

    def get_unique_id(self) -> str:
        """A number, as text, that this package has not given out."""
        return str(next(self._unique))

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ):
        """Puts in source as a module.

        Args:
            is_package: whether the module has others below it.
            dependencies: whether the modules that it imports are put in as patterns say.
        """
        self.dependency_graph.add_node(
            module_name, source=src, is_package=is_package, provided=True, action=_Action.INTERN
        )
        if dependencies:
            self._follow(module_name, self._imports(src, module_name, is_package))

    def save_module(self, module_name: str, dependencies=True):
        """Puts in a module's source.

        Raises:
            TypeError: if this is no name.
        """
        if not isinstance(module_name, str):
            raise TypeError(
                "save_module() expects a string input, did you perhaps mean to pass `__name__`?"
            )
        self._intern_module(module_name, dependencies)

    def save_pickle(
        self,
        package: str,
        resource: str,
        obj: Any,
        dependencies: bool = True,
        pickle_protocol: int = 3,
    ):
        """Puts in a pickled object.

        Args:
            package, resource: where: ``"my_package"``, ``"weights.pkl"``.
            dependencies: whether the modules of its classes are put in as patterns say.
            pickle_protocol: 3 or 4.

        Raises:
            AssertionError: for another protocol.
        """
        assert pickle_protocol in (3, 4), "torch.package only supports pickle protocols 3 and 4"
        buffer = io.BytesIO()
        pickler = create_pickler(
            buffer, self.importer, pickle_protocol, location_tag, self._reduce_package
        )
        pickler.storage_id = self._storage_id(pickler)
        pickler.dump(obj)
        data = buffer.getvalue()
        if dependencies:
            name = f"<{package}.{resource}>"
            self.dependency_graph.add_node(
                name, action=_Action.INTERN, provided=True, is_pickle=True
            )
            used = globals_of(data)
            self._follow(name, used)
            for module, names in used.items():
                node = self.dependency_graph.nodes.get(module, {})
                if node.get("action") is _Action.MOCK:
                    self.dependency_graph.add_node(
                        module, error=PackagingErrorReason.MOCKED_BUT_STILL_USED,
                        error_context=f"Object(s) '{names}' from module `{module}` was mocked out during packaging but "
                        f"is being used in resource - `{resource}` in package `{package}`. ",
                    )
        self._write(self._filename(package, resource), data)

    def save_text(self, package: str, resource: str, text: str):
        """Puts in text."""
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package, resource, binary: bytes):
        """Puts in bytes."""
        self._write(self._filename(package, resource), binary)

    def add_dependency(self, module_name: str, dependencies=True):
        """Says that a module is needed: the first pattern that matches decides what becomes of it."""
        graph = self.dependency_graph
        if module_name in graph and graph.nodes[module_name].get("provided"):
            return
        if self._is_granted(module_name):
            graph.add_node(module_name, action=_Action.EXTERN, provided=True)
            return
        for pattern, (action, _) in self.patterns.items():
            if pattern.matches(module_name):
                self._matched.add(pattern)
                if action is _Action.DENY:
                    graph.add_node(
                        module_name, action=action, provided=True, error=PackagingErrorReason.DENIED
                    )
                elif action is _Action.INTERN:
                    self._intern_module(module_name, dependencies)
                else:
                    graph.add_node(module_name, action=action, provided=True)
                return
        graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)

    # --- patterns ------------------------------------------------------------------------

    def intern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True):
        """Modules that match are put into the package.

        Args:
            include, exclude: patterns (`GlobGroup`).
            allow_empty: False raises `EmptyMatchError` at the end if nothing matched.
        """
        self._add_pattern(_Action.INTERN, include, exclude, allow_empty)

    def mock(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True):
        """For modules that match, objects are put in that raise when they are used (see `intern`)."""
        self._add_pattern(_Action.MOCK, include, exclude, allow_empty)

    def extern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True):
        """Modules that match are expected where the package is loaded (see `intern`)."""
        self._add_pattern(_Action.EXTERN, include, exclude, allow_empty)

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()):
        """Modules that match may not be needed: `PackagingError` is raised at the end."""
        self._add_pattern(_Action.DENY, include, exclude, True)

    def _add_pattern(self, action, include, exclude, allow_empty):
        self.patterns[GlobGroup(include, exclude=exclude)] = _Pattern(action, allow_empty)

    def register_extern_hook(self, hook: Callable[[PackageExporter, str], None]) -> RemovableHandle:
        """A function that is called with (exporter, name) of each extern module; a handle that removes it."""
        return self._register(_Action.EXTERN, hook)

    def register_mock_hook(self, hook: Callable[[PackageExporter, str], None]) -> RemovableHandle:
        """A function that is called with (exporter, name) of each mocked module; a handle that removes it."""
        return self._register(_Action.MOCK, hook)

    def register_intern_hook(self, hook: Callable[[PackageExporter, str], None]) -> RemovableHandle:
        """A function that is called with (exporter, name) of each interned module; a handle that removes it."""
        return self._register(_Action.INTERN, hook)

    def _register(self, action, hook):
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    # --- modules and what they need ------------------------------------------------------

    @staticmethod
    def _is_granted(module_name: str) -> bool:
        top = module_name.partition(".")[0]
        granted = top in sys.stdlib_module_names and top not in _WITH_ACCESS
        return top in ("torch", "ftorch") or granted

    def _follow(self, name, needed):
        for module in needed:
            self.dependency_graph.add_edge(name, module)
            self.add_dependency(module)

    def _imports(self, source: str, module_name: str, is_package: bool) -> dict[str, bool]:
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            found = find_files_source_depends_on(source, package)
        except Exception as error:
            self.dependency_graph.add_node(
                module_name,
                error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED,
                error_context=str(error),
            )
            return {}
        # "from a import b": b may be a module.
        return {
            f"{module}.{name}"
            if name is not None and self._exists(f"{module}.{name}")
            else module: True
            for module, name in found
            if self._exists(module)
        }

    def _module(self, module_name: str):
        try:
            return self.importer.import_module(module_name)
        except ModuleNotFoundError as error:
            if is_mangled(module_name):
                raise ModuleNotFoundError(
                    f"Module not found: '{module_name}'. Modules imported from a torch.package cannot be imported "
                    "directly."
                ) from error
            raise

    def _exists(self, module_name: str) -> bool:
        try:
            self._module(module_name)
        except Exception:
            return False
        return True

    def _source_of(self, module) -> str | None:
        loader = getattr(module, "__loader__", None)
        if loader is not None and hasattr(loader, "get_source"):
            with contextlib.suppress(ImportError, OSError):
                source = loader.get_source(demangle(module.__name__))
                if source is not None:
                    return source
        file = getattr(module, "__file__", None)
        return "".join(linecache.getlines(file, module.__dict__)) or None if file else None

    def _intern_module(self, module_name: str, dependencies: bool):
        module = self._module(module_name)
        is_package, source = hasattr(module, "__path__"), self._source_of(module)
        if source is None:
            file, error = (
                getattr(module, "__file__", None),
                PackagingErrorReason.SOURCE_FILE_NOT_FOUND,
            )
            if file is None:
                error = PackagingErrorReason.NO_DUNDER_FILE
            elif file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
                error = PackagingErrorReason.IS_EXTENSION_MODULE
            self.dependency_graph.add_node(
                module_name, action=_Action.INTERN, is_package=is_package, error=error, provided=True,
                error_context=f"filename: {file}" if error is PackagingErrorReason.SOURCE_FILE_NOT_FOUND else None,
            )
            return
        self.dependency_graph.add_node(
            module_name, action=_Action.INTERN, is_package=is_package, source=source, provided=True
        )
        if dependencies:
            self._follow(module_name, self._imports(source, module_name, is_package))

    # --- pickles -------------------------------------------------------------------------

    def _storage_id(self, pickler):
        def storage_id(kind, key, location, count):
            # One storage has one place in the package, whichever pickle names it.
            saved = pickler.storages[key]
            if id(saved.cell) not in self._storages:
                name = str(len(self._storages))
                self._storages[id(saved.cell)] = name, saved
                self._write(f".data/{name}.storage", saved.data().tobytes())
            return "storage", kind, self._storages[id(saved.cell)][0], location, count

        return storage_id

    def _reduce_package(self, pickler, obj):
        if not hasattr(type(obj), "__reduce_package__"):
            return None
        if id(obj) not in self._reduced:
            self._reduced[id(obj)] = ("reduce_package", id(obj), *obj.__reduce_package__(self)), obj
        return self._reduced[id(obj)][0]

    # --- the file ------------------------------------------------------------------------

    def _write(self, filename: str, data) -> None:
        if is_mangled(filename):
            raise AssertionError(f"Tried to save a torch.package'd module as '{filename}'. Directly saving "
                                 "torch.package'd modules is not allowed.")
        if filename in self._written:
            raise AssertionError(
                f"Tried to write file '{filename}', but it already exists in this archive. Please file a bug."
            )
        self._written.add(filename)
        self.zip_file.write_record(filename, data)

    @staticmethod
    def _filename(package: str, resource: str) -> str:
        return f"{package.replace('.', '/')}/{resource}"

    def _write_source(self, module_name: str, source: str, is_package: bool) -> None:
        extension = "/__init__.py" if is_package else ".py"
        self._write(module_name.replace(".", "/") + extension, source)

    def close(self):
        """Completes the package; a ``with`` block does.

        Raises:
            PackagingError: for modules that cannot be packaged.
            EmptyMatchError: for patterns that should have matched.
        """
        graph = self.dependency_graph
        if any(node.get("error") is not None for node in graph.nodes.values()):
            raise PackagingError(graph, debug=self.debug)
        for pattern, (_, allow_empty) in self.patterns.items():
            if not allow_empty and pattern not in self._matched:
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {pattern}, which was marked as allow_empty=False"
                )
        extern, mocked = [], False
        for name, node in list(graph.nodes.items()):
            action = node.get("action")
            for hook in self._hooks.get(action, {}).values():
                hook(self, name)
            if action is _Action.EXTERN:
                extern.append(name)
            elif action is _Action.MOCK:
                if not mocked:
                    self._write_source(
                        "_mock", resources.files(__package__).joinpath("_mock.py").read_text(), False
                    )
                    mocked = True
                self._write_source(name, _MOCK_SOURCE, True)
            elif action is _Action.INTERN and not node.get("is_pickle"):
                self._write_source(name, node["source"], node["is_package"])
        self._write(".data/extern_modules", "\n".join(extern) + "\n")
        self._write(".data/python_version", platform.python_version())
        self._write("byteorder", sys.byteorder)
        self._write(".data/version", "6\n")
        self.zip_file.write_end_of_file()

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if exc_type is None:
            self.close()
        else:
            self.zip_file.write_end_of_file()

    # --- what will be in it --------------------------------------------------------------

    def dependency_graph_string(self) -> str:
        """The graph of modules, as text for Graphviz."""
        return self.dependency_graph.to_dot()

    def _with_action(self, action) -> list[str]:
        return [
            n for n, node in self.dependency_graph.nodes.items() if node.get("action") is action
        ]

    def externed_modules(self) -> list[str]:
        """The modules that are expected where the package is loaded."""
        return sorted(self._with_action(_Action.EXTERN))

    def interned_modules(self) -> list[str]:
        """The modules whose source is in the package."""
        return sorted(n for n in self._with_action(_Action.INTERN) if not n.startswith("<"))

    def mocked_modules(self) -> list[str]:
        """The modules that objects stand for which raise when used."""
        return sorted(self._with_action(_Action.MOCK))

    def denied_modules(self) -> list[str]:
        """The modules that may not be needed and are."""
        return sorted(self._with_action(_Action.DENY))

    def get_rdeps(self, module_name: str) -> list[str]:
        """The modules that need a module, directly; none for one that is not there."""
        graph = self.dependency_graph
        return list(graph.predecessors(module_name)) if module_name in graph else []

    def all_paths(self, src: str, dst: str) -> str:
        """The paths by which one module needs another, as text for Graphviz."""
        return self.dependency_graph.all_paths(src, dst)
