"""``torch.ops.aten.index`` and its kin with masks and other dtypes of indices, against PyTorch's."""

import pytest

from tests.oracle import assert_shows_same

INDICES = {
    "mask": lambda t: [t.tensor([True, False, True])],
    "bytes": lambda t: [t.tensor([1, 0, 1], dtype=t.uint8)],
    "mask of the second dimension": lambda t: [None, t.tensor([True, False, True])],
    "two masks": lambda t: [t.tensor([True, False, True]), t.tensor([False, True, True])],
    "mask of both": lambda t: [t.eye(3, dtype=t.bool)],
    "mask and positions": lambda t: [t.tensor([True, False, True]), t.tensor([0, 1])],
    "int32": lambda t: [t.tensor([2, -1], dtype=t.int32)],
    "int16": lambda t: [t.tensor([1], dtype=t.int16)],
    "floats": lambda t: [t.tensor([1.0])],
    "mask of another size": lambda t: [t.tensor([True, False])],
    "too many": lambda t: [t.tensor([0]), t.tensor([1]), t.tensor([1])],
    "negative": lambda t: [t.tensor([-1, 0])],
    "outside": lambda t: [t.tensor([5])],
}
CALLS = {
    "index": lambda t, x, where: t.ops.aten.index(x, where),
    "index.Tensor": lambda t, x, where: t.ops.aten.index.Tensor(x, where),
    "_unsafe_index_put": lambda t, x, where: t.ops.aten._unsafe_index_put(
        x, where, t.tensor([5.0, 6.0])[:1], True
    ),
    "_index_put_impl_": lambda t, x, where: t.ops.aten._index_put_impl_(
        x, where, t.tensor([5.0, 6.0])[:1], True
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("indices", INDICES)
def test_indices(call, indices):
    def program(t):
        return CALLS[call](t, t.arange(9.0).reshape(3, 3), INDICES[indices](t)).tolist()

    assert_shows_same(program)


@pytest.mark.parametrize("indices", ["mask", "bytes", "int32", "int16", "floats", "negative"])
def test_unsafe_index_takes_positions_only(indices):
    assert_shows_same(
        lambda t: t.ops.aten._unsafe_index(
            t.arange(9.0).reshape(3, 3), INDICES[indices](t)
        ).tolist()
    )


def test_no_index():
    assert_shows_same(lambda t: t.ops.aten.index(t.ones(3), []))


MASKS = {
    "two": lambda t: (t.tensor([True, False, True]), t.tensor([False, True, True])),
    "one each": lambda t: (t.tensor([True, False, False]), t.tensor([False, True, False])),
    "one and two": lambda t: (t.tensor([True, False, False]), t.tensor([False, True, True])),
    "two and three": lambda t: (t.tensor([True, False, True]), t.tensor([True, True, True])),
    "nothing": lambda t: (t.tensor([False, False, False]), t.tensor([False, False, False])),
    "with one position": lambda t: (t.tensor([True, False, True]), t.tensor([1])),
    "with a position": lambda t: (t.tensor([True, False, True]), t.tensor(1)),
    "one with a position": lambda t: (t.tensor([False, False, True]), t.tensor([1])),
    "with positions": lambda t: (t.tensor([True, False, True]), t.tensor([1, 0])),
    "bytes": lambda t: (t.tensor([1, 0, 1], dtype=t.uint8), t.tensor([1, 0, 1], dtype=t.uint8)),
    "of both and a position": lambda t: (t.eye(3, dtype=t.bool), t.tensor([1])),
}
VALUES = [(), (1,), (2,), (3,), (4,), (2, 1), (2, 4), (1, 4), (3, 4)]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("masks", MASKS)
def test_several_masks_put(masks, accumulate):
    def program(t):
        found = []
        for shape in VALUES:
            values = (t.arange(float(t.Size(shape).numel())) + 50).reshape(shape).requires_grad_()
            x = t.arange(36.0).reshape(3, 3, 4).requires_grad_()
            try:
                y = t.index_put(x, MASKS[masks](t), values, accumulate)
                (y * y.detach()).sum().backward()
                found.append((y.tolist(), x.grad.tolist(), values.grad.tolist()))
            except (
                RuntimeError,
                IndexError,
            ):  # how many positions there are is known to the kernel by a bound only
                found.append("raises")
        return found

    assert_shows_same(program)


def test_gradients_of_masks():
    def program(t):
        x = t.arange(9.0).reshape(3, 3).requires_grad_()
        (t.ops.aten.index.Tensor(x, [None, t.tensor([True, False, True])]) ** 2).sum().backward()
        return x.grad.tolist()

    assert_shows_same(program)
