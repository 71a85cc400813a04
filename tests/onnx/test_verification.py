"""Comparisons of models with their programs; what is said of two tensors, beside PyTorch's."""

import pytest
import torch as pt

import ftorch as ft
from ftorch.onnx.testing import assert_onnx_program
from ftorch.onnx.verification import VerificationInfo, verify_onnx_program
from tests.oracle import assert_same


@pytest.mark.parametrize("values", [
    ([1.0, 2.0, 300.0], [1.0, 2.5, 300.001]), ([True, False], [True, True]), ([], []), (2.0, 3), ([1 + 2j], [[1.0, 2.5]]),
])
def test_differences(values):
    from torch.onnx.verification import VerificationInfo as Theirs

    ours = VerificationInfo.from_tensors("y", *(v if isinstance(v, float) else ft.tensor(v) for v in values))
    theirs = Theirs.from_tensors("y", *(v if isinstance(v, float) else pt.tensor(v) for v in values))
    assert_same(ours.asdict(), theirs.asdict())
    assert str(ours.expected_dtype) == str(theirs.expected_dtype)


def exported():
    module = ft.nn.Sequential(ft.nn.Linear(3, 4), ft.nn.GELU(), ft.nn.Linear(4, 2))
    return ft.onnx.export(module, (ft.rand(2, 3),))


def test_models():
    program = exported()
    (info,) = verify_onnx_program(program)
    assert info.max_abs_diff < 1e-5 and info.name == program.model_proto.graph.output[0].name
    inner = verify_onnx_program(program, (ft.rand(2, 3),), compare_intermediates=True)
    assert [i.name for i in inner] == ["linear", "gelu", "linear_1"] and max(i.max_abs_diff for i in inner) < 1e-5
    for backend in ("onnxruntime", "reference"):
        assert_onnx_program(program, backend=backend)
    weight = program.model_proto.graph.initializer[0]
    weight.raw_data = bytes(len(weight.raw_data))
    program.release()  # the session has the former one
    with pytest.raises(AssertionError):
        assert_onnx_program(program)
    assert max(i.max_abs_diff for i in verify_onnx_program(program)) > 1e-3


def test_what_cannot_be_compared():
    program = exported()
    for options, text in (({"strategy": "Other"}, "Expected strategy 'Other'"), ({"backend": "x"}, "Unsupported backend 'x'")):
        with pytest.raises(ValueError, match=text):
            assert_onnx_program(program, **options)
    program.exported_program = None
    for check in (assert_onnx_program, verify_onnx_program):
        with pytest.raises(ValueError, match="does not contain"):
            check(program)
