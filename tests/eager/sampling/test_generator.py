"""Random numbers against PyTorch's CPU generator, bit for bit, and its state after each draw."""

# PyTorch does not say that it exports what begins with an underscore.
# pyright: reportPrivateImportUsage=false

import pickle
import threading

import ml_dtypes
import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import sampling
from ftorch.eager.sampling.arithmetic import contracted, fma32, fma64
from ftorch.eager.sampling.normal import _normal32

FLOATS = {
    torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64),
    torch.float16: np.dtype(np.float16), torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
}
INTEGERS = {
    torch.int64: np.dtype(np.int64), torch.int32: np.dtype(np.int32),
    torch.int16: np.dtype(np.int16), torch.int8: np.dtype(np.int8),
    torch.uint8: np.dtype(np.uint8), torch.bool: np.dtype(np.bool_),
}
COMPLEX = {torch.complex64: np.dtype(np.complex64), torch.complex128: np.dtype(np.complex128)}
NUMPY = {**FLOATS, **INTEGERS, **COMPLEX}
SEEDS = [0, 42, -7, 2**33 + 5]
SIZES = [0, 1, 2, 15, 16, 17, 31, 100, 513, 2050]


def to_numpy(tensor):
    """A tensor's values, bfloat16 too."""
    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        return tensor.float().numpy().astype(ml_dtypes.bfloat16)
    return tensor.numpy()


class Pair:
    """Our generator and PyTorch's default one, from the same seed."""

    def __init__(self, seed):
        self.ours = ftorch.Generator().manual_seed(seed)
        torch.manual_seed(seed)

    def same(self, found, expected):
        """Checks an array of ours against a tensor of PyTorch's, and the states."""
        expected = to_numpy(expected)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == np.ascontiguousarray(expected).tobytes()
        assert np.array_equal(self.ours.state(), torch.get_rng_state().numpy())


def numbers(seed):
    """Parameters to try: a mean or lower bound, a positive scale, a probability."""
    rng = np.random.default_rng(abs(seed))
    return rng.normal() * 2, abs(rng.normal()) * 3 + 0.01, rng.uniform(0.05, 0.95)


# --- samplers --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_continuous_distributions(seed, dtype):
    pair, kind = Pair(seed), FLOATS[dtype]
    low, scale, p = numbers(seed)

    def empty(n):
        return torch.empty(n, dtype=dtype)

    for n in SIZES:
        g, same, shape = pair.ours, pair.same, (n,)
        same(sampling.uniform(g, shape, dtype=kind), torch.rand(n, dtype=dtype))
        same(sampling.uniform(g, shape, low, low + scale, kind), empty(n).uniform_(low, low + scale))
        same(sampling.uniform(g, shape, -1, 1, kind), empty(n).uniform_(-1, 1))
        same(sampling.normal(g, shape, dtype=kind), torch.randn(n, dtype=dtype))
        same(sampling.normal(g, shape, low, scale, kind), empty(n).normal_(low, scale))
        same(
            sampling.normal(g, shape, low, scale, kind, contiguous=False),
            empty(2 * n)[::2].normal_(low, scale),
        )
        same(sampling.exponential(g, shape, scale, kind), empty(n).exponential_(scale))
        same(sampling.cauchy(g, shape, low, scale, kind), empty(n).cauchy_(low, scale))
        same(sampling.log_normal(g, shape, low, scale, kind), empty(n).log_normal_(low, scale))
        same(sampling.geometric(g, shape, p, kind), empty(n).geometric_(p))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers(dtype):
    pair, kind = Pair(3), COMPLEX[dtype]
    for n in SIZES:
        pair.same(sampling.uniform(pair.ours, (n,), dtype=kind), torch.rand(n, dtype=dtype))
        pair.same(sampling.normal(pair.ours, (n,), dtype=kind), torch.randn(n, dtype=dtype))


