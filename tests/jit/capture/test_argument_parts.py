"""Arguments of compiled functions that are parts of larger tensors: what the function sees of them, writes, and gives back."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch as pytorch

import ftorch
from ftorch.eager.runtime.capture_trace import CaptureTrace
from ftorch.jit.capture import program
from ftorch.jit.capture.argument_parts import within

PARTS = {
    "whole": lambda torch, b: b,
    "flat": lambda torch, b: b.view(24),
    "transposed": lambda torch, b: b.t(),
    "row": lambda torch, b: b[1],
    "column": lambda torch, b: b[:, 2],
    "block": lambda torch, b: b[1:3, 2:5],
    "steps": lambda torch, b: b[::2, ::3],
    "expanded": lambda torch, b: b[:, :1].expand(4, 5),
    "permuted": lambda torch, b: b.reshape(2, 2, 6).permute(2, 0, 1),
    "diagonal": lambda torch, b: b.diagonal(),
    "number": lambda torch, b: b[1, 2],
    "integers": lambda torch, b: b.view(torch.int32)[1:],
    "conjugate": lambda torch, b: torch.complex(b, b).conj()[1:],
    "real": lambda torch, b: torch.complex(b, b).real,
}
FUNCTIONS = {
    "strides": lambda x: (x + 1, x.stride(), x.is_contiguous()),
    "branch": lambda x: x * 2 if x.is_contiguous() else x * 3,
    "offset": lambda x: (x * 2, x.storage_offset(), x.untyped_storage().nbytes()),
    "branch of offset": lambda x: x * 2 if x.storage_offset() else x * 3,
    "view": lambda x: (x * 2, x._is_view()),
    "base": lambda x: x.sum() if x._base is None else x._base.sum(),
    "base written": lambda x: x.sum() if x._base is None else x._base.mul_(2).sum(),
    "as strided": lambda x: x.as_strided((2,), (3,), 0) + 1,
    "as strided here": lambda x: x.as_strided((2,), (1,)) + 1,
    "flatten": lambda x: x.flatten(),
    "view as": lambda x: x.view(-1) * 2,
    "contiguous": lambda x: x.contiguous(),
    "itself": lambda x: x,
    "like": lambda x: x.new_ones(x.shape) + x,
    "inner": lambda x: (x[..., :1] if x.dim() else x) * 2,
    "first": lambda x: x[:1] if x.dim() else x,
    "swapped": lambda x: x.movedim(0, -1) if x.dim() else x,
    "written": lambda x: x.mul_(2),
    "written inside": lambda x: (x[..., :1] if x.dim() else x).add_(1),
    "data": lambda x: x.data.add_(1),
    "storage": lambda x: x.set_(x.untyped_storage()) + 0 if not x.is_conj() else x,
    "squeezed": lambda x: x.unsqueeze_(0),
    "turned": lambda x: x.t_() if x.dim() == 2 else x,
}


def _outcome(torch, function, part):
    """What three calls give, and what is in memory afterwards, each with numbers of its own."""
    found = []
    for k in range(3):
        x = part(torch, torch.arange(24.0).reshape(4, 6) + k)
        base = x if x._base is None else x._base
        try:
            result = function(x)
        except RuntimeError as error:
            found.append(str(error).splitlines()[0])
            continue
        results = result if isinstance(result, tuple) else (result,)
        found.append([
            (r.shape, r.stride(), r.storage_offset(), r.resolve_conj().tolist(), r is x, r._is_view(),
             r.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()) if isinstance(r, torch.Tensor) else r
            for r in results
        ])
        found.append((x.shape, x.stride(), x.resolve_conj().tolist(), base.resolve_conj().tolist()))
    return found


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_functions_see_arguments_as_they_lie(name, part):
    function = FUNCTIONS[name]
    assert _outcome(ftorch, ftorch.compile(function), PARTS[part]) == _outcome(pytorch, function, PARTS[part])


def test_places_of_one_kind_are_one_program():
    data = ftorch.arange(60.0).reshape(6, 10)
    compiled = ftorch.compile(lambda x: x[1:] * 2 + x.sum())
    for part in (data[0], data[3], data[5], ftorch.ones(10)):
        assert compiled(part).tolist() == (part[1:] * 2 + part.sum()).tolist()
    assert len(compiled.programs) == 1
    for i in range(3):  # other strides
        part = data[:, i]
        assert compiled(part).tolist() == (part[1:] * 2 + part.sum()).tolist()
    assert len(compiled.programs) == 2


def test_the_first_calls_arguments_are_freed():
    compiled, data = ftorch.compile(lambda x: x * 2), ftorch.ones(4, 6)
    part, memory = data[1], weakref.ref(data._ftorch_storage)
    compiled(part)
    del data, part
    assert memory() is None
    assert compiled(ftorch.ones(6)).sum() == 12 and len(compiled.programs) == 1


def test_parts_of_one_tensor():
    compiled = ftorch.compile(lambda x, y: (x * 10 + y, x[1:], y[:1]))
    for i, j in ((0, 1), (2, 1), (0, 0), (1, 1)):
        data = ftorch.arange(12.0).reshape(3, 4)
        x, y = data[i], data[j]
        total, rest, first = compiled(x, y)
        assert total.tolist() == (x * 10 + y).tolist()
        rest.zero_()
        first.fill_(-1)
        expected = pytorch.arange(12.0).reshape(3, 4)
        expected[i, 1:], expected[j, :1] = 0, -1
        assert data.tolist() == expected.tolist()


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_parts_that_overlap_are_written_in_order(shift):
    def function(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    def outcome(torch, run):
        found = []
        for first in (0, 1):
            data = torch.arange(10.0)
            found.append((run(data[first : first + 4], data[first + shift : first + shift + 4]).tolist(), data.tolist()))
        return found

    assert outcome(ftorch, ftorch.compile(function)) == outcome(pytorch, function)


def test_gradients_reach_the_whole():
    def outcome(torch, run, part):
        found = []
        for k in range(3):
            base = (torch.arange(24.0).reshape(4, 6) / 10 + k).requires_grad_()
            x = part(torch, base * 1)
            run(x).sum().backward()
            found.append(base.grad)
            base = (torch.arange(24.0).reshape(4, 6) / 10 + k).requires_grad_()
            first, = torch.autograd.grad(run(part(torch, base * 1)).sum(), base, create_graph=True)
            found += torch.autograd.grad((first * first).sum(), base)
        return [[round(v, 3) for v in t.reshape(-1).tolist()] for t in found]

    for name in ("whole", "transposed", "row", "column", "block", "steps", "expanded", "permuted", "diagonal"):
        def function(x):
            return x * x * x + x.abs()

        compiled = ftorch.compile(function)
        mine, theirs = outcome(ftorch, compiled, PARTS[name]), outcome(pytorch, function, PARTS[name])
        assert np.allclose(mine, theirs, rtol=1e-4, atol=1e-3), name


def test_leaves_that_are_parts():
    """One program for all of them; gradients, hooks and ``.grad`` are the argument's."""
    def outcome(torch, run):
        found = []
        for k in range(3):
            x = torch.arange(12.0).reshape(3, 4)[k].detach().requires_grad_()
            x.register_hook(lambda g: g * 2)
            loss = run(x)
            first, = torch.autograd.grad(loss, x, create_graph=True)
            found.append(torch.autograd.grad((first * first).sum(), x)[0].tolist())
            run(x).backward()
            found += [x.grad.tolist(), x.is_leaf]
            found.append(torch.func.jvp(run, (x.detach()[1:3],), (torch.ones(2),))[1].item())
        return found

    def function(x):
        return (x * x * x).sum()

    compiled = ftorch.compile(function)
    assert outcome(ftorch, compiled) == outcome(pytorch, function)

    def reads(x):
        (x * x).sum().backward()
        return x.grad * 1

    def gradients(torch, run):
        found = []
        for k in range(3):
            x = torch.arange(12.0).reshape(3, 4)[k].detach().requires_grad_()
            found += [run(x).tolist(), run(x).tolist(), x.grad.tolist()]
        return found

    assert gradients(ftorch, ftorch.compile(reads)) == gradients(pytorch, reads)


