"""`MultiheadAttention` of nested tensors: what inference gives, and why the others are refused."""

import warnings

import pytest
import torch as reference

import ftorch


@pytest.mark.parametrize("kind", [
    {}, {"batch_first": False}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 4}, {"num_heads": 1},
    {"dtype": "float64"},
])
@pytest.mark.parametrize("call", [
    "m(x, x, x)", "m(x, x, x, need_weights=False)", "m(x, x, x, average_attn_weights=False)", "m(x, y, y)",
    "m(x, x, x, key_padding_mask=t.zeros(2, 3, dtype=t.bool))", "m.train()(x, x, x)", "t.enable_grad()(m)(x, x, x)",
])
def test_calls(kind, call):
    options = {"num_heads": 2, "batch_first": True, **kind}
    state = {}

    def told(t):
        given = {**options, **({"dtype": getattr(t, options["dtype"])} if "dtype" in options else {})}
        module = t.nn.MultiheadAttention(8, **given).eval()
        if t is reference:
            state.update(module.state_dict())
        else:
            module.load_state_dict({k: t.tensor(v.tolist(), dtype=getattr(t, str(v.dtype)[6:])) for k, v in state.items()})
        with warnings.catch_warnings(), t.no_grad():
            warnings.simplefilter("ignore")
            x, y = (t.nested.nested_tensor([t.ones(3, 8) * .5, t.ones(2, 8)]) for _ in range(2))
            try:
                out, weights = eval(call, {"t": t, "m": module, "x": x, "y": y})
            except AssertionError as error:
                return str(error)
        return ([part.numpy().round(4).tolist() for part in out.unbind()],
                None if weights is None else weights.numpy().round(4).tolist())

    wanted, got = told(reference), told(ftorch)
    if isinstance(wanted, str):
        assert got == wanted
    else:
        for a, b in zip(got[0], wanted[0], strict=True):
            assert reference.allclose(reference.tensor(a), reference.tensor(b), atol=2e-4)
        assert got[1] == wanted[1] or reference.allclose(reference.tensor(got[1]), reference.tensor(wanted[1]), atol=2e-4)
