"""``scan`` and ``map`` in exported programs: PyTorch's graphs, in all forms of a program."""

from __future__ import annotations

import importlib
import io

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch._dynamo.exc import UncapturedHigherOrderOpError


def _models(torch):
    name = torch.__name__
    scan = importlib.import_module(f"{name}._higher_order_ops.scan").scan
    apply = importlib.import_module(f"{name}._higher_order_ops.map").map

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([0.5, 0.2, 0.1]))

    class Carried(Module):
        def forward(self, init, xs):
            def step(c, x):
                y = c * self.w + x
                return y.clone(), (y * 2).sum()

            return scan(step, init, xs)

    class Trees(Module):
        def forward(self, init, xs):
            k = init.sum()

            def step(c, x):
                return {"a": c["a"] + x[0] * k, "b": c["b"] * 2}, [c["a"] * x[1], c["b"] - 1]

            return scan(step, {"a": init, "b": init + 1}, (xs, xs * 2), reverse=True)

    class Mapped(Module):
        def forward(self, init, xs):
            return apply(lambda x, y: {"p": x[0] * y + self.w, "q": x[1] - 1}, (xs, xs + 1), init)

    return [Carried(), Trees(), Mapped()]


def _arguments(torch, n=4):
    return torch.tensor([0.1, -0.2, 0.3]), torch.linspace(-1, 2, 3 * n).view(n, 3)


def _leaves(torch, tree):
    return [t.detach().numpy() for t in torch.utils._pytree.tree_leaves(tree)]


def _check(found, wanted):
    assert len(found) == len(wanted)
    for own, theirs in zip(found, wanted):
        np.testing.assert_allclose(own, theirs, 1e-6, 1e-6)


@pytest.fixture(scope="module", params=range(3), ids=["carried", "trees", "mapped"])
def case(request):
    """(the index, PyTorch's program, this package's, what PyTorch's model gives)."""
    theirs, own = _models(pt)[request.param], _models(ft)[request.param]
    program = pt.export.export(theirs, _arguments(pt))
    wanted = _leaves(pt, program.module()(*_arguments(pt)))
    return request.param, program, ft.export.export(own, _arguments(ft)), wanted


def test_graphs_are_pytorchs(case):
    _, theirs, own, wanted = case
    assert own.graph_module.code == theirs.graph_module.code
    for (name, module), (their_name, other) in zip(own.graph_module.named_children(), theirs.graph_module.named_children()):
        assert (name, module.code) == (their_name, other.code)
    _check(_leaves(ft, own.module()(*_arguments(ft))), wanted)


def test_files_and_decompositions(case):
    _, _, own, wanted = case
    file = io.BytesIO()
    ft.export.save(own, file)
    file.seek(0)
    for program in (ft.export.load(file), own.run_decompositions()):
        _check(_leaves(ft, program.module()(*_arguments(ft))), wanted)


def test_packages(case, tmp_path):
    _, _, own, wanted = case
    path = ft._inductor.aoti_compile_and_package(own, package_path=str(tmp_path / "model.pt2"))
    _check(_leaves(ft, ft._inductor.aoti_load_package(path)(*_arguments(ft))), wanted)


def test_onnx(case, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    number, _, _, wanted = case
    ft.onnx.export(_models(ft)[number], _arguments(ft), tmp_path / "model.onnx", dynamo=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    names = [i.name for i in session.get_inputs()]
    _check(session.run(None, dict(zip(names, (t.numpy() for t in _arguments(ft))))), wanted)


def test_other_numbers_of_steps(case):
    number, *_ = case
    sizes = (None, {0: ft.export.Dim("n", min=2)})
    program = ft.export.export(_models(ft)[number], _arguments(ft), dynamic_shapes=sizes)
    for n in (2, 9):
        _check(_leaves(ft, program.module()(*_arguments(ft, n))), _leaves(ft, _models(ft)[number](*_arguments(ft, n))))


@pytest.mark.parametrize(
    "step, message",
    [
        (lambda c, x: (c, x * c), "Encountered aliasing"),
        (lambda c, x: c + x, "improper combine_fn number of returns"),
        (lambda c, x: (z := x * c, z), "Encountered aliasing"),
        (lambda c, x: (c.add_(x) * 2, x * 2), "Encountered input mutation"),
    ],
)
def test_what_has_no_graph(step, message):
    for torch, error in ((pt, pt._dynamo.exc.UncapturedHigherOrderOpError), (ft, UncapturedHigherOrderOpError)):
        scan = importlib.import_module(f"{torch.__name__}._higher_order_ops.scan").scan

        class Net(torch.nn.Module):
            def forward(self, c, x, scan=scan):
                return scan(step, c, x)

        with pytest.raises(error, match=message):
            torch.export.export(Net(), _arguments(torch))


def test_branches_whose_results_are_one_tensor():
    for torch, error in ((pt, pt._dynamo.exc.UncapturedHigherOrderOpError), (ft, UncapturedHigherOrderOpError)):
        class Net(torch.nn.Module):
            def forward(self, x, torch=torch):
                def both(x):
                    z = x * 2
                    return z, z.view(-1)

                return torch.cond(x.sum() > 0, both, both, (x,))

        with pytest.raises(error, match="Encountered aliasing"):
            torch.export.export(Net(), (torch.ones(3),))


def test_a_carry_of_another_structure_is_handed_on_in_its_own():
    scan = importlib.import_module("ftorch._higher_order_ops.scan").scan
    carry, ys = scan(lambda c, x: ([c + x], x * c), ft.tensor(1.0), ft.arange(3.0))
    assert carry.item() == 4 and ys.tolist() == [0, 1, 4]
