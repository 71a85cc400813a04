"""Operators of other packages that are called as PyTorch's are: they stay what they are wherever programs are captured."""

import io

import pytest
import torch as pt

import ftorch as ft
from ftorch._subclasses.fake_tensor import FakeTensorMode
from ftorch.fx.experimental.proxy_tensor import make_fx
from tests.oracle import assert_shows_same

_NAMES = "relu view detach contiguous clone to ones_like rand_like chunk split unbind alias transpose sum nonzero slice".split()
_WRITING = "relu_ bernoulli_ zero_ normal_ fill_ copy_ t_ index_put_".split()


def _plain(name):
    @ft.library.custom_op(f"names_tests::{name}", mutates_args=())
    def plain(x: ft.Tensor) -> ft.Tensor:
        return x * 3 + 1

    plain.register_fake(ft.empty_like)
    return getattr(ft.ops.names_tests, name)


def _writing(name):
    @ft.library.custom_op(f"names_tests::{name}", mutates_args=("x",))
    def writing(x: ft.Tensor) -> None:
        x.mul_(3).add_(1)

    return getattr(ft.ops.names_tests, name)


def _saved(module, x):
    file = io.BytesIO()
    ft.export.save(ft.export.export(module, (x,)), file)
    file.seek(0)
    return ft.export.load(file).module()


_CAPTURED = {
    "export": lambda m, x: ft.export.export(m, (x,)).module(),
    "decompositions": lambda m, x: ft.export.export(m, (x,)).run_decompositions().module(),
    "saved": _saved, "compile": lambda m, x: ft.compile(m), "make_fx": lambda m, x: make_fx(m)(x),
    "functionalize": lambda m, x: ft.func.functionalize(m), "trace": lambda m, x: ft.jit.trace(m, (x,)),
    "functional graph": lambda m, x: make_fx(ft.func.functionalize(m))(x),
}


class Module(ft.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("capture", _CAPTURED)
@pytest.mark.parametrize("name", _NAMES + _WRITING)
def test_names(name, capture):
    op = (_writing if name in _WRITING else _plain)(name)

    def function(x):
        y = x + 0
        y = op(y) if name in _NAMES else op(y) or y
        y.add_(1)
        return y * 2

    x = ft.tensor([1.0, 2.0])
    module = Module(function)
    captured = _CAPTURED[capture](module, x)
    assert captured(ft.tensor([3.0, 5.0])).tolist() == module(ft.tensor([3.0, 5.0])).tolist() == [22.0, 34.0]


def test_overloads():
    def program(t):
        @t.library.custom_op("names_tests::several.first", mutates_args=())
        def several(x: t.Tensor) -> t.Tensor:
            return x + 1

        op = t.ops.names_tests.several.first
        return str(several), str(op), several(t.ones(2)), several._qualname, op._schema.name, str(op._schema)

    assert_shows_same(program)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*is deprecated:DeprecationWarning")
def test_traces_have_what_operators_write_and_give():
    def program(t):
        @t.library.custom_op("names_tests::scaled_", mutates_args=("x",))
        def scaled(x: t.Tensor) -> None:
            x.mul_(3)

        @t.library.custom_op("names_tests::pair", mutates_args=("x",))
        def pair(x: t.Tensor) -> tuple[t.Tensor, t.Tensor]:
            x.add_(2)
            return x * 2, x * 3

        class Traced(t.nn.Module):
            def forward(self, x):
                y = x + 0
                t.ops.names_tests.scaled_(y)
                a, b = t.ops.names_tests.pair(y)
                t.ops.names_tests.pair(y)
                return y * 2 + a - b

        traced = t.jit.trace(Traced(), (t.ones(2),))
        return traced.code, traced(t.tensor([3.0, 4.0]))

    assert_shows_same(program)


def test_graphs_know_what_operators_with_several_results_give():
    def program(t):
        @t.library.custom_op("names_tests::halves", mutates_args=())
        def halves(x: t.Tensor) -> tuple[t.Tensor, t.Tensor]:
            return x / 2, x / 2

        halves.register_fake(lambda x: (t.empty_like(x), t.empty_like(x)))

        class Halves(t.nn.Module):
            def forward(self, x):
                a, b = t.ops.names_tests.halves(x)
                return a + b

        graph = t.export.export(Halves(), (t.ones(2),)).graph
        return [(n.name, str(n.meta.get("val"))) for n in graph.nodes]

    assert_shows_same(program)
    assert pt.ops.names_tests.halves is not None


@pytest.mark.parametrize("name", ["rand", "zeros", "cpu", "tensor"])
def test_fake_tensors_are_taken_as_they_are(name):
    op = _plain(name)
    with FakeTensorMode() as mode:
        made = op(mode.from_tensor(ft.ones(2, 3)))
    assert made.shape == (2, 3) and made.device.type == "cpu"


def _scripted(x):
    y = ft.ops.names_tests.relu(x) * 2
    a, b = ft.ops.names_tests.doubled(y)
    return ft.ops.names_tests.view(a + b).sum()


@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
def test_scripts_call_operators_and_can_be_saved():
    @ft.library.custom_op("names_tests::doubled", mutates_args=())
    def doubled(x: ft.Tensor) -> tuple[ft.Tensor, ft.Tensor]:
        return x * 2, x + 0

    _plain("relu"), _plain("view")
    scripted = ft.jit.script(_scripted)
    assert "ops.names_tests.relu(x)" in scripted.code
    file = io.BytesIO()
    ft.jit.save(scripted, file)
    file.seek(0)
    x = ft.tensor([1.0, -2.0])
    assert scripted(x).item() == ft.jit.load(file)(x).item() == _scripted(x).item()