@pytest.mark.parametrize("n", [8191, 8193, 65535, 65553, 262144, 262145, 600001])
def test_more_than_one_block(n):
    pair = Pair(n)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        kind = FLOATS[dtype]
        expected = torch.empty(n, dtype=dtype)
        pair.same(sampling.normal(pair.ours, (n,), 0.3, 2, kind), expected.normal_(0.3, 2))
        pair.same(sampling.uniform(pair.ours, (n,), -1, 2, kind), expected.uniform_(-1, 2))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_discrete_distributions(seed, dtype):
    pair, kind = Pair(seed), NUMPY[dtype]
    *_, p = numbers(seed)

    def empty(n):
        return torch.empty(n, dtype=dtype)

    for n in SIZES:
        g, same, shape = pair.ours, pair.same, (n,)
        same(sampling.random_(g, shape, kind), empty(n).random_())
        same(sampling.bernoulli(g, shape, p, kind), empty(n).bernoulli_(p))
        high = 2 if dtype is torch.bool else 100
        same(sampling.randint(g, shape, 0, high, kind), empty(n).random_(0, high))
        if kind.kind in "iu":
            same(sampling.geometric(g, shape, 0.5, kind), empty(n).geometric_(0.5))


@pytest.mark.parametrize(
    "low, high", [(0, 2**28), (0, 2**28 - 1), (-5, 2**40), (-(2**62), 2**62), (0, 1), (-3, 5)]
)
def test_ranges_of_integers(low, high):
    pair = Pair(1)
    for n in SIZES:
        found = sampling.randint(pair.ours, (n,), low, high)
        pair.same(found, torch.randint(low, high, (n,)))


def test_all_of_int64():
    pair = Pair(1)
    found = sampling.randint(pair.ours, (9,), -(2**63), 2**63)
    pair.same(found, torch.empty(9, dtype=torch.int64).random_(-(2**63), None))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 511, 512, 513, 5000, 65535, 65536, 65537, 200000])
def test_permutations(n):
    pair = Pair(n)
    for _ in range(3):
        pair.same(sampling.randperm(pair.ours, n), torch.randperm(n))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_parameters_by_element(seed, dtype):
    pair = Pair(seed)
    rng = np.random.default_rng(abs(seed))
    g, same = pair.ours, pair.same
    for n in (1, 16, 101):
        p = torch.from_numpy(rng.uniform(size=n)).to(dtype)
        count = torch.from_numpy(rng.integers(0, 60, n)).to(dtype)
        weights = to_numpy(p)
        same(sampling.bernoulli_tensor(g, weights), torch.bernoulli(p))
        same(sampling.poisson(g, to_numpy(p * 30)), torch.poisson(p * 30))
        same(sampling.multinomial(g, weights, 1), torch.multinomial(p, 1))
        same(sampling.multinomial(g, weights, n + 3, True), torch.multinomial(p, n + 3, True))
        if dtype.itemsize > 2:  # halves have ties, which topk orders in its own way
            same(sampling.multinomial(g, weights, n), torch.multinomial(p, n))
        if dtype.itemsize > 2:
            same(sampling.binomial(g, to_numpy(count), weights), torch.binomial(count, p))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gamma_and_dirichlet(dtype):
    for seed in SEEDS:
        pair = Pair(seed)
        alpha = torch.rand(200, 3, generator=torch.Generator().manual_seed(seed)).to(dtype) * 5
        pair.same(sampling.standard_gamma(pair.ours, alpha.numpy()), torch._standard_gamma(alpha))
        pair.same(sampling.dirichlet(pair.ours, alpha.numpy()), torch._sample_dirichlet(alpha))


# --- arithmetic ------------------------------------------------------------------------


