"""ftorch under the name ``torch``: for an environment, or for one process.

`install` puts a small distribution named torch into an environment: for ``pip`` and ``importlib.metadata``
PyTorch is there, and ``import torch`` finds packages that hand over to `become`. There the package's own
files are executed as ``torch``, ``torch.nn``, ...: modules, classes and functions are born with those names,
which pickles, messages and libraries then read. ``ftorch.x`` are the same module objects. Where ftorch was
imported before, what is loaded is renamed instead.

This file is also run by itself, before the package is imported: it uses the standard library alone.
"""

from __future__ import annotations

import csv
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import sysconfig
import types

PACKAGES = {"functorch": "ftorch.functorch", "torch": "ftorch"}  # name there: name here
_HOME = pathlib.Path(__file__).parent
# Parts of the standard library that PyTorch imports, and which programs use after no import but torch's.
_LOADED = ("concurrent.futures", "multiprocessing.connection", "multiprocessing.reduction")
_INSTALLER = "ftorch"  # what the distribution's file INSTALLER says, by which `status` knows it


def is_own(module: str | None, below: str = "") -> bool:
    """Whether a module's name is one of this package's, by either name.

    Args:
        module: a module's full name, as in ``__module__``.
        below: the name of a part, ``"nn"``: only the modules of that part count.
    """
    if not module:
        return False
    root, _, rest = module.partition(".")
    if root != "ftorch" and (root != "torch" or not is_active()):
        return False
    return not below or rest == below or rest.startswith(f"{below}.")


def is_active() -> bool:
    """Whether ``torch`` is this package in this process."""
    return "torch" in sys.modules and sys.modules["torch"] is sys.modules.get("ftorch")


def canonical(name: str) -> str:
    """The name under which a module is known while the alias is active: ``torch.nn`` of ``ftorch.nn``.

    >>> canonical("ftorch.nn.functional"), canonical("ftorch.functorch.compile"), canonical("numpy")
    ('torch.nn.functional', 'functorch.compile', 'numpy')
    """
    for theirs, ours in PACKAGES.items():
        if name == ours or name.startswith(f"{ours}."):
            return theirs + name.removeprefix(ours)
    if name == "torch.functorch" or name.startswith("torch.functorch."):  # a relative import's name
        return name.removeprefix("torch.")
    return name


class AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``ftorch.x`` as the module ``torch.x``; tells ``importlib.metadata`` of a distribution torch."""

    distribution: importlib.metadata.Distribution | None = None

    def find_spec(self, fullname, path=None, target=None):
        if fullname in PACKAGES:  # for one process no file says so
            file = _HOME.joinpath(*PACKAGES[fullname].split(".")[1:], "__init__.py")
            return importlib.util.spec_from_file_location(
                fullname, file, submodule_search_locations=[str(file.parent)]
            )
        name = canonical(fullname)
        if name == fullname or (name not in sys.modules and importlib.util.find_spec(name) is None):
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec):
        module = importlib.import_module(canonical(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        alias = module.__spec__  # the import system has put the alias's there
        module.__spec__ = alias.loader_state

    def find_distributions(self, context=None):
        if self.distribution is not None and getattr(context, "name", None) in (None, "torch"):
            yield self.distribution


class _Distribution(importlib.metadata.Distribution):
    """The distribution torch of a process: what `install` would have put into the environment."""

    def read_text(self, filename):
        return _metadata_files().get(filename)

    def locate_file(self, path):
        return _HOME.parent / path


_finder = AliasFinder()


def become(name: str) -> types.ModuleType:
    """Makes this package what ``import torch`` or ``import functorch`` gives; returns the module.

    Called by the installed ``torch/__init__.py`` and ``functorch/__init__.py``, while they are imported.
    """
    _activate()
    ours = PACKAGES[name]
    module = sys.modules.get(ours)
    if module is not None and module is not sys.modules.get(name):
        _rename_loaded()
        return sys.modules[name]
    module = sys.modules[name]
    module.__path__ = [os.path.join(_HOME, *ours.split(".")[1:])]
    module.__file__ = os.path.join(module.__path__[0], "__init__.py")
    spec = importlib.util.spec_from_file_location(
        name, module.__file__, submodule_search_locations=module.__path__
    )
    assert spec is not None and spec.loader is not None and module.__spec__ is not None
    begun, spec._initializing = module.__spec__, True  # type: ignore[attr-defined]
    module.__spec__, module.__loader__ = spec, spec.loader
    module.__cached__ = spec.cached  # type: ignore[attr-defined]
    for attribute in ("_alias", "_load"):  # of the file that called
        vars(module).pop(attribute, None)
    sys.modules[ours] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[ours]
        module.__spec__ = begun
        raise
    finally:
        spec._initializing = False  # type: ignore[attr-defined]
    for loaded in _LOADED:
        importlib.import_module(loaded)
    return module


def _activate():
    if not any(type(finder).__qualname__ == AliasFinder.__qualname__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _finder)


def _rename_loaded():
    """Gives all modules that are loaded as ``ftorch.x``, and what they define, their names as ``torch.x``."""
    for name, module in list(sys.modules.items()):
        theirs = canonical(name)
        if theirs == name or not isinstance(module, types.ModuleType):
            continue
        sys.modules[theirs] = module
        if module.__name__ != name:
            continue
        module.__name__ = theirs
        spec = module.__spec__
        if spec is not None:
            spec.name = theirs
            if hasattr(spec.loader, "name"):
                spec.loader.name = theirs  # type: ignore[union-attr]
            module.__package__ = spec.parent
        for value in list(vars(module).values()):
            _rename(value, name, theirs)


_IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: a class in C whose attributes can't be set


def _rename(value, name, theirs):
    if isinstance(value, type) and value.__flags__ & _IMMUTABLE_TYPE:
        return  # its name is the one in its C declaration
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and value.__module__ == name:
        value.__module__ = theirs
        if isinstance(value, type):
            for inner in list(vars(value).values()):
                _rename(getattr(inner, "__func__", inner), name, theirs)


def install_as_torch() -> None:
    """Makes ``import torch`` import ftorch in this process, from now on.

    ``torch`` and ``torch.x`` are then the modules ``ftorch`` and ``ftorch.x``, by those names, and
    ``importlib.metadata`` knows a distribution torch. Processes that ``multiprocessing`` starts do as this
    one where their main module says so, too; ``python -m ftorch alias install`` is for all of an environment.

    Raises:
        RuntimeError: another ``torch`` has been imported already.

    Example:
        >>> import ftorch
        >>> ftorch.install_as_torch()                              # doctest: +SKIP
        >>> import torch                                           # doctest: +SKIP
        >>> torch is ftorch, torch.nn.Linear.__module__            # doctest: +SKIP
        (True, 'torch.nn.modules.linear')
    """
    if is_active():
        return
    if "torch" in sys.modules:
        raise RuntimeError(
            "another torch has been imported in this process: call ftorch.install_as_torch() first of all"
        )
    _finder.distribution = _Distribution()
    _activate()
    _rename_loaded()


_SHIM = '''\
"""ftorch, PyTorch's programming model on JAX, as this environment's {name}.

Written by ``python -m ftorch alias install``; ``python -m ftorch alias remove`` takes it away.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys


