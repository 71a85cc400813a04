"""Packages of code and objects: read by both libraries, refused for the same reasons."""

import io
import zipfile

import numpy as np
import pytest
import torch

import ftorch

LIBRARIES = {"torch": torch, "ftorch": ftorch}
pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")

MODEL = """
import torch
from . import settings
from .settings import FACTOR as factor

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.linear(x) * factor

def same():
    return settings.FACTOR == factor
"""


def _package(library):
    buffer = io.BytesIO()
    with library.package.PackageExporter(buffer) as exporter:
        exporter.save_source_string("project", "", is_package=True)
        exporter.save_source_string("project.settings", "FACTOR = 3\n")
        exporter.intern("project.**")
        exporter.save_source_string("project.model", MODEL, dependencies=False)
        exporter.save_text("notes", "a.txt", "text")
        exporter.save_binary("notes", "b.bin", b"\x00\x01")
        x = library.arange(4.0)
        exporter.save_pickle(
            "data", "tensors.pkl", {"x": x, "view": x[1:], "layer": library.nn.ReLU()}
        )
    return buffer


@pytest.mark.parametrize("reader", LIBRARIES)
@pytest.mark.parametrize("writer", LIBRARIES)
def test_both_libraries_read_what_either_writes(writer, reader):
    library = LIBRARIES[reader]
    importer = library.package.PackageImporter(io.BytesIO(_package(LIBRARIES[writer]).getvalue()))
    assert importer.load_text("notes", "a.txt") == "text"
    assert importer.load_binary("notes", "b.bin") == b"\x00\x01"
    found = importer.load_pickle("data", "tensors.pkl")
    assert type(found["x"]) is library.Tensor and found["x"].tolist() == [0, 1, 2, 3]
    assert found["view"].data_ptr() == found["x"].data_ptr() + 4  # one storage
    assert type(found["layer"]) is library.nn.ReLU
    module = importer.import_module("project.model")
    assert module.same() and library.package.is_from_package(module)
    assert module.__name__.endswith(">.project.model")


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_objects_of_a_packages_classes_go_on_to_another_package(library):
    importer = library.package.PackageImporter(io.BytesIO(_package(library).getvalue()))
    if library is torch:  # what a package of ftorch's calls torch is ftorch
        assert importer.import_module("project.model").torch is torch
    library.manual_seed(0)
    model = importer.import_module("project.model").Model()
    assert isinstance(model, library.nn.Module)
    assert library.package.is_from_package(model) and not library.package.is_from_package(
        library.ones(1)
    )
    buffer = io.BytesIO()
    with library.package.PackageExporter(
        buffer, importer=[importer, library.package.sys_importer]
    ) as exporter:
        exporter.intern("project.**")
        exporter.save_pickle("model", "m.pkl", model)
        assert exporter.interned_modules() == ["project.model", "project.settings"]
    again = library.package.PackageImporter(io.BytesIO(buffer.getvalue()))
    copied = again.load_pickle("model", "m.pkl")
    assert type(copied) is again.import_module("project.model").Model is not type(model)
    x = library.ones(1, 2)
    assert copied(x).tolist() == model(x).tolist()