def test_parameters_that_move():
    """A parameter's memory may become a part of a larger one, or another part of it."""
    def outcome(torch, run):
        w, found = torch.nn.Parameter(torch.ones(2)), []
        many = torch.arange(4.0)
        for data in (torch.ones(2) * 3, many[1:3], many[:2], many[2:], torch.zeros(2), many[::2]):
            w.data = data
            found.append(run(w, torch.ones(2)).item())
        return found

    def with_weight(run):
        return lambda w, x: run(w)(x)

    def of(library):
        programs = {}

        def make(w):
            found = programs.get(id(w))
            if found is None:
                found = programs[id(w)] = (ftorch.compile if library is ftorch else lambda f: f)(lambda x: (w * x).sum())
            return found

        return with_weight(make)

    assert outcome(ftorch, of(ftorch)) == outcome(pytorch, of(pytorch))


TABLE = ftorch.zeros(0)


@pytest.mark.parametrize("first", ["own", "shared"])
def test_arguments_in_memory_of_globals(first):
    """The function reaches one tensor in two ways in one call, and not in another."""
    global TABLE

    def writes_argument(x):
        x.add_(1)
        return TABLE * 2

    def writes_global(x):
        TABLE.add_(1)
        return x * 2

    def reads(x):
        return x + TABLE

    for function in (writes_argument, writes_global, reads):
        for part in (lambda t: t, lambda t: t[1:3], lambda t: t[::2]):
            TABLE = ftorch.arange(4.0)
            if function is reads:
                TABLE = TABLE[1:3] if part(TABLE).numel() == 2 else TABLE
            compiled = ftorch.compile(function)
            for kind in ("own", "shared", "own") if first == "own" else ("shared", "own", "shared"):
                memory = TABLE if TABLE._base is None else TABLE._base
                whole = memory if kind == "shared" else ftorch.ones(4)
                before = whole.clone(), memory.clone()
                found = compiled(part(whole))
                after = whole.clone(), memory.clone()
                whole.copy_(before[0])
                memory.copy_(before[1])
                assert found.tolist() == function(part(whole)).tolist()
                assert after[0].tolist() == whole.tolist() and after[1].tolist() == memory.tolist()