def test_the_compiled_normals_are_exact_for_every_eleventh_uniform_number():
    words = np.repeat(np.arange(0, 1 << 24, 11, dtype=np.uint32), 2)
    words = words[: words.size // 16 * 16].reshape(-1, 8, 2).transpose(0, 2, 1).ravel()
    found = np.empty(words.size, np.float32)
    _normal32.fill(found, lambda start, stop: words[start:stop], (0.25, 1.5))
    for start in range(0, words.size, 1 << 18):
        part = words[start : start + (1 << 18)]
        rows = _normal32._function(
            np, lambda a, b, c: fma32(np, a, b, c), part, np.float32(0.25), np.float32(1.5)
        )
        assert np.array_equal(np.stack(rows, 1).ravel(), found[start : start + part.size])


def test_a_compiler_that_does_not_contract_is_noticed():
    import jax

    from ftorch.eager.sampling.random_words import BlockSampler

    def function(xp, fma, words, scale):
        exactly = fma.args[0] is np or fma.func is fma32
        x = words.reshape(-1, 2, 8).astype(np.float32) * scale
        return x[:, 0] + (0 if exactly else 1), x[:, 1]

    sampler = BlockSampler(function, probe=(1.0,))
    out = np.empty(16, np.float32)
    sampler.fill(out, lambda start, stop: np.arange(start, stop, dtype=np.uint32), (1.0,))
    assert np.array_equal(out, np.arange(16))
    assert contracted(jax.numpy, 2, 3, 4) == 10


def test_fused_multiply_adds_round_once():
    from fractions import Fraction

    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    b, c = 0.1, float(-0.1 * a[7])
    for x, found in zip(a, fma64(a, b, c), strict=True):
        assert found == float(Fraction(x) * Fraction(b) + Fraction(c))
    # 2^-24 + 2^-60 beside 1 lies just above the middle of two float32 numbers; float64 loses it.
    one = np.ones(1, np.float32)
    small = np.float32(2**-24 * (1 + 2**-23))
    assert fma32(np, small * one, np.float32(1 + 2**-23), np.float32(1))[0] == np.float32(1 + 2**-23)


# --- generators ------------------------------------------------------------------------


def test_seeds_and_states():
    for seed in (0, -5, 2**64 - 1, -(2**63)):
        ours, theirs = ftorch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        assert ours.initial_seed() == theirs.initial_seed()
        assert np.array_equal(ours.state(), theirs.get_state().numpy())
        for n in (1, 623, 1, 624, 700):  # up to, at and past the end of the state's words
            ours.words(n)
            torch.empty(n).random_(generator=theirs)
            assert np.array_equal(ours.state(), theirs.get_state().numpy())


def test_states_cross_over():
    ours, theirs = ftorch.Generator().manual_seed(3), torch.Generator().manual_seed(9)
    torch.randn(3, generator=theirs)  # leaves a cached normal number
    ours.set_state(ftorch.from_numpy(theirs.get_state().numpy()))
    copy, pickled = ours.clone_state(), pickle.loads(pickle.dumps(ours))
    for generator in (ours, copy, pickled):
        again = theirs.clone_state()
        found = ftorch.randn(5, generator=generator)
        assert found.tolist() == torch.randn(5, generator=again).tolist()
        back = torch.Generator()
        back.set_state(torch.from_numpy(generator.get_state().numpy().copy()))
        assert torch.equal(torch.rand(4, generator=back), torch.rand(4, generator=again))


def test_drawing_ahead_leaves_no_trace():
    g = ftorch.Generator().manual_seed(1)
    before = g.state()
    with g.uniforms():
        pass
    assert np.array_equal(g.state(), before)
    with g.uniforms() as numbers:
        taken = [next(numbers) for _ in range(100)]
    again = ftorch.Generator().manual_seed(1)
    assert taken == again.uniform64(100).tolist()
    assert np.array_equal(g.state(), again.state())


def test_threads_share_a_generator():
    g = ftorch.Generator().manual_seed(0)
    drawn = []

    def work():
        for _ in range(50):
            drawn.append(sampling.uniform(g, (1000,)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sampling.uniform(ftorch.Generator().manual_seed(0), (200 * 1000,)).reshape(200, 1000)
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, expected))


def test_forks_leave_the_generator_as_it_was():
    ftorch.manual_seed(4)
    with ftorch.random.fork_rng():
        ftorch.rand(10)
    first = ftorch.rand(1).item()
    assert first == ftorch.rand(1, generator=ftorch.Generator().manual_seed(4)).item()
    with ftorch.random.fork_rng(enabled=False):
        ftorch.manual_seed(4)
    assert ftorch.rand(1).item() == first


def test_seed_restarts_from_what_it_returns():
    seed = ftorch.seed()
    assert ftorch.initial_seed() == seed
    state = ftorch.get_rng_state()
    first = ftorch.rand(3).tolist()
    ftorch.set_rng_state(state)
    assert ftorch.rand(3).tolist() == first
