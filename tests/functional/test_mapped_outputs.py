"""What functions that are mapped may return beside tensors, against PyTorch's `vmap`."""

import pytest

from tests.oracle import assert_shows_same

CALLS = {
    "a text": lambda t, x: t.vmap(lambda x: "text", out_dims=None)(x),
    "beside a tensor": lambda t, x: t.vmap(
        lambda x: (x, "text", 3, None), out_dims=(0, None, None, None)
    )(x),
    "in a dictionary": lambda t, x: t.vmap(
        lambda x: {"a": x, "b": "text"}, out_dims={"a": 0, "b": None}
    )(x),
    "with a dimension": lambda t, x: t.vmap(lambda x: (x, "text"), out_dims=0)(x),
    "a number": lambda t, x: t.vmap(lambda x: 3)(x),
    "mapped": lambda t, x: t.vmap(lambda x: x, out_dims=None)(x),
    "constant": lambda t, x: t.vmap(lambda x: t.ones(2), out_dims=None)(x),
    "of another structure": lambda t, x: t.vmap(lambda x: (x, "text"), out_dims=(0,))(x),
}


@pytest.mark.parametrize("call", CALLS)
def test_outputs(call):
    assert_shows_same(lambda t: CALLS[call](t, t.ones(2, 3)))


@pytest.mark.parametrize("in_dims", [[0], [[0]], {"a": 0}, "0", 0.5, (0,), ((0,),), None])
def test_dimensions_of_inputs_are_numbers_or_tuples(in_dims):
    assert_shows_same(lambda t: t.vmap(lambda x: x * 2, in_dims=in_dims)(t.ones(2, 3)))
