"""What contracts of import-linter cannot say: circles of files, private names of JAX, sizes of folders, what C++ includes."""

import collections
import re
import tomllib
from importlib.util import find_spec, resolve_name
from pathlib import Path

import grimp
import networkx
import pytest

import ftorch

PACKAGE = Path(ftorch.__file__).parent
ROOT = PACKAGE.parent


@pytest.fixture(scope="module")
def imports():
    """Which module imports which, within functions too; without those for type checkers."""
    graph = grimp.build_graph("ftorch", exclude_type_checking_imports=True, cache_dir=None)
    found = networkx.DiGraph()
    for module in graph.modules:
        found.add_edges_from((module, other) for other in graph.find_modules_directly_imported_by(module))
    for path in PACKAGE.rglob("*.py"):  # those by name, too
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for name in re.findall(r"""\bimport_module\(["']([\w.]+)["']""", path.read_text()):
            other = resolve_name(name, package)
            if other.partition(".")[0] == "ftorch":
                found.add_edge(module, other)
    # Who imports the package itself uses what users use: its public names, when a function runs.
    found.remove_node("ftorch")
    return found


def _folder(module):
    path = ROOT / module.replace(".", "/")
    return module if path.is_dir() else module.rpartition(".")[0]


def test_no_circles_of_files_across_folders(imports):
    found = {
        tuple(sorted({_folder(m) for m in circle})): sorted(circle)
        for circle in networkx.strongly_connected_components(imports)
        if len({_folder(m) for m in circle}) > 1
    }
    assert found == {}


def test_the_engine_has_no_circles_across_rooms(imports):
    rooms = networkx.DiGraph()
    for a, b in imports.edges:
        if a.startswith("ftorch.eager.") and b.startswith("ftorch.eager."):
            one, other = a.split(".")[2], b.split(".")[2]
            if one != other:
                rooms.add_edge(one, other)
    assert [c for c in networkx.strongly_connected_components(rooms) if len(c) > 1] == []


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="an installed package")
def test_no_contract_has_exceptions():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert len(contracts) >= 7
    assert [c["name"] for c in contracts if "ignore_imports" in c] == []


def test_private_names_of_jax_are_in_one_module():
    modules = r"jax\._src|jaxlib\._jax|jax\.interpreters\.partial_eval"
    private = re.compile(rf"^\s*((from|import) ({modules})|from jaxlib import .*\b_jax\b)", re.MULTILINE)
    found = {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if private.search(p.read_text())}
    assert found <= {"eager/core/jax_internals.py"}


CONTEXTS = "eager/native/contexts.py"
# What only tests, tools of the command line and processes that watch others use.
OTHER_CONTEXTS = ("testing/", "utils/benchmark/", "distributed/elastic/", "_toplevel/startup.py")


def test_contexts_of_generators_are_those_that_an_interrupt_leaves_at_once():
    other = re.compile(r"contextlib\.contextmanager|^from contextlib import .*\bcontextmanager", re.MULTILINE)
    found = {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if other.search(p.read_text())} - {CONTEXTS}
    assert {name for name in found if not name.startswith(OTHER_CONTEXTS)} == set()


MOST = 25
PYTORCH = find_spec("torch")
CODE = (".py", ".cpp", ".h", ".inc")
# A file for each of what there are many, by name: nobody looks through these.
LISTED = {"docs/decisions", "tools/library_programs"}


def _own(folder, names):
    """Of the files in a folder, those that are not PyTorch's own modules at PyTorch's paths."""
    theirs = Path(PYTORCH.origin).parent / folder
    return [name for name in names if not (theirs / name).exists() and not (theirs / name).with_suffix("").is_dir()]


@pytest.mark.skipif(PYTORCH is None, reason="needs PyTorch's paths")
def test_folders_are_not_crowded():
    folders = collections.defaultdict(list)
    for path in PACKAGE.rglob("*"):
        if path.suffix in CODE and path.name != "__init__.py":
            folders[path.parent.relative_to(PACKAGE)].append(path.name)
    own = {str(folder): len(_own(folder, names)) for folder, names in folders.items()}
    assert {folder: n for folder, n in own.items() if n > MOST} == {}


