"""Eager results on the CPU have the same bits whatever ran them: steps, fused steps on the host, short traces, XLA."""

import contextlib
import random
from unittest import mock

import numpy as np
import pytest

import ftorch as torch
from ftorch.eager import native
from ftorch.eager.native.passes.rewrite import rewritten
from ftorch.eager.runtime import executor, host_tier, program, short_traces
from ftorch.eager.runtime.plan import Plan

F = torch.nn.functional
pytestmark = pytest.mark.skipif(
    not (native.available and host_tier.ENABLED and executor.DEFERRED), reason="there is one tier only"
)
TIERS = ("steps", "host", "short", "xla")
INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}

FUNCTIONS = (
    "exp exp2 expm1 log1p tanh sigmoid erf erfc sin cos tan asin acos atan sinh cosh asinh sqrt rsqrt square reciprocal "
    "abs neg floor round frac relu sign"
).split()
ACTIVATIONS = "gelu silu elu softplus mish hardswish leaky_relu logsigmoid".split()
BINARY = "add sub mul div maximum minimum atan2 hypot fmod".split()
ALONG = "sum mean amax var prod logsumexp norm".split()
OPERATIONS = {
    **{name: lambda x, y, c, name=name: getattr(torch, name)(x) for name in FUNCTIONS},
    **{name: lambda x, y, c, name=name: getattr(F, name)(x) for name in ACTIVATIONS},
    **{name: lambda x, y, c, name=name: getattr(torch, name)(x, y) for name in BINARY},
    **{
        f"{name} along {dim}": lambda x, y, c, name=name, dim=dim: getattr(x, name)(dim, keepdim=True)
        for name in ALONG for dim in (0, 1)
    },
    "times plus": lambda x, y, c: x * c + y,
    "minus times": lambda x, y, c: x - y * c,
    "addcmul": lambda x, y, c: torch.addcmul(x, x, y, value=c),
    "lerp": lambda x, y, c: torch.lerp(x, y, c),
    "pow": lambda x, y, c: x.abs() ** c,
    "over a number": lambda x, y, c: x / c,
    "over a sum": lambda x, y, c: x / y.abs().sum(0, keepdim=True),
    "quotients": lambda x, y, c: x / y / c,
    "where": lambda x, y, c: torch.where(x > c, y, x * c),
    "in place": lambda x, y, c: (x * 1.5).mul_(c).add_(y) if x.shape == (x * y).shape else x * y,
    "part": lambda x, y, c: (x + y).flip(0) * y,
    "write": lambda x, y, c: _written(x + y, c),
    "rows": lambda x, y, c: (x * y).sum(-1, keepdim=True),
    "transposed": lambda x, y, c: (x * c).t().sum(0, keepdim=True).t(),
    "sums of all": lambda x, y, c: x * y.mean(),
    "cumsum": lambda x, y, c: x.cumsum(1),
}
# In float64 these are products and a softmax of XLA's, see the page of the decision.
OF_KERNELS = {
    "softmax": lambda x, y, c: x.softmax(1),
    "log_softmax along 0": lambda x, y, c: x.log_softmax(0),
    "layer_norm": lambda x, y, c: F.layer_norm(x, x.shape[1:]),
    "product": lambda x, y, c: (x.expand(4, *x.shape).sum(0) @ y.expand(x.shape).t()).sum(1, keepdim=True)
    if y.shape == x.shape else x * y,
    "attention": lambda x, y, c: F.scaled_dot_product_attention(x, x * c, x, x[:, :1] > c),
    "attention, a mask of numbers": lambda x, y, c: F.scaled_dot_product_attention(x, x, x * c, x[:1, :1].square()),
    "attention in bfloat16": lambda x, y, c: F.scaled_dot_product_attention(
        *(t.bfloat16() for t in (x, x * c, x)), x[:, :1] > c).float(),
    "lines": lambda x, y, c: torch.einsum("ij,ij->i", x, x).unsqueeze(1) * y,
}


def _written(x, c):
    x[1:, :3] = c
    x[0] *= c
    return x


