"""How results of pooling lie in memory where channels lie together, against PyTorch's."""

import pytest

from tests.oracle import assert_shows_same


def _lines(t, batch):
    x = t.arange(36.0).reshape(2, 6, 3).transpose(1, 2)
    return x if batch else x[0]


def _volumes(t, batch):
    x = t.arange(1296.0).reshape(2, 3, 6, 6, 6).contiguous(memory_format=t.channels_last_3d)
    return x if batch else x[0]


CALLS = {
    "avg_pool1d": (_lines, lambda t, x: t.nn.functional.avg_pool1d(x, 2)),
    "lp_pool1d": (_lines, lambda t, x: t.nn.functional.lp_pool1d(x, 2.0, 2)),
    "adaptive_avg_pool1d": (_lines, lambda t, x: t.nn.functional.adaptive_avg_pool1d(x, 2)),
    "adaptive_max_pool1d": (_lines, lambda t, x: t.nn.functional.adaptive_max_pool1d(x, 2, return_indices=True)),
    "max_pool1d with indices": (_lines, lambda t, x: t.nn.functional.max_pool1d(x, 2, return_indices=True)),
    "max_pool1d": (_lines, lambda t, x: t.nn.functional.max_pool1d(x, 2)),
    "max_pool3d": (_volumes, lambda t, x: t.nn.functional.max_pool3d(x, 2)),
    "max_pool3d with indices": (_volumes, lambda t, x: t.nn.functional.max_pool3d(x, 2, return_indices=True)),
    "avg_pool3d": (_volumes, lambda t, x: t.nn.functional.avg_pool3d(x, 2)),
}


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_channels_lie_together_where_they_do(call, batch):
    def program(t):
        make, pool = CALLS[call]
        found = pool(t, make(t, batch))
        found = found if isinstance(found, tuple) else (found,)
        return [(part.stride(), [round(n, 2) for n in part.flatten().tolist()]) for part in found]

    assert_shows_same(program)


@pytest.mark.parametrize("shape", [(2, 1, 6), (2, 3, 1), (1, 3, 6), (1, 1, 1)])
def test_dimensions_of_one(shape):
    def program(t):
        x = t.ones(shape).transpose(1, 2).contiguous().transpose(1, 2)
        return [t.nn.functional.adaptive_avg_pool1d(y, n).stride() for y in (x, x.contiguous()) for n in (1, 2)]

    assert_shows_same(program)


def test_results_are_viewed_as_in_pytorch():
    def program(t):
        return t.nn.functional.avg_pool1d(_lines(t, True), 2).transpose(1, 2).view(-1, 3).tolist()

    assert assert_shows_same(program, show=lambda r: r)[0] == [1.5, 2.5, 3.5]


def test_writes_into_a_result_of_erfinv_are_allowed():
    def program(t):
        x = t.tensor([0.1, -0.5, 0.9], requires_grad=True)
        y = t.erfinv(x)
        with t.no_grad():
            y.mul_(2)
        y.sum().backward()
        return [round(g, 3) for g in x.grad.tolist()]

    assert_shows_same(program)