def _beside(*tops):
    """{folder: its files} of what lies beside the package, without what running leaves there."""
    found = collections.defaultdict(list)
    for top in tops:
        for path in (ROOT / top).rglob("*.*"):
            if path.is_file() and path.suffix != ".pyc" and path.name != "__init__.py":
                found[path.parent.relative_to(ROOT).as_posix()].append(path.name)
    return found


@pytest.mark.skipif(not (ROOT / "tests").is_dir(), reason="an installed package")
def test_folders_beside_the_package_are_not_crowded():
    folders = _beside("tests", "tools", "benchmarks", "examples", "docs/decisions", "docs/images")
    assert {"tests", "tests/eager/runtime", "tests/samples/nn"} <= folders.keys()
    assert {
        folder: len(names)
        for folder, names in folders.items()
        if len(names) > MOST and folder not in LISTED
    } == {}


# Folders of tests whose subject is no folder of the package.
WITHOUT_ROOM = {
    "differential",
    "examples",
    "names",
    "oracle",
    "samples",
    "tools",  # programs of everything, scripts, names, helpers
}


@pytest.mark.skipif(not (ROOT / "tests").is_dir(), reason="an installed package")
def test_folders_of_tests_are_named_as_the_package():
    folders = [folder.removeprefix("tests/") for folder in _beside("tests") if folder != "tests"]
    without = {
        f
        for f in folders
        if not (PACKAGE / f).is_dir()
        and not any(f == other or f.startswith(other + "/") for other in WITHOUT_ROOM)
    }
    assert without == set()


@pytest.mark.skipif(not (ROOT / "tests").is_dir(), reason="an installed package")
def test_one_package_asks_both_libraries():
    generic = re.compile(r"^def (both|check|outcome)\(", re.MULTILINE)
    found = {str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("*.py") if generic.search(p.read_text())}
    assert found == {"tests/oracle/programs.py"}


@pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="an installed package")
def test_what_a_newer_python_tests_needs_no_pytorch():
    listed = re.findall(r"\btests/[\w/]+\.py", (ROOT / ".ci/newer-python").read_text())
    needs = re.compile(r"^(import torch\b|from torch\b|from (\.+|tests\.)oracle)", re.MULTILINE)
    assert len(listed) >= 14
    assert [name for name in listed if needs.search((ROOT / name).read_text())] == []


def test_the_kernels_include_each_other_without_circles():
    source = PACKAGE / "eager/native/src"
    found, include = networkx.DiGraph(), re.compile(r'^#include "([^"]+)"', re.MULTILINE)
    for path in source.rglob("*.*"):
        if path.suffix in (".cpp", ".h", ".inc"):
            name = path.relative_to(source).as_posix()
            found.add_edges_from((name, other) for other in include.findall(path.read_text()) if "xla/" not in other)
    assert all((source / name).is_file() for name in found), "files are named from the top: \"room/file.h\""
    assert list(networkx.simple_cycles(found)) == []


def _files_with(pattern):
    found = re.compile(pattern)
    return {str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if found.search(p.read_text())}


def test_one_module_knows_how_jaxprs_call_and_one_how_traces_are_written():
    assert _files_with(r"""["' ](closed_call|custom_vjp_call_jaxpr)["' ]""") == {"eager/core/jaxprs.py"}
    assert _files_with(r"code\[\w+\]\.__class__ is int") == {"eager/runtime/trace_code.py"}


def test_files_are_not_known_by_their_depth():
    assert _files_with(r"\.parents\[\d|[\"']/jax/[\"']") == set()


def test_files_are_read_in_one_sitting():
    lines = {str(p.relative_to(PACKAGE)): len(p.read_text().splitlines()) for p in PACKAGE.rglob("*.*")
             if p.suffix in (".py", ".cpp", ".h", ".inc")}
    assert {name: n for name, n in lines.items() if n > 600} == {}