@contextlib.contextmanager
def tier(name):
    """While it lasts, traces run on one tier."""
    with contextlib.ExitStack() as stack:
        def put(owner, attribute, value):
            stack.enter_context(mock.patch.object(owner, attribute, value))

        short_traces.known.clear()
        put(program, "_prefers_steps", lambda *_: name != "xla")
        put(program, "_comes_first", lambda *_: False)
        put(Plan, "_is_worth_compiling", lambda _: False)
        if name == "short":
            for attribute, value in {"_LEAST_SEEN": 0, "_WAITS": 0, "_MOST_ELEMENTS": 1 << 40, "_LIMIT": 1e9}.items():
                put(short_traces, attribute, value)
        else:
            put(short_traces, "_MOST_STEPS", -1)
        try:
            yield
        finally:
            short_traces.known.clear()


def bits(tensor):
    """The bits of a tensor's numbers; reading them runs what is pending."""
    array = tensor.detach()
    array = array.view(torch.int16).numpy() if array.dtype is torch.bfloat16 else array.numpy()
    return array.view(INTEGERS[array.itemsize]) if array.dtype.kind == "f" else array


def results(run, name):
    """{tier: what a function gives there}; step by step it is looked at every value."""
    with tier(name):
        for _ in range(1 if name == "steps" else 2):
            found = [bits(t).copy() for t in run(name == "steps")]
    return found


def is_subnormal(tensor):
    small = tensor.detach().abs()
    return bool(((small > 0) & (small < torch.finfo(tensor.dtype).tiny)).any())


def random_program(seed, dtype):
    """A function of ``looks``: whether each value is looked at."""
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    operations = OPERATIONS if dtype is torch.float64 else {**OPERATIONS, **OF_KERNELS}
    shape = choose.choice([(5, 7), (33, 70), (1, 40), (130, 90), (600, 30)])
    given = [torch.tensor(numbers.standard_normal(shape)).to(dtype) for _ in range(2)]
    steps, count = [], 2
    for _ in range(choose.randrange(2, 9)):
        name = choose.choice(list(operations))
        steps.append((name, choose.randrange(count), choose.randrange(count), round(choose.uniform(0.1, 2), 2)))
        count += 1
    most = choose.choice([1, len(steps)])  # only the last result, or all of them

    def run(looks):
        values = list(given)
        for name, x, y, c in steps:
            values.append(operations[name](values[x], values[y], c))
            if looks:
                bits(values[-1])
        return values[-most:] if not run.all else values[2:]

    run.all = False
    run.steps = steps
    return run


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_programs_give_the_same_bits_on_all_tiers(dtype, first):
    for seed in range(first, first + 8):
        run = random_program(seed, dtype)
        run.all = True
        with tier("steps"):
            if any(is_subnormal(t) for t in run(True)):
                continue  # programs of XLA's make zeros of them
        run.all = False
        expected = results(run, "steps")
        for name in TIERS[1:]:
            for found, right in zip(results(run, name), expected, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=f"{name}, seed {seed}: {run.steps}")


def test_the_same_line_gives_the_same_bits_each_time_and_whoever_looks():
    torch.manual_seed(0)
    x = torch.randn(300, 400)

    def line(look=lambda t: t):
        return bits(look(look(look(x * 1.1 + x.sin()) * x.exp() - x / 3).tanh()).sum(1))

    expected = line(lambda t: (bits(t), t)[1])
    for _ in range(20):
        np.testing.assert_array_equal(line(), expected)
    with tier("xla"):
        np.testing.assert_array_equal(line(), expected)


@pytest.mark.parametrize("name", [*OPERATIONS, *OF_KERNELS])
def test_one_operation_gives_the_same_bits_on_all_tiers(name):
    generator = np.random.default_rng(1)
    x, y = (torch.tensor(generator.standard_normal((40, 70)), dtype=torch.float32) for _ in range(2))
    bits(x), bits(y)
    operation = {**OPERATIONS, **OF_KERNELS}[name]
    expected = results(lambda looks: [operation(x, y, 0.7)], "steps")
    np.testing.assert_array_equal(results(lambda looks: [operation(x, y, 0.7)], "xla"), expected)


def test_programs_of_torch_compile_may_contract():
    """Their users asked for speed: nothing stands between a product and a sum."""
    import jax

    function = lambda x, y: (x * y + y,)  # noqa: E731
    operands = np.ones(8, np.float32), np.ones(8, np.float32)
    assert "ftorch_zero" not in str(jax.make_jaxpr(rewritten(function))(*operands))
    assert "ftorch_zero" in str(jax.make_jaxpr(rewritten(function, rounded=True))(*operands))