def test_the_same_records_are_written():
    names = [
        set(zipfile.ZipFile(_package(library)).namelist()) - {"archive/.data/serialization_id"}
        for library in LIBRARIES.values()
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_modules_are_the_packages_own(library):
    buffer = io.BytesIO()
    with library.package.PackageExporter(buffer) as exporter:
        exporter.extern("numpy")
        exporter.save_source_string("json", "import numpy\nvalue = numpy.ones(2)\n")
        assert exporter.externed_modules() == ["numpy"] and exporter.get_rdeps("numpy") == ["json"]
    importer = library.package.PackageImporter(io.BytesIO(buffer.getvalue()))
    module = importer.import_module("json")
    assert module.numpy is np and module.value.sum() == 2 and not hasattr(module, "dumps")
    with pytest.raises(ImportError, match="has been disallowed"):
        library.package.PackageImporter(io.BytesIO(buffer.getvalue()), lambda name: name != "numpy")
    with pytest.raises(ModuleNotFoundError, match="not in the list of allowed external modules"):
        importer.import_module("decimal")


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_mocked_modules_raise_when_used(library):
    buffer, seen = io.BytesIO(), []
    with library.package.PackageExporter(buffer) as exporter:
        exporter.mock("numpy.**")
        exporter.register_mock_hook(lambda exporter, name: seen.append(name))
        exporter.save_source_string("code", "import numpy\nfrom numpy import linalg\n")
    assert seen == ["numpy", "numpy.linalg"]
    module = library.package.PackageImporter(io.BytesIO(buffer.getvalue())).import_module("code")
    with pytest.raises(NotImplementedError, match="was mocked out during packaging"):
        module.numpy.ones(2)


def _no_action(package, exporter):
    exporter.save_source_string("code", "import numpy")


def _denied(package, exporter):
    exporter.deny("numpy")
    exporter.save_source_string("code", "import numpy")


def _compiled(package, exporter):
    exporter.extern("numpy.**", exclude="numpy.random.mtrand")
    exporter.intern("**")
    exporter.save_source_string("code", "import numpy.random.mtrand\nimport sys")


def _mocked(package, exporter):
    exporter.mock("numpy.**")
    exporter.save_pickle("data", "a.pkl", np.float64)


def _empty(package, exporter):
    exporter.extern("nothing.*", allow_empty=False)


def _written_twice(package, exporter):
    exporter.save_text("a", "b", "c")
    exporter.save_text("a", "b", "c")


def _not_a_name(package, exporter):
    exporter.save_module(np)


def _not_a_pattern(package, exporter):
    exporter.intern("a.b**")


@pytest.mark.parametrize(
    "problem",
    [_no_action, _denied, _compiled, _mocked, _empty, _written_twice, _not_a_name, _not_a_pattern],
)
def test_errors(problem):
    raised = []
    for library in LIBRARIES.values():
        with (
            pytest.raises(Exception) as info,
            library.package.PackageExporter(io.BytesIO()) as exporter,
        ):
            problem(library.package, exporter)
        raised.append((type(info.value).__name__, str(info.value)))
    assert raised[0] == raised[1]


def test_names_of_objects():
    for library in LIBRARIES.values():
        importer = library.package.sys_importer
        assert importer.get_name(np.ndarray) == ("numpy", "ndarray")
        with pytest.raises(library.package.ObjNotFoundError):
            importer.get_name(type("Local", (), {"__module__": "nowhere"}))
        with pytest.raises(library.package.ObjMismatchError):
            importer.get_name(type("ndarray", (), {"__module__": "numpy"}))


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_why_modules_are_needed(library):
    from importlib import import_module

    analyze = import_module(f"{library.__name__}.package.analyze")
    with pytest.raises(library.package.PackagingError) as info:
        with library.package.PackageExporter(io.BytesIO()) as exporter:
            exporter.save_source_string("code", "import numpy")
    assert analyze.find_first_use_of_broken_modules(info.value) == {"numpy": ["code", "numpy"]}


def test_paths_and_calls():
    from ftorch.package.analyze import trace_dependencies

    # PyTorch's `all_paths` takes each letter of a name for a module.
    with ftorch.package.PackageExporter(io.BytesIO()) as exporter:
        exporter.extern("numpy")
        exporter.save_source_string("code", "import numpy, decimal")
        assert exporter.all_paths("code", "numpy").count("->") == 1
    assert trace_dependencies(lambda x: x, [(1,)]) == [__name__]


def test_the_tree_of_files():
    trees = []
    for library in LIBRARIES.values():
        importer = library.package.PackageImporter(io.BytesIO(_package(library).getvalue()))
        tree = importer.file_structure(exclude="**/serialization_id")
        assert tree.has_file("project/model.py") and not tree.has_file("project/other.py")
        trees.append(str(tree))
    assert trees[0] == trees[1]


@pytest.mark.parametrize("reader", LIBRARIES)
@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize("in_package", [True, False])
def test_graph_modules(in_package, writer, reader):
    t, found = LIBRARIES[writer], LIBRARIES[reader]

    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = t.nn.Linear(2, 3)
            self.register_buffer("offset", t.ones(3))

        def forward(self, x):
            return t.relu(self.linear(x) + self.offset).to(t.float64)

    module = t.fx.symbolic_trace(Model())
    module.note = "kept"
    buffer = io.BytesIO()
    if in_package:
        with t.package.PackageExporter(buffer) as exporter:
            exporter.extern(["torch.**", "ftorch.**", "sys"])
            exporter.save_pickle("models", "model.pkl", module)
        buffer.seek(0)
        assert any("fx-generated" in name for name in zipfile.ZipFile(buffer).namelist())
        buffer.seek(0)
        loaded = found.package.PackageImporter(buffer).load_pickle("models", "model.pkl")
    else:
        t.save(module, buffer)
        buffer.seek(0)
        loaded = found.load(buffer, weights_only=False)
    assert type(loaded).__mro__[1] is found.fx.GraphModule and loaded.note == "kept"
    expected = module(t.tensor([[1.0, -2.0]]))
    np.testing.assert_allclose(loaded(found.tensor([[1.0, -2.0]])).detach().numpy(), expected.detach().numpy(), rtol=1e-6)
