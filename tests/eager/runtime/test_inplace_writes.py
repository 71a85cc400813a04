"""Writes into large tensors go into their memory, and are seen by nothing else."""

from __future__ import annotations

import math
import signal
import sys
import threading

import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager.call import op as call_op
from ftorch.eager.runtime import executor, inplace_writes

BOTH = (ftorch, torch)
LARGE = inplace_writes.LARGE
ROWS, COLUMNS = 64, LARGE // 32


def _made(t):
    return t.arange(ROWS * COLUMNS, dtype=t.float32).remainder(977).reshape(ROWS, COLUMNS) + 0


def _own(x):
    """The address of a tensor's memory, once it has been written to."""
    x.view(-1)[0] = 0.0
    return x.data_ptr()


def _rows(t, n):
    return t.arange(n * COLUMNS, dtype=t.float32).reshape(n, COLUMNS)


def _index(t, *values):
    return t.tensor(values)


WRITES = {
    "row": lambda t, x: x.__setitem__(3, _rows(t, 1)[0]),
    "number": lambda t, x: x.__setitem__((3, 5), 2.5),
    "block": lambda t, x: x.__setitem__((slice(2, 9, 3), slice(5, 50)), -1),
    "column": lambda t, x: x.__setitem__((slice(None), 7), t.arange(ROWS)),
    "cast": lambda t, x: x.__setitem__(3, t.arange(COLUMNS)),
    "broadcast": lambda t, x: x[4:8].copy_(_rows(t, 1)),
    "chain": lambda t, x: x[5].mul_(2).add_(1).clamp_(max=700),
    "itself": lambda t, x: x[1:9].copy_(x[0:8].clone()),
    "transposed": lambda t, x: x.t()[3:9].copy_(t.ones(6, ROWS)),
    "diagonal": lambda t, x: x.diagonal().fill_(9),
    "index_put": lambda t, x: x.__setitem__(_index(t, 3, 60, -1), _rows(t, 3)),
    "index_put column": lambda t, x: x.__setitem__((_index(t, 3, 60, -1), 5), 4.0),
    "index_put pairs": lambda t, x: x.__setitem__((_index(t, 3, 60), _index(t, 9, -2)), t.ones(2)),
    "index_put second": lambda t, x: x.__setitem__((slice(None), _index(t, 3, 60)), 1.0),
    "index_put table": lambda t, x: x.__setitem__((_index(t, [3], [60]), _index(t, 9, -2, 4)), t.arange(3.0)),
    "index_put of a part": lambda t, x: x[5:50:2, 3:].__setitem__((_index(t, 3, 9), _index(t, 9, -2)), _rows(t, 1)[0, 4:6]),
    "index_put apart": lambda t, x: x.view(8, 8, COLUMNS).__setitem__(
        (_index(t, 3, 0, -1), slice(1, 7, 2), _index(t, 5)), _rows(t, 3)[:, 7:10]
    ),
    "index_put after new": lambda t, x: x.view(8, 8, COLUMNS).__setitem__((None, _index(t, 3, 0), 5, _index(t, 5, 2)), 8),
    "index_put nothing": lambda t, x: x.__setitem__(t.zeros(0, dtype=t.int64), 1.0),
    "index_put int32": lambda t, x: x.__setitem__((_index(t, 3, 60).int(), _index(t, 9, -2)), t.ones(2)),
    "integer in a tensor": lambda t, x: x.__setitem__((t.tensor(3), t.tensor([4, -6])[1]), 5.0),
    "integer and indices": lambda t, x: x.__setitem__((t.tensor(-3), _index(t, 4, 4, 0)), t.ones(3)),
    "add at": lambda t, x: x.index_put_((_index(t, 3, 3, -1), _index(t, 2, 2, 5)), t.full((3,), 1.25), accumulate=True),
    "add at columns": lambda t, x: x.t().index_put_((_index(t, 3, 3, -1),), t.ones(3, 1), accumulate=True),
    "accumulate": lambda t, x: x.index_put_((_index(t, 3, 3, 9),), _rows(t, 3), accumulate=True),
    "accumulate part": lambda t, x: x[:, 1:9].index_put_((_index(t, 3, 3, 9),), t.ones(3, 8), accumulate=True),
    "index_copy": lambda t, x: x.index_copy_(0, _index(t, 3, 60), _rows(t, 2)),
    "index_copy 1": lambda t, x: x.index_copy_(1, _index(t, 3, 60), t.ones(ROWS, 2)),
    "index_add": lambda t, x: x.index_add_(0, _index(t, 3, 3), _rows(t, 2), alpha=2),
    "index_add of a part": lambda t, x: x.index_add_(0, _index(t, 3, 3, 9), _rows(t, 3).t().contiguous().t(), alpha=-0.5),
    "index_add 1": lambda t, x: x.index_add_(1, _index(t, 3, 3), t.ones(ROWS, 2)),
    "index_fill": lambda t, x: x.index_fill_(0, _index(t, 3, 60), 2),
    "scatter": lambda t, x: x.scatter_(0, t.arange(COLUMNS)[None] % ROWS, _rows(t, 1)),
    "scatter 1": lambda t, x: x.scatter_(1, t.arange(ROWS)[:, None], -t.ones(ROWS, 1)),
    "scatter number": lambda t, x: x.scatter_(1, t.arange(ROWS)[:, None], 7.5),
    "scatter_add": lambda t, x: x.scatter_add_(0, t.arange(COLUMNS)[None] % 5, _rows(t, 1)),
    "mask": lambda t, x: x.__setitem__(x > 900, 0.0),
    "mask of rows": lambda t, x: x.__setitem__(t.arange(ROWS) % 9 == 0, 3.0),
    "masked_fill": lambda t, x: x.masked_fill_(x < 5, -2.0),
    "masked_fill part": lambda t, x: x[3:5].masked_fill_(x[3:5] < 500, -2.0),
    "bits": lambda t, x: x.view(t.int32)[3].fill_(7),
    "add to all": lambda t, x: x.add_(1),
    "data": lambda t, x: x.data[3].zero_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_values_versions_and_memory(name):
    found = []
    for t in BOTH:
        x = _made(t)
        before = _own(x)
        view, version = x[2:6], x._version
        WRITES[name](t, x)
        assert x._version > version or name == "data"
        found.append((x.numpy().copy(), view.numpy().copy(), x._version - version))
        if name != "add to all":
            assert x.data_ptr() == before
    ours, theirs = found
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_array_equal(a, b)
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool", "complex64", "bfloat16"])
def test_random_indices(dtype):
    rng = np.random.default_rng(11)
    for turn in range(40):
        shape = tuple(rng.permutation([4, 6, 8, LARGE // 128]))
        items, dims = [], []
        for n in shape:
            kind = rng.integers(0, 5)
            if kind == 0:
                items.append(slice(int(rng.integers(0, 2)), None, int(rng.integers(1, 3))))
            elif kind == 1:
                items.append(int(rng.integers(-n, n)))
            else:
                kind = dims and rng.choice([*{len(dims[-1]), 0}]) or int(rng.integers(1, 3))
                own = [int(rng.choice([1, 3])), 2][-kind:] if kind else ()
                dims.append(own)
                items.append(rng.integers(-n, n, own))
        accumulate = turn % 3 == 0 and dtype != "bool"
        found = []
        for t in BOTH:
            x = (t.arange(math.prod(shape)) % 100).to(getattr(t, dtype)).reshape(shape)
            x.view(-1)[0] = 0
            index = tuple(t.from_numpy(i) if isinstance(i, np.ndarray) else i for i in items)
            size = x[index].shape
            value = t.arange(math.prod(size)).reshape(size).to(x.dtype)
            if len(size) > 1 and turn % 2:
                value = value[:1]
            if not accumulate:
                x[index] = value if turn % 5 else 1
            elif all(isinstance(i, t.Tensor) for i in index):
                x.index_put_(index, value, accumulate=True)
            found.append(x)
        ours, theirs = (x.float() if dtype == "bfloat16" else x for x in found)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), str(items))
        assert found[0]._version == found[1]._version


def test_indices_out_of_range_change_nothing():
    for index in ((64,), (-65,), (0, COLUMNS)):
        messages = []
        for t in BOTH:
            x = _made(t)
            _own(x)
            before, version = x.numpy().copy(), x._version
            with pytest.raises(IndexError) as caught:
                x[tuple(t.tensor([2, i]) for i in index)] = 1.0
            messages.append(str(caught.value))
            if t is ftorch:  # PyTorch has written what comes before
                np.testing.assert_array_equal(x.numpy(), before)
                assert x._version == version
        assert messages[0] == messages[1]


@pytest.mark.parametrize("name", WRITES)
def test_what_was_read_before_stays(name):
    x = _made(ftorch)
    _own(x)
    whole, part, total = x.clone(), x[3].clone(), x.sum()  # pending
    holder = np.asarray(x.detach())  # shares memory, as PyTorch's does
    old = holder.copy()
    WRITES[name](ftorch, x)
    np.testing.assert_array_equal(whole.numpy(), old)
    np.testing.assert_array_equal(part.numpy(), old[3])
    assert total.item() == pytest.approx(old.sum(dtype=np.float64))


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_small_tensors(name, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "COLUMNS", 100)
    found = []
    for t in BOTH:
        x = _made(t)
        x[0, 0].item()
        for _ in range(3):  # from recorded memory, memory of its own, and memory that something pending reads
            WRITES[name](t, x)
            found += [x.sum().item()]
        before, pending = x.clone(), x * 2
        WRITES[name](t, x)
        found += [before.tolist(), pending.tolist(), x.tolist()]
    half = len(found) // 2
    for ours, theirs in zip(found[:half], found[half:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.skipif(call_op.in_c is None, reason="Python records them")
def test_a_small_write_to_what_is_known_is_not_recorded():
    """To record `x[i] = v` copies the storage when it runs: a loop of them copied it as often as it wrote."""
    x, row = ftorch.zeros(50, 20), ftorch.arange(20.0)
    x[0, 0].item(), row[0].item()
    x[0] = 1.0
    before = executor.stats.ops
    for i in range(1, 50):
        x[i] = float(i)
        x[i, 3:5] = row[6:8]
        x[ftorch.tensor([i, i - 1]), 7] = -1.0
    assert executor.stats.ops == before
    pending = x + 1  # reads the memory: the write waits for its turn
    before = executor.stats.ops
    x[0] = 8.0
    assert executor.stats.ops > before
    assert (pending[0, 0].item(), x[0, 0].item(), x[9].tolist()) == (2, 8, [9] * 3 + [6, 7, 9, 9, -1] + [9] * 12)


def test_a_write_copies_nothing():
    x = ftorch.zeros(1 << 24)
    address = _own(x)
    for i in range(50):
        x[i] = float(i)
        assert x[i].item() == i
        x[i : i + 9] += 1
    assert x.data_ptr() == address


def test_programs_borrow_the_memory():
    x = _made(ftorch)
    address, total = _own(x), x.numpy().sum(dtype=np.float64)
    x = _made(ftorch)
    address = _own(x)
    step = ftorch.compile(lambda x: x.sum(1).sum())
    for i in range(5):
        x[i, i + 1] += 1.0
        assert step(x).item() == pytest.approx(total + i + 1)
        assert x.data_ptr() == address


def test_gradients_of_what_was_saved():
    found = []
    for t in BOTH:
        w = t.full((ROWS, COLUMNS), 2.0, requires_grad=True)
        x = w * 3
        y = x.exp()
        z = x * 1
        z[3] = 1.0
        z[5].mul_(w[5])
        (y.sum() * 1e-3 + (z * z).sum()).backward()
        found.append(w.grad.numpy())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            s = w.sin()
            v = (w * 2).detach_().requires_grad_()
            u = v.exp()
            with t.no_grad():
                u[3] = 0
            (u.sum() + s.sum()).backward()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_memory_of_the_user():
    for dtype in (np.float32, np.int64, np.bool_):
        for t in BOTH:
            memory = np.zeros((300, 400), dtype)
            x = t.from_numpy(memory)
            x[3] = 1
            x[5:9, ::7] = t.ones(4, 58)
            x[t.tensor([11, 12])] = 1
            memory[20] = 1
            expected = np.zeros((300, 400), dtype)
            expected[3] = expected[5:9, ::7] = expected[11] = expected[12] = expected[20] = 1
            np.testing.assert_array_equal(memory, expected)
            np.testing.assert_array_equal(x.numpy(), expected)
            assert np.shares_memory(x.numpy(), memory)


def test_a_failing_write_changes_nothing():
    x = _made(ftorch)
    _own(x)
    old, version = x.clone(), x._version
    with pytest.raises(IndexError):
        x[ftorch.tensor([3, ROWS])] = 1.0
    with pytest.raises(RuntimeError):
        x[3] = ftorch.ones(COLUMNS + 1)
    assert ftorch.equal(x, old) and x._version == version


def test_threads_write_their_rows():
    x = ftorch.zeros(ROWS, COLUMNS)

    def work(first):
        for i in range(40):
            for row in range(first, ROWS, 4):
                x[row] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert bool((x == 40).all())


def test_checks_of_indices_that_were_written_to():
    """What was found out about an index tensor's values holds only until it is written to."""
    for write in (lambda i: i.__setitem__(0, 9), lambda i: i.data.__setitem__(0, 9), lambda i: i[:1].add_(9)):
        index = ftorch.zeros(inplace_writes.LARGE, dtype=ftorch.int64)
        index[0], x, rows = 1, ftorch.zeros(4, 1), ftorch.ones(inplace_writes.LARGE, 1)
        x.index_add_(0, index, rows)
        write(index)
        with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 4"):
            x.index_add_(0, index, rows)


DTYPES = "float32 float64 float16 bfloat16 int64 int32 int8 uint8 bool complex64".split()
VALUES = (2, 3.5, True, -1, 300, float("nan"), -0.0)
TOO_LARGE = (1e39, 1 << 40, 70000.0, 1j)


def _outcome(function):
    try:
        function()
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    def results(t):
        x = t.zeros(8, 4, 1 << 12, dtype=getattr(t, dtype))
        k = (t.arange(4 * 3) % 7 - 2).reshape(4, 3).to(x.dtype)
        x[0, 0, 0] = 1
        found = []
        for value in VALUES if x.dtype in (t.float16, t.bfloat16, t.complex64) else VALUES + TOO_LARGE:
            found.append(_outcome(lambda: x.__setitem__((1, slice(None), slice(3, 9, 2)), value)))
            found.append(_outcome(lambda: x[2, :, 4].fill_(value)))
            found.append((x[1, :, :10].sum().item(), x[2, :, 4].sum().item()) if value == value else None)
        x[3, ..., 5:8] = k
        x[4, :, None, 5:8] = k[:, None]
        x[5].t()[9:12] = k.t()
        x[6, :, ::-(-999)][:, :3] = k[2]
        x.index_copy_(2, t.tensor([7, 9, 7]), x[:, :, 5:8].clone())
        x[3].index_fill_(1, t.tensor([-1, 20]), 1)
        x[7].scatter_(1, t.tensor([[3, 5, 3]]), k[:1])
        x[7].scatter_add_(0, t.tensor([[3, 3, 1], [0, 3, 0]]), k[:2])
        x[3].index_add_(1, t.tensor([30, 31, 30]), k)
        return [*found, x._version, (x.to(t.complex128) if dtype != "complex64" else x).resolve_conj().numpy()]

    ours, theirs = map(results, BOTH)
    for a, b in zip(ours[:-1], theirs[:-1], strict=True):
        assert a == b or np.allclose(a, b, equal_nan=True)
    np.testing.assert_array_equal(ours[-1], theirs[-1])


def _wrong(t, x):
    at = t.tensor
    yield lambda: x.__setitem__((3, COLUMNS), 1)
    yield lambda: x.__setitem__((0, 0, 0), 1)
    yield lambda: x.__setitem__(slice(2, 5), t.ones(2, COLUMNS))
    yield lambda: x.__setitem__(slice(None, None, -1), 1)
    yield lambda: x[2].copy_(t.ones(1, 2, COLUMNS))
    yield lambda: x.index_copy_(0, at([1, ROWS]), t.ones(2, COLUMNS))
    yield lambda: x.index_add_(0, at([1, -1]), t.ones(2, COLUMNS))
    yield lambda: x.index_fill_(1, at([1, COLUMNS]), 2)
    yield lambda: x.scatter_(1, at([[1, COLUMNS]]), t.ones(1, 2))
    yield lambda: x.scatter_(1, at([[1, -1]]), 2.0)
    yield lambda: x.scatter_add_(0, at([[1, ROWS]]), t.ones(1, 2))
    yield lambda: x.index_copy_(0, at([1]), t.ones(1, 1))
    yield lambda: x[:1].expand(4, COLUMNS).copy_(t.ones(4, COLUMNS))
    yield lambda: x[:1].expand(4, COLUMNS).index_add_(0, at([1]), t.ones(1, COLUMNS))
    yield lambda: x[1:3].copy_(x[0:2])


def test_wrong_writes_raise_and_change_nothing():
    found = []
    for t in BOTH:
        x = _made(t)
        _own(x)
        old, version = x.clone(), x._version
        errors = [_outcome(write) for write in _wrong(t, x)]
        found.append(errors)
        if t is ftorch:
            assert t.equal(x, old) and x._version == version
    for ours, theirs in zip(*found, strict=True):
        assert ours is theirs


def test_graphs_see_writes_by_index():
    for t in BOTH:
        w = t.full((ROWS, COLUMNS), 2.0, requires_grad=True)
        x = w * 1
        x[3, 5:9] = 7.0
        x[4] = w[0]
        assert x[3].grad_fn is not None and x[4].requires_grad
        with pytest.raises(RuntimeError, match="leaf Variable"):
            w[0] = 1.0
        y = t.zeros(ROWS, COLUMNS)
        y[2] = w[1]
        assert y.requires_grad
        with t.no_grad():
            w[5] = 3.0
        assert w[5, 0].item() == 3
        w.grad = t.autograd.grad((x * x).sum() + y.sum(), w)[0]
        assert w.grad[3, 4:10].tolist() == [4, 0, 0, 0, 0, 4] and w.grad[0, 0].item() == 8


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_a_handler_of_a_signal_may_write_too():
    """It would wait for ever for a lock that the interrupted write holds."""
    x, seen = _made(ftorch), ftorch.zeros(ROWS, COLUMNS)
    _own(x), _own(seen)
    counts = [0]

    def handler(*_):
        counts[0] += 1
        seen[0, :3] = float(counts[0])
        signal.setitimer(signal.ITIMER_REAL, 1e-3)  # not before: handlers that take longer would never come to an end

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-3)
    try:
        for i in range(3000):
            x[i % ROWS] = float(i)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert counts[0] and seen[0, :4].tolist() == [counts[0]] * 3 + [0]
    np.testing.assert_array_equal(x[:, 0].numpy(), [2944 + i if i < 56 else 2880 + i for i in range(ROWS)])


def test_nothing_is_compiled_for_a_write():
    x = _made(ftorch)
    _own(x)
    executor.stats.reset()
    for i in range(20):
        x[i % ROWS] = float(i)
        x[i % ROWS, 3:50].add_(2)
    assert executor.stats.compilations == 0


@pytest.mark.skipif(call_op.in_c is None, reason="without a compiler")
@pytest.mark.parametrize("name", ["row", "index_copy_", "index_add_", "x[index]", "scatter_"])
def test_what_one_number_stands_for_is_written_in_c(name, monkeypatch):
    """``ones`` and ``zeros`` are one number, repeated, in memory: what is written of them is written without Python."""
    index = ftorch.tensor([2, 5])
    constant = ftorch.full((2, COLUMNS), 3.0)
    row, columns = ftorch.full((COLUMNS,), 4.0), ftorch.tensor([[1, 3]])
    some = ftorch.full((1, 2), 5.0)
    calls = {
        "row": lambda x: x.__setitem__(7, row),
        "index_copy_": lambda x: x.index_copy_(0, index, constant),
        "index_add_": lambda x: x.index_add_(0, index, constant),
        "x[index]": lambda x: x.__setitem__(index, constant),
        "scatter_": lambda x: x.scatter_(1, columns, some),
    }
    x, expected = _made(ftorch), np.array(_made(ftorch).tolist(), np.float32)
    _own(x)
    expected[0, 0] = 0
    for t in (constant, row, some):
        t.sum().item()  # it has a value
    calls[name](x)
    by_python = []
    change = inplace_writes._change
    monkeypatch.setattr(inplace_writes, "_change", lambda *given: by_python.append(given) or change(*given))
    calls[name](x)
    assert not by_python
    if name == "row":
        expected[7] = 4
    elif name == "scatter_":
        expected[0, [1, 3]] = 5
    elif name == "index_add_":
        expected[[2, 5]] += 6
    else:
        expected[[2, 5]] = 3
    np.testing.assert_array_equal(x.numpy(), expected)
