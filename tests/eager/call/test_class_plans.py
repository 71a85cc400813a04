"""Plans of size classes at sizes that never came: what of them is made in C, and that it is what PyTorch gives."""

import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.autograd import derivatives
from ftorch.eager.call import class_plans, planning
from ftorch.eager.core import geometry
from ftorch.eager.runtime import plan as plans
from ftorch.eager.runtime import program, short_traces, trace_programs

in_c = pytest.mark.skipif(native.module is None, reason="the kernels were not built")


def _numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _of_operands(lib, n, m):
    a, b = lib.tensor(_numbers(n, m)), lib.tensor(_numbers(n, m) + 1)
    return [a + b, a * 2.5, (a > b), a.sum(1), a.softmax(-1), lib.cat([a, b]), lib.maximum(a, b[:1]), a.reshape(-1).sort()[0],
            a.argmax(1), a.mean(), lib.where(a > 0, a, b), a.add_(b)]


def _of_gradients(lib, n, m):
    a, w = lib.tensor(_numbers(n, m), requires_grad=True), lib.tensor(_numbers(m, 5), requires_grad=True)
    y = lib.nn.functional.layer_norm((a @ w).relu(), (5,)).exp()
    loss = lib.nn.functional.cross_entropy(y, lib.arange(n) % 5)
    loss.backward()
    return [loss, a.grad, w.grad]


def _is_close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape and str(a.dtype) == str(b.dtype) and a.stride() == b.stride()
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-6)


_SIZES = [(7 + 3 * k, 10 + 7 * k) for k in range(8)]


@pytest.mark.parametrize("run", [_of_operands, _of_gradients])
def test_new_sizes_give_what_pytorch_gives(run):
    for sizes in _SIZES:
        _is_close(run(ftorch, *sizes), run(torch, *sizes))


def _refuse(*given, **named):
    raise AssertionError("Python is asked for a size class that it knows")


@in_c
def test_operands_of_a_new_size_are_planned_in_c(monkeypatch):
    def run(lib, n):
        a, b = lib.tensor(_numbers(n, 6)), lib.tensor(_numbers(n, 6))
        return [lib.maximum(a, b), a * 1.5, a.sum(1), lib.cat([a, b]), a.mul_(b)]

    for n in range(60, 72):
        _is_close(run(ftorch, n), run(torch, n))
    for module, name in ((class_plans, "of_class"), (planning, "build"), (planning, "build_inplace")):
        monkeypatch.setattr(module, name, _refuse)
    for n in range(72, 76):
        _is_close(run(ftorch, n), run(torch, n))


@in_c
def test_tensors_of_a_new_size_that_are_made_of_numbers_are_planned_in_c(monkeypatch):
    def run(lib, n):
        return [lib.zeros(n), lib.ones(n, 5), lib.full((n,), 2.5), lib.zeros(3, n, dtype=lib.int64)]

    for n in range(60, 72):
        _is_close(run(ftorch, n), run(torch, n))
    for module, name in ((class_plans, "of_class"), (planning, "build")):
        monkeypatch.setattr(module, name, _refuse)
    for n in range(72, 76):
        _is_close(run(ftorch, n), run(torch, n))


@in_c
def test_gradients_of_a_new_size_are_planned_in_c(monkeypatch):
    def run(lib, n):
        a = lib.tensor(_numbers(n, 6), requires_grad=True)
        (a * 1.5).exp().sum().backward()
        return [a.grad]

    for n in range(60, 72):
        _is_close(run(ftorch, n), run(torch, n))
    for module, name in ((class_plans, "of_class"), (planning, "build"), (derivatives, "of_plan")):
        monkeypatch.setattr(module, name, _refuse)
    for n in range(72, 76):
        _is_close(run(ftorch, n), run(torch, n))


@in_c
def test_a_trace_of_a_new_size_runs_in_c_and_what_comes_again_is_known(monkeypatch):
    def run(lib, n):
        a = lib.tensor(_numbers(n, 6))
        return (a * 1.5).exp().sum().item()

    for n in range(60, 72):
        assert run(ftorch, n) == pytest.approx(run(torch, n), rel=1e-5)
    with monkeypatch.context() as patched:
        for module, name in ((trace_programs, "find"), (program, "_execute")):
            patched.setattr(module, name, _refuse)
        found = [run(ftorch, n) for n in range(72, 76)]
    assert found == pytest.approx([run(torch, n) for n in range(72, 76)], rel=1e-5)
    known = len(short_traces.known)
    assert [run(ftorch, 75) for _ in range(4)] == [found[-1]] * 4  # the same bits, whoever runs it
    assert len(short_traces.known) == known + 1