def test_places_in_a_dense_copy():
    """`within` against positions that NumPy finds."""
    seeded = np.random.default_rng(0)
    known = 0
    for _ in range(400):
        t = ftorch.zeros(tuple(seeded.integers(1, 5, 3).tolist()))
        for _ in range(3):
            dim = int(seeded.integers(t.dim()))
            n = t.shape[dim]
            start = int(seeded.integers(n))
            t = t[(slice(None),) * dim + (slice(start, None, int(seeded.integers(1, 3))),)].movedim(dim, 0)
        view = t
        for _ in range(2):
            dim = int(seeded.integers(view.dim()))
            view = view.narrow(dim, 0, max(1, view.shape[dim] - 1)) if seeded.integers(2) else view.movedim(dim, -1)
        g, h = t._ftorch_geometry, view._ftorch_geometry
        dense = ftorch.empty_like(t)._ftorch_geometry
        found = within(g, dense, h, view.storage_offset() - t.storage_offset())
        assert found is not None
        memory = np.full(400, -1)
        _positions(memory, g, 0)[...] = _positions(np.arange(400), dense, 0)
        wanted = _positions(memory, h, view.storage_offset() - t.storage_offset())
        assert (wanted == _positions(np.arange(400), *found)).all()
        known += 1
    x = ftorch.zeros(4, 6)[:, 1:3]
    g, dense = x._ftorch_geometry, ftorch.empty_like(x)._ftorch_geometry
    for other, offset in ((ftorch.zeros(4, 6)[:, 1:4], 0), (ftorch.zeros(3), 0), (ftorch.zeros(4, 6)[:, :2], -1)):
        assert within(g, dense, other._ftorch_geometry, offset) is None


