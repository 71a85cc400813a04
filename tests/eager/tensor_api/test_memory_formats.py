"""Memory formats that joins keep and conversions give, where sizes of 1 leave several strides to choose from, too."""

import pytest

from tests.oracle import assert_shows_same

SHAPES = [
    (1, 2, 3, 4), (2, 2, 3, 4), (1, 1, 3, 4), (2, 1, 3, 4), (2, 3, 1, 1), (1, 1, 1, 1), (0, 2, 3, 4), (2, 0, 3, 3),
    (1, 2, 3, 4, 5), (1, 1, 2, 3, 4), (1, 3, 1, 1, 1),
]


def last(t, shape):
    """An image of a shape, and the format in which its channels lie together."""
    return t.ones(shape), t.channels_last if len(shape) == 4 else t.channels_last_3d


@pytest.mark.parametrize("shape", SHAPES)
def test_joined_images(shape):
    def program(t):
        x, kind = last(t, shape)
        y = x.to(memory_format=kind)
        joined = [t.cat(parts, d).stride() for d in range(x.dim()) for parts in ([y, y], [x, y], [y, x], [y])]
        stacked = [t.stack([y, y], d).stride() for d in range(x.dim() + 1) if x.numel()]
        return joined, stacked, t.cat([t.ones(0), y]).stride() if x.numel() else None

    assert_shows_same(program)


@pytest.mark.parametrize("shape", SHAPES)
def test_conversions(shape):
    def program(t):
        x, kind = last(t, shape)
        y = x.to(memory_format=kind)
        made = [y, x.contiguous(memory_format=kind), x.to(t.float64, memory_format=kind), x.clone(memory_format=kind),
                x.to("cpu", memory_format=kind), y.to(memory_format=t.contiguous_format), y.relu(), y.to(t.float64)]
        return [tuple(m.stride()) for m in made], y is x, y.is_contiguous(), y.is_contiguous(memory_format=kind)

    assert_shows_same(program)


def test_other_strides():
    def program(t):
        x = t.ones(2, 3).t()
        y = t.ones(2, 3, 4, 5).permute(0, 3, 1, 2)[:, ::2]
        return (
            x.to(memory_format=t.contiguous_format) is x, x.to(t.float64, memory_format=t.contiguous_format).stride(),
            x.to(memory_format=t.contiguous_format, copy=True).stride(), y.to(memory_format=t.channels_last).stride(),
            y.to(memory_format=t.contiguous_format).stride(), t.cat([y, y]).stride(), t.cat([x, x]).stride(),
            t.nn.Conv2d(1, 4, 3).to(memory_format=t.channels_last).weight.stride(),
        )

    assert_shows_same(program)


def test_refused():
    assert_shows_same(lambda t: t.linalg.lstsq(t.eye(2), t.ones(3)))

    def program(t):
        q = t.ones(1, 2, 3, 4)
        return t.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=t.ones(2, 2), is_causal=True)

    assert_shows_same(program)
