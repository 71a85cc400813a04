"""Reading and writing by index, against PyTorch."""

import warnings

import pytest
import torch

import ftorch
from tests.oracle import both

INDICES = {
    "integer": lambda m: 1,
    "negative": lambda m: (-1, -2),
    "slice": lambda m: slice(None, None, 2),
    "none": lambda m: (None, 0, None),
    "ellipsis": lambda m: (..., 1),
    "list": lambda m: [1, 0, 1],
    "tensor": lambda m: m.tensor([[0, 1], [1, -1]]),
    "two tensors": lambda m: (m.tensor([0, 1]), m.tensor([2, 0])),
    "apart": lambda m: (m.tensor([0, 1]), slice(None), m.tensor([2, 0])),
    "broadcast": lambda m: (m.tensor([[0], [1]]), m.tensor([2, 0])),
    "mask": lambda m: m.tensor([[True, False, True], [False, True, True]]),
    "row mask": lambda m: m.tensor([False, True]),
    "mask and slice": lambda m: (m.tensor([True, False]), slice(0, 2)),
    "0-d tensor": lambda m: m.tensor(1),
    "True": lambda m: True,
    "False": lambda m: False,
    "empty list": lambda m: [],
    "empty slice": lambda m: slice(2, 1),
    "integer and tensor": lambda m: (1, m.tensor([0, 2])),
    "out of range": lambda m: 5,
    "list out of range": lambda m: [0, 7],
    "too many": lambda m: (0, 0, 0, 0),
    "float": lambda m: 1.5,
    "negative step": lambda m: slice(None, None, -1),
    "mask of another shape": lambda m: m.tensor([True, False, True]),
}


def base(m):
    return m.arange(24.0).reshape(2, 3, 4).clone()


@pytest.mark.parametrize("name", INDICES)
def test_read(name):
    both(lambda m: base(m)[INDICES[name](m)])


@pytest.mark.parametrize("name", [n for n in INDICES if n != "False"])
@pytest.mark.parametrize("value", ["number", "tensor", "row"])
def test_write(name, value):
    def run(m):
        t = base(m)
        t[INDICES[name](m)] = {"number": -1, "tensor": m.tensor(7.0), "row": m.ones(4)}[value]
        return t, t._version

    both(run)


@pytest.mark.parametrize("name", list(INDICES)[:19])
def test_gradient(name):
    def run(m):
        x = base(m).requires_grad_()
        (x[INDICES[name](m)] ** 2).sum().backward()
        return x.grad

    both(run)


def test_accumulating_write():
    both(lambda m: m.zeros(4).index_put_((m.tensor([1, 1, 3]),), m.ones(3), accumulate=True))


def test_iteration_and_len():
    both(lambda m: (list(m.arange(3)), len(base(m)), [t.sum() for t in base(m)]))
    both(lambda m: len(m.tensor(1)))
    both(lambda m: 3.0 in base(m))


GRAPHS = {
    "a slice": lambda m, x: x[:],
    "rows": lambda m, x: x[m.tensor([0, 2])],
    "columns": lambda m, x: x[:, m.tensor([0, 2])],
    "a mask := a number": lambda m, x: _written(x, m.eye(3) > 0, 3.0),
    "a mask := a 0-d tensor": lambda m, x: _written(x, m.eye(3) > 0, x.detach()[0, 0]),
    "a mask := a result": lambda m, x: _written(x, m.eye(3) > 0, x[0, 0]),
    "a mask of rows": lambda m, x: _written(x, m.tensor([True, False, True]), 3.0),
    "a mask of columns": lambda m, x: _written(x, (slice(None), m.tensor([True, False, True])), 3.0),
    "a row := a number": lambda m, x: _written(x, 1, 3.0),
}


def _written(x, index, value):
    y = x * 2
    y[index] = value
    return y


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name):
    """The nodes of reads and writes are PyTorch's, and so are the gradients through them."""

    def run(m):
        x = m.arange(9.0).reshape(3, 3).requires_grad_()
        y = GRAPHS[name](m, x)
        names = [y.grad_fn.name(), *(n.name() for n, _ in y.grad_fn.next_functions if n is not None)]
        y.pow(2).sum().backward()
        return y.detach(), x.grad, names

    both(run)


def test_integers_in_tensors_make_views():
    found = []
    for t in (torch, ftorch):
        x = t.zeros(4, 4, dtype=t.int64)
        places = t.tensor([1, -1, 2])
        for i, j in zip(places, places.flip(0)):
            x[i, j] += 1
            x[i] += 2
        part = x[places[0], 1:]
        part[t.tensor(0)] = 9
        assert part._base is x
        with pytest.raises(IndexError) as caught:
            x[t.tensor(4)]
        w = t.ones(3, requires_grad=True)
        (w[t.tensor(1)] * 3).backward()
        found.append((x.tolist(), x._version, str(caught.value), w.grad.tolist()))
    assert found[0] == found[1]


def test_what_is_assigned_to_itself_counts_a_write():
    versions = []
    for t in (torch, ftorch):
        x = t.arange(6.0)
        x[1:3] += 1
        x[2] *= 5
        x[1:3] = x[1:3]
        versions.append((x._version, x.tolist()))
    assert versions[0] == versions[1]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_dtypes_of_numbers_that_are_assigned_through_masks(dtype):
    """Masks cast a number, truth values do not, and complex numbers are not made real."""
    found = []
    for t in (torch, ftorch):
        masks = t.tensor([True, False]), t.tensor(True), t.tensor(False), (0, t.tensor(True)), (None, t.tensor([True, False]))
        values = t.tensor(1 + 2j), t.tensor(3.5, dtype=t.float64), t.tensor([2.5]), t.tensor(7), t.tensor(True), 1 + 2j, 3
        for mask in masks:
            for value in values:
                x = t.arange(6).view(2, 3).to(getattr(t, dtype))
                try:
                    x[mask] = value
                    found.append(x.tolist())
                except RuntimeError as error:
                    found.append(str(error))
    assert found[: len(found) // 2] == found[len(found) // 2 :]


def _written(t, write, *masks):
    """What a write with bytes as masks gives, and how often it warns of them."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = write(t.zeros(3, 3), tuple(t.tensor(m, dtype=t.uint8) for m in masks))
    return found, [str(w.message).partition(" (Triggered")[0] for w in seen]


@pytest.mark.parametrize("write", [
    lambda t: lambda x, m: x.index_put_(m, t.tensor([1.0, 2.0])), lambda t: lambda x, m: x.index_put(m, t.tensor(1.0), True),
    lambda t: lambda x, m: t.index_put(x, (m[0], t.tensor([0, 1])), t.tensor([1.0, 2.0])),
])
def test_writes_with_bytes_as_masks_warn(write):
    both(lambda t: _written(t, write(t), [1, 0, 1], [0, 1, 1]))