def _positions(array, g, offset):
    return np.lib.stride_tricks.as_strided(array[offset:], g.shape, [s * array.itemsize for s in g.stride])


def _of_default():
    own = ftorch.zeros(4, 4)

    def function(x, other=own):
        x.add_(1)
        return (other * 2).sum()

    return function, own


def _of_gradient():
    leaf = ftorch.ones(4, 4, requires_grad=True)
    leaf.grad = ftorch.zeros(4, 4)

    def function(x):
        x.add_(1)
        return (leaf.grad * 2).sum()

    return function, leaf.grad


@pytest.mark.parametrize("make", [_of_default, _of_gradient])
def test_arguments_in_memory_of_defaults_and_gradients(make):
    function, own = make()
    compiled = ftorch.compile(function)
    for memory, wanted in ((ftorch.ones(4, 4), 0), (own, 8), (ftorch.ones(4, 4), 8), (own, 16)):
        assert compiled(memory[1]).item() == wanted


COUNT = ftorch.zeros(1)


def test_interrupted_calls_are_made_whole(monkeypatch):
    """What the program computed is put into all its places: those of arguments that are parts, too."""

    def function(x):
        COUNT.add_(1)
        return x.add_(1)

    compiled = ftorch.compile(function)
    compiled(ftorch.zeros(2, 3)[0])
    write_back, calls = program.Captured._write_back, []

    def interrupted(self, leaves, originals):
        calls.append(None)
        if len(calls) == 1:
            raise KeyboardInterrupt
        write_back(self, leaves, originals)

    monkeypatch.setattr(program.Captured, "_write_back", interrupted)
    data = ftorch.zeros(2, 3)
    with pytest.raises(KeyboardInterrupt):
        compiled(data[1])
    assert (COUNT.tolist(), data.tolist()) == ([2.0], [[0.0] * 3, [1.0] * 3])


def test_interrupted_first_calls_are_made_whole(monkeypatch):
    compiled = ftorch.compile(lambda x: x.add_(1))
    write, calls = program.write, []

    def interrupted(*operands):
        calls.append(None)
        write(*operands)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(program, "write", interrupted)
    data = ftorch.zeros(2, 3)
    with pytest.raises(KeyboardInterrupt):
        compiled(data[1])
    assert len(calls) == 2 and data.tolist() == [[0.0] * 3, [1.0] * 3]

    def fails(*operands):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        write(*operands)

    monkeypatch.setattr(program, "write", fails)
    compiled, data = ftorch.compile(lambda x: x.add_(2)), ftorch.zeros(2, 3)
    with pytest.raises(KeyboardInterrupt):
        compiled(data[1])
    assert data.tolist() == [[0.0] * 3, [2.0] * 3]


def test_first_calls_are_made_once(monkeypatch):
    """What was captured is not run by steps as well."""
    flush, steps = CaptureTrace.flush, []

    def counted(self, again=False):
        steps.append(len(self.code))
        flush(self, again)

    monkeypatch.setattr(CaptureTrace, "flush", counted)
    data = ftorch.zeros(2, 3)
    found = ftorch.compile(lambda x: (x.add_(1), x.exp().sum())[1])(data[1])
    assert not any(steps)
    assert data.tolist() == [[0.0] * 3, [1.0] * 3] and found.item() == pytest.approx(3 * np.e)


def test_views_of_an_argument_without_elements():
    """`as_strided` gives elements that are not the argument's."""
    compiled = ftorch.compile(lambda x: x.as_strided((2,), (1,)) * 2)
    for k in (0, 1, 2):
        for x in (ftorch.arange(12.0).view(3, 4)[k:k], ftorch.arange(12.0)[k:k]):
            assert compiled(x).tolist() == [2.0 * x.storage_offset(), 2.0 * x.storage_offset() + 2]