def _load():
    package = sys.modules.get("ftorch") or sys.modules.get("torch.fx") or importlib.util.find_spec("ftorch")
    file = getattr(package, "__file__", None) or getattr(package, "origin", None)
    if file is None:
        raise ModuleNotFoundError(
            "{name} is ftorch in this environment, and ftorch is not installed: install it, or remove "
            "the distribution torch", name="ftorch"
        )
    place = pathlib.Path(file).with_name("_alias.py")
    spec = importlib.util.spec_from_file_location("_ftorch_alias", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_alias = sys.modules.get("ftorch._alias") or sys.modules.get("torch._alias") or _load()
_alias.become("{name}")
'''


def _version():
    scope: dict = {}
    exec((_HOME / "version.py").read_text(), scope)
    return scope["__version__"]


def _metadata_files(site=None):
    """The files of the distribution's ``dist-info`` folder but RECORD, by name.

    ftorch is a requirement only where it is installed: where it is on the path otherwise, ``pip install`` of any library that
    needs torch would look for it, and ``pip check`` complain.
    """
    # A checkout in which the command is called is not installed, whatever was built in it.
    places = {"path": [*(() if site is None else [str(site)]), *(p for p in sys.path if p not in ("", os.getcwd()))]}
    installed = any(True for _ in importlib.metadata.distributions(name="ftorch", **places))
    requires = "Requires-Dist: ftorch\n" if installed else ""
    return {
        "METADATA": (
            f"Metadata-Version: 2.1\nName: torch\nVersion: {_version()}\n"
            "Summary: ftorch, PyTorch's programming model on JAX, under PyTorch's name\n"
            f"{requires}"
        ),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: ftorch\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "INSTALLER": f"{_INSTALLER}\n",
        "top_level.txt": "functorch\ntorch\n",
    }


def _site(folder):
    return pathlib.Path(folder or sysconfig.get_path("purelib"))


def _installed(folder):
    """The alias's distribution in an environment, or None; and another's version, or None."""
    context = importlib.metadata.DistributionFinder.Context(name="torch", path=[str(folder)])
    for found in importlib.metadata.MetadataPathFinder.find_distributions(context):
        if (found.read_text("INSTALLER") or "").strip() == _INSTALLER:
            return found, None
        return None, found.version
    if any((folder / name / "__init__.py").exists() for name in PACKAGES):
        return None, "an unknown version"
    return None, None


def status(folder: str | os.PathLike[str] | None = None) -> str:
    """What ``torch`` is in an environment, in a sentence.

    Args:
        folder: its ``site-packages``; by default those of the running interpreter.
    """
    site = _site(folder)
    own, other = _installed(site)
    if own is not None:
        return f"torch is ftorch (version {own.version}) in {site}"
    return f"torch is PyTorch ({other}) in {site}" if other else f"there is no torch in {site}"


def install(folder: str | os.PathLike[str] | None = None) -> str:
    """Makes ftorch an environment's torch; returns what `status` says then.

    Writes the packages ``torch`` and ``functorch``, of one file each, and the distribution's metadata.
    A former alias is replaced.

    Raises:
        RuntimeError: PyTorch is installed there.
    """
    site = _site(folder)
    _, other = _installed(site)
    elsewhere = None if folder is not None else _other_torch()
    if other or elsewhere:
        raise RuntimeError(
            f"PyTorch ({other or elsewhere}) is installed in this environment: the alias is for environments "
            "without it. Uninstall it (pip uninstall torch), or make a new environment"
        )
    remove(site)
    files = {f"{name}/__init__.py": _SHIM.format(name=name) for name in PACKAGES}
    info = f"torch-{_version()}.dist-info"
    files |= {f"{info}/{name}": text for name, text in _metadata_files(site).items()}
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    with open(site / info / "RECORD", "w", newline="") as record:
        csv.writer(record).writerows([*((path, "", "") for path in files), (f"{info}/RECORD", "", "")])
    importlib.invalidate_caches()
    return status(site)


def _other_torch():
    """The version of a torch elsewhere on the module search path that is not the alias, or None."""
    for found in importlib.metadata.distributions(name="torch"):
        if (found.read_text("INSTALLER") or "").strip() != _INSTALLER:
            return found.version
    return None


def remove(folder: str | os.PathLike[str] | None = None) -> str:
    """Undoes `install`; returns what `status` says then. Does nothing where there is no alias."""
    site = _site(folder)
    own, _ = _installed(site)
    if own is not None:
        paths = [site / file for file in own.files or ()]
        for path in paths:
            path.unlink(missing_ok=True)
        for path in {path.parent for path in paths}:
            for cached in (path / "__pycache__").glob("__init__.*.pyc"):
                cached.unlink()
            for left in (path / "__pycache__", path):
                if left.is_dir() and not any(left.iterdir()):
                    left.rmdir()
    importlib.invalidate_caches()
    return status(site)


def main(arguments: list[str]) -> int:
    """``python -m ftorch alias (install | status | remove)``; gives the exit status."""
    commands = {"install": install, "status": status, "remove": remove}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: python -m ftorch alias (install | status | remove)", file=sys.stderr)
        return 2
    try:
        print(commands[arguments[0]]())
    except RuntimeError as error:
        print(f"ftorch: {error}", file=sys.stderr)
        return 1
    return 0
