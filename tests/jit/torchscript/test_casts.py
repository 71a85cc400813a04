"""Methods of tensors that give another dtype, in scripts: what PyTorch's compiler writes for them."""

import warnings

import pytest
import torch

import ftorch

LIBRARIES = (ftorch, torch)
METHODS = ["byte", "char", "short", "int", "long", "half", "float", "double", "cfloat", "cdouble"]
SOURCE = """
def cast(x: torch.Tensor, y: torch.Tensor):
    return {}
"""


def scripted(library, tmp_path, expression):
    path = tmp_path / "casts.py"
    path.write_text(SOURCE.format(expression))
    names = {"torch": library, "__name__": "casts"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.jit.script(names["cast"])


@pytest.mark.parametrize("expression", [
    *(f"x.{name}()" for name in METHODS), "x.type(torch.int16)", "x.type(y)", "x.type(dtype=torch.float64)", "x.type(y.dtype)",
])
def test_casts_are_aten_to(expression, tmp_path):
    found = []
    for library in LIBRARIES:
        function = scripted(library, tmp_path, expression)
        result = function(library.tensor([1.5, 2.0]), library.tensor([1], dtype=library.int32))
        found.append((str(function.graph), function.code, result.tolist(), str(result.dtype)))
    assert found[0] == found[1]


def test_attributes_are_not_called(tmp_path):
    said = []
    for library in LIBRARIES:
        with pytest.raises(RuntimeError) as failure:
            scripted(library, tmp_path, "x.is_cuda()")
        said.append(str(failure.value).strip().splitlines()[0])
    assert said[0] == said[1]