@in_c
def test_many_traces_that_come_again_are_all_known():
    """What C notes of a trace has a bounded number of places: others that come between do not take them."""
    def run(n):
        return (ftorch.ones(n, 3) * 1.5).exp().mean().item()

    for n in range(60, 72):
        run(n)
    short_traces.known.clear()
    for _ in range(3):
        for n in range(100, 300):
            run(n)
    assert len(short_traces.known) >= 200


def test_plans_have_no_other_attributes_than_those_that_are_copied():
    given = {"inputs", "geometries", "geometry", "instance", "backwards", "spent", "runs", "pinned", "table", "key"}
    slots = {*plans.Plan.__slots__, *planning.OpPlan.__slots__}
    assert slots == {*class_plans.SHARED, *class_plans.EMPTY, *given}


def test_a_copied_plan_is_the_one_that_python_makes():
    a = ftorch.ones(9, 4) * 2
    like = next(iter(ftorch.eager.call.op.op_named("mul.Tensor").plans.values()))
    made = class_plans.copied(like, like.inputs, like.geometries, None)
    other = class_plans._copied(like, like.inputs, like.geometries, None)
    for name in (*plans.Plan.__slots__, *planning.OpPlan.__slots__):
        if name not in ("table", "key"):
            assert getattr(made, name) == getattr(other, name), name
    assert a.shape == (9, 4)


@in_c
def test_geometries_made_in_c_are_those_of_python(monkeypatch):
    for n in range(20, 30):
        ftorch.ones(n, 3).sum(1)
    made = ftorch.ones(1037, 3).sum(1)._ftorch_geometry
    monkeypatch.setattr(geometry, "INTERNED", {})
    other = geometry.geometry((1037,), made.dtype, made.device)
    assert made is not other
    for name in geometry.Geometry.__slots__:
        assert getattr(made, name) == getattr(other, name), name
        assert getattr(made, name).__class__ is getattr(other, name).__class__


@in_c
def test_an_op_keeps_a_bounded_number_of_plans():
    op = ftorch.eager.call.op.op_named("maximum")
    for n in range(4, 1400):
        a = ftorch.empty(n)
        ftorch.maximum(a, a)
    assert len(op.plans) <= 576


def test_results_of_no_elements_and_of_static_sizes():
    for lib_n in range(5, 14):
        ours, theirs = (
            [lib.tensor(_numbers(lib_n, 4))[:0].sum(0), lib.tensor(_numbers(lib_n, 4)).reshape(2, -1).sum(0),
             lib.tensor(_numbers(lib_n, 4)).expand(3, lib_n, 4).sum(0), lib.tensor(_numbers(lib_n, 4)).T.exp(),
             lib.tensor(_numbers(lib_n, 4)).narrow(0, 1, lib_n - 2).clone()]
            for lib in (ftorch, torch)
        )
        _is_close(ours, theirs)


def _of_layouts(lib, n, m):
    """Elementwise results of operands that are views: repeated, transposed, with gaps, with dimensions of size 1."""
    a = lib.tensor(_numbers(n, m, 4))
    b, low = a.permute(2, 0, 1), a[:, :1]
    pairs = [(low, a[None, :, 0]), (a[:, None, :, :2], a[None, :, :, 2:]), (b, b), (b, b[:1]), (a[::2], a[::2]),
             (a.mT, b[0, :, None, :]),
             (b, lib.ones(1)), (a[:, :, 1:], a[:, :, :-1]), (low.expand(n, m, 4), b.permute(1, 2, 0)), (a.mT, a.mT),
             (b[1], b[1][:, :1])]
    return [y for p, q in pairs for y in (lib.maximum(p, q), p * q, p - 1.5, q > 0.5)]


def test_layouts_of_new_sizes_are_pytorchs():
    for sizes in _SIZES:
        _is_close(_of_layouts(ftorch, *sizes), _of_layouts(torch, *sizes))


@in_c
def test_layouts_of_new_sizes_are_found_in_c(monkeypatch):
    for sizes in _SIZES[:3]:
        _of_layouts(ftorch, *sizes)
    calls = []
    monkeypatch.setattr(class_plans.result_layouts, "geometries", lambda *given: calls.append(given))
    a = ftorch.tensor(_numbers(61, 97, 4))
    for p, q in ((a[:, :1], a[None, :, 0]), (a.permute(2, 0, 1), a.permute(2, 0, 1)[:1]), (a[:, :, 1:], a[:, :, :-1])):
        for y in (ftorch.maximum(p, q), p * q, p - 1.5):
            assert y.shape == torch.broadcast_shapes(p.shape, q.shape)[-y.ndim:] or y.shape == p.shape
    assert not calls
