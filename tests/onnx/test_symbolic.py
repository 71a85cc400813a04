"""Symbolic functions: what the op of a package is in ONNX, said in the older way."""

import contextlib

import numpy as np
import onnx
import pytest
import torch as pt

import ftorch as ft
from ftorch.onnx import symbolic_opset11 as opset11
from ftorch.onnx.symbolic_helper import parse_args
from tests.onnx.test_onnx import run, wrapped, x


@ft.library.custom_op("symbolic_tests::stretch", mutates_args=())
def stretch(x: ft.Tensor, factor: float, places: list[int]) -> ft.Tensor:
    return (x * factor).unsqueeze(0).sum(places)


@stretch.register_fake
def _(x, factor, places):
    return (x * factor).unsqueeze(0).sum(places)


@contextlib.contextmanager
def registered(name, function, opset=18):
    ft.onnx.register_custom_op_symbolic(name, function, opset)
    try:
        yield
    finally:
        ft.onnx.unregister_custom_op_symbolic(name, opset)


@parse_args("v", "f", "is")
def _stretch(g, x, factor, places):
    scaled = g.op("Mul", x, g.op("Constant", value_t=ft.tensor(factor)))
    wide = g.op("Cast", opset11.unsqueeze(g, scaled, 0), to_i=ft.onnx.TensorProtoDataType.DOUBLE)
    total = g.op("ReduceSum", wide, g.op("Constant", value_t=ft.tensor(places)), keepdims_i=0)
    assert len(total.shape) == len(wide.shape) - len(places) and total.dtype is ft.float64
    return g.op("Cast", total, to_i=1)


MODULE = wrapped(ft, lambda torch, F, x: torch.ops.symbolic_tests.stretch(x, 2.5, [0, -1]) + 1)


def test_a_custom_op():
    with registered("symbolic_tests::stretch", _stretch):
        program = ft.onnx.export(MODULE, (x(ft),), verify=True)
    np.testing.assert_allclose(
        run(program.model_proto, x(ft).numpy())[0], MODULE(x(ft)).numpy(), rtol=1e-5
    )
    with pytest.raises(ft.onnx.UnsupportedOperatorError):  # it was taken back
        ft.onnx.export(MODULE, (x(ft),))


def test_the_newest_version_that_is_not_newer_than_the_models():
    def of(kind):
        return lambda g, x, *_: g.op("ReduceSum", g.op(kind, x), g.op("Constant", value_t=ft.tensor([-1])),
                                     keepdims_i=0)

    name = "symbolic_tests::stretch"
    with registered(name, of("Neg"), 11), registered(name, of("Abs"), 17), registered(name, of("Exp"), 30):
        model = ft.onnx.export(MODULE, (x(ft),)).model_proto
    kinds = {node.op_type for node in model.graph.node}
    assert "Abs" in kinds and not kinds & {"Neg", "Exp"}


def test_operators_of_other_domains():
    with registered("symbolic_tests::stretch", lambda g, x, *_: g.op("mine::Stretch", x, size_i=3)):
        model = ft.onnx.export(MODULE, (x(ft),), optimize=False).model_proto
    (node,) = [n for n in model.graph.node if n.domain == "mine"]
    assert node.op_type == "Stretch" and onnx.helper.get_attribute_value(node.attribute[0]) == 3
    assert "mine" in {o.domain for o in model.opset_import}


@pytest.mark.parametrize("name", ["stretch", "a::b::c", "a::1b"])
def test_names(name):
    with pytest.raises(pt.onnx.OnnxExporterError) as theirs:
        pt.onnx.register_custom_op_symbolic(name, lambda g: g, 18)
    with pytest.raises(ft.onnx.OnnxExporterError) as mine:
        ft.onnx.register_custom_op_symbolic(name, lambda g: g, 18)
    assert str(mine.value) == str(theirs.value)


def test_dtypes():
    theirs = pt.onnx.TensorProtoDataType.__members__.items()
    assert {m.name: m.value for m in ft.onnx.TensorProtoDataType} == {k: int(v) for k, v in theirs}


def test_arguments():
    parsed = parse_args("v", "i", "f", "b", "s", "is", "fs", "none")(lambda g, *args: args)
    assert parsed(None, 1, 2.0, 3, 1, "s", (1.0, 2), (1, 2), 5) == (
        1, 2, 3.0, True, "s", [1, 2], [1.0, 2.0], None,
    )
    with pytest.raises(ft.onnx.OnnxExporterError, match="mismatch"):
        parse_args("v")(lambda g, x: x)(None, 1, 2)
