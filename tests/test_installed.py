"""What a wheel has to have: the kernels, files of data, its version; nothing of the tests."""

import importlib.metadata
import sysconfig
from pathlib import Path

import pytest

import ftorch
from ftorch.eager import native
from ftorch.profiler import _timeline

PACKAGE = Path(ftorch.__file__).parent
is_installed = PACKAGE.is_relative_to(sysconfig.get_paths()["purelib"])


def test_a_long_program_compiles():
    """It has options of XLA's that not every jaxlib has."""

    @ftorch.compile
    def f(x):
        for i in range(150):
            x = (x + i).sin()
        return x

    x = ftorch.rand(300)
    expected = x
    for i in range(150):
        expected = (expected + i).sin()
    ftorch.testing.assert_close(f(x), expected)


def test_files_of_data_are_there():
    for name in ("py.typed", "__init__.pyi", "eager/native/src/codes.h"):
        assert (PACKAGE / name).is_file(), name
    assert _timeline.PAGE.is_file()


@pytest.mark.skipif(not is_installed, reason="a checkout")
def test_a_wheel():
    assert native.available, "built without the kernels"
    assert importlib.metadata.version("ftorch") == ftorch.__version__.partition("+ftorch")[2]
    files = [str(path) for path in importlib.metadata.files("ftorch") or ()]
    assert not [path for path in files if path.startswith(("tests/", "benchmarks/", "docs/"))]
    assert any(path.endswith("entry_points.txt") for path in files)
