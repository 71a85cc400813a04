"""``torch.compile`` of functions whose arguments vary in size: few programs, and the same results."""

import copy

import numpy as np
import pytest

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.eager.dynamic_shapes import families
from ftorch.eager.runtime.counters import stats
from ftorch.utils import _pytree


class Reader(nn.Module):
    """A small transformer with positions and a causal mask."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(8, 20)
        self.register_buffer("places", torch.randn(32, 8))

    def forward(self, x):
        time = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(time)
        return self.out(self.layers(self.words(x) + self.places[:time], mask=mask, is_causal=True))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(6, 8, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.cell(x)[0][:, -1])


def _mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


def _cnn():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(6, 4),
    )


def _rows(*shape):
    return lambda n: (torch.randn(n, *shape), torch.randint(0, 4, (n,)))


def _words(batch, time):
    return lambda n: (torch.randint(0, 20, (batch(n), time(n))), torch.randint(0, 20, (batch(n), time(n))))


CASES = {
    "convolutions, batch norm, dropout": (_cnn, _rows(3, 8, 8)),
    "lstm": (Recurrent, _rows(5, 6)),
    "transformer, batch and length": (Reader, _words(lambda n: n // 2 + 3, lambda n: n)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_more_program_for_all_sizes_of_a_training_step(name):
    build, data = CASES[name]
    torch.manual_seed(0)
    models = [build()]
    models.append(copy.deepcopy(models[0]))
    losses = []
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
            loss.backward()
            optimizer.step()
            return loss

        call = torch.compile(step, dynamic=True) if model is models[1] else step
        own = []
        for i, n in enumerate([9, 9, 5, 3, 9, 5]):
            torch.manual_seed(i)
            x, y = data(n)
            torch.zeros(1).item()
            stats.reset()
            own.append(call(x, y).item())
            if model is models[1] and i > 2:
                assert stats.compilations == 0, (n, call._families)
        losses.append(own)
    assert np.allclose(*losses, 1e-5, 1e-5)
    for a, b in zip(models[0].state_dict().values(), models[1].state_dict().values()):
        assert torch.allclose(a, b, 1e-4, 1e-5)


def test_a_compiled_module_and_its_gradients():
    torch.manual_seed(0)
    model = _mlp()
    compiled = torch.compile(model, dynamic=True)
    for mode in (True, False):
        compiled.train(mode)
        for i, n in enumerate([5, 4, 3]):
            x = torch.randn(n, 6, requires_grad=True)
            expected = copy.deepcopy(model)(x)
            torch.zeros(1).item()
            stats.reset()
            found = compiled(x)
            programs = stats.compilations
            (wanted,) = torch.autograd.grad((expected**2).mean(), x)
            weight = (found**2).mean()
            stats.reset()
            (grad,) = torch.autograd.grad(weight, x)
            assert torch.allclose(found, expected, 1e-4, 1e-5) and torch.allclose(grad, wanted, 1e-4, 1e-6)
            assert programs == (1 if i < 2 else 0), n


def _shapes(x):
    y = x.T.reshape(-1)
    return (
        torch.cat([x, x * 2, torch.ones(2, 6)]).cumsum(0), x.flip(0).cumsum(0), F.pad(x, (0, 0, 2, 1)),
        torch.stack([x, -x], 1), x.repeat(2, 1), x.repeat_interleave(2, 0), x.roll(1, 0), x[1:] - x[:-1],
        y.cumsum(0), y.argmax(), y[torch.tensor([3, 5, -1])], x.T.reshape(2, -1), x[-1] * 2,
        x + torch.arange(x.shape[0])[:, None], torch.eye(x.shape[0]) @ x, x * x.shape[0],
    )


def _reductions(x):
    return (
        x.mean(0),
        x.var(0),
        x.std(),
        x.max(0),
        x.amin(),
        x.argmin(0),
        x.prod(0),
        x.softmax(0),
        x.logsumexp(0),
        x.norm(),
        (x > 0).any(0),
        x.sort(0, descending=True),
        x.topk(2, 0),
        x.topk(2, 0, False),
        x.kthvalue(2, 0),
        x.median(0),
        x.cummax(0),
        x.logcumsumexp(0),
        x.quantile(0.5, 0),
        F.mse_loss(x, x * 2),
        F.normalize(x, dim=0),
        F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean"),
    )


def _by_index(x):
    at = x[:, 0].abs().long().clamp(0, 5)
    table = torch.linspace(-1, 1, 36).reshape(6, 6)
    cache = torch.zeros(20, 6)
    cache[: x.shape[0]] = x
    return (
        cache, table[at], torch.zeros(6, 6).index_add(0, at, x), x.gather(1, at[:, None]),
        x.gather(0, torch.ones(3, 6, dtype=torch.long)), x[torch.tensor([0, 1, -1])],
        torch.zeros_like(x).scatter(1, at[:, None], 1.0), F.one_hot(at, 6), F.embedding(at, table),
    )


def _attended(x):
    """Attention's results and gradients, over rows that vary; causal, and in batches that vary."""
    found = []
    for y, causal in ((x[None], False), (x[None], True), (x[:, None], False)):
        y = y.detach().requires_grad_()
        out = F.scaled_dot_product_attention(y, y * 2, y.sin(), is_causal=causal)
        found += [out.detach(), *torch.autograd.grad(out.square().sum(), y)]
    return found


def _by_rows(x):
    """Results and gradients of what goes row by row: rows whose number varies, and whose length does."""
    weight = torch.linspace(1, 2, 6, requires_grad=True)
    bias, found = weight.detach().sin().requires_grad_(), []
    for function in (
        lambda y: F.layer_norm(y, (6,), weight, bias), lambda y: F.layer_norm(y, (6,)) + weight + bias,
        lambda y: y.softmax(-1) + weight * bias, lambda y: y.T.softmax(-1).T + weight * bias,
        lambda y: y.T.log_softmax(-1).T + weight * bias,
    ):
        y = x.detach().requires_grad_()
        out = function(y)
        found += [out.detach(), *torch.autograd.grad(out.square().sum(), (y, weight, bias))]
    return found


def _products(x):
    one = torch.ones(3, 6, 3)
    return (
        x @ x.T,
        x.T @ x,
        _attended(x),
        (x @ x.T).tril(),
        torch.cdist(x, x),
        (x[:, None] - x[None]).abs().sum(-1),
        F.conv1d(x.T[None], one, padding=1),
        F.conv2d(x.view(-1, 2, 3, 1), torch.ones(2, 1, 3, 1), padding=1, groups=2),
        F.scaled_dot_product_attention(x[None], x[None], x[None]),
        torch.einsum("bi,bj->ij", x, x[:, :5]),
        torch.fft.rfft(x, dim=1).abs(),
        torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)),
        F.nll_loss(x[None].expand(3, -1, -1).reshape(-1, 6), torch.zeros(3 * x.shape[0], dtype=torch.long)),
        F.dropout(x, 0.5),
        x + torch.randn(x.shape),
    )


@pytest.mark.parametrize("function", [_shapes, _reductions, _by_index, _by_rows, _products])
def test_operations_over_what_varies(function):
    compiled = torch.compile(function, dynamic=True)
    for i, n in enumerate([8, 5, 7, 3]):
        torch.manual_seed(i)
        x = torch.randn(n, 6)
        torch.manual_seed(i)
        expected = function(x)
        torch.zeros(1).item()
        torch.manual_seed(i)
        stats.reset()
        found = compiled(x)
        assert stats.compilations == (1 if i < 2 else 0)
        for k, (a, b) in enumerate(zip(*map(_pytree.tree_leaves, (expected, found)), strict=True)):
            assert a.shape == b.shape and a.dtype == b.dtype, k
            assert torch.allclose(a, b, 1e-4, 2e-5), (n, k)


def test_when_sizes_share_a_program():
    def counted(call, sizes):
        found = []
        for n in sizes:
            x = torch.ones(n, 2)
            torch.zeros(1).item()
            stats.reset()
            assert call(x).item() == 1
            found.append(stats.compilations)
        return found

    def mean(x):
        return (x * x).mean()

    # Growing sizes have programs for powers of two; a single row may be another function.
    assert counted(torch.compile(mean, dynamic=True), [3, 5, 7, 8, 9, 16, 1, 2]) == [1, 1, 0, 0, 1, 0, 1, 0]
    assert counted(torch.compile(mean), [8, 5, 3, 4, 7]) == [1, 1, 1, 0, 0]
    assert counted(torch.compile(mean, dynamic=False), [8, 5, 3, 4]) == [1, 1, 1, 1]

    def marked(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    compiled = torch.compile(mean)
    assert counted(marked, [8, 5, 3, 4]) == [1, 1, 0, 0]


def test_what_python_does_with_a_size_stays():
    """Each size is captured: a branch on it is taken, an error raised."""
    norm = nn.BatchNorm1d(2)
    compiled = torch.compile(lambda x: norm(x) if len(x) < 6 else x - len(x), dynamic=True)
    for n in (9, 7, 8, 5, 4):
        x = torch.randn(n, 2)
        expected = copy.deepcopy(norm)(x) if n < 6 else x - n
        assert torch.allclose(compiled(x), expected, 1e-4, 1e-5)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        compiled(torch.randn(1, 2))


def test_numbers_share_a_program():
    compiled = torch.compile(lambda x, place, factor: x.roll(1)[place] * factor, dynamic=True)
    x = torch.arange(5.0) * 2
    for i, (place, factor) in enumerate([(1, 2.5), (2, 3.5), (3, 0.5), (4, -1.0), (2, 7.25)]):
        expected = x.roll(1)[place].item() * factor
        stats.reset()
        assert compiled(x, place, factor).item() == expected
        assert stats.compilations == (1 if i < 2 else 0)


def test_what_grows_is_neither_cut_nor_padded(monkeypatch):
    """Results of padded programs are parts of their arrays; who writes to one changes nothing else."""
    copies, padded = [], families.Shared.padded

    def noted(self, array, dims, sizes):
        found = padded(self, array, dims, sizes)
        copies.append(found is not array and found is not families._wholes.get(id(array), (None, None))[1])
        return found

    monkeypatch.setattr(families.Shared, "padded", noted)
    rng = np.random.default_rng(0)
    first, rows = rng.random((600, 16), np.float32), rng.random((12, 1, 16), np.float32)

    def step(held, row):
        held = lib.cat([held, row])
        return held, held.sum(0) * 2

    pt = pytest.importorskip("torch")
    for lib in (torch, pt):
        grow = torch.compile(step, dynamic=True) if lib is torch else step
        held, kept, found = lib.from_numpy(first.copy()), [], []
        for i, row in enumerate(rows):
            held, total = grow(held, lib.from_numpy(row))
            kept.append(held)
            found += [total.numpy()]
            if i == 4:
                del copies[:]
            if i == 8:  # as a new argument
                assert lib is pt or not any(copies)
                held = held * 1
                held[3] = 7
                held.add_(1)
            if i == 10:
                kept[9].mul_(2)  # which the next call does not read
                held.numpy()[5] = 2
        found += [x.numpy() for x in kept]
        if lib is torch:
            mine = found
    assert [x.strides for x in mine] == [x.strides for x in found]
    for x, y in zip(mine, found, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


@pytest.mark.parametrize("function", [
    lambda x: torch.cat([x[:2], x, x[-1:]]),
    lambda x: torch.cat([torch.cat([x, x[:1]]), x]),
    lambda x: torch.cat([x, x[:1]])[1:],
    lambda x: F.pad(F.pad(x, (0, 0, 1, 1)), (0, 0, 0, 1)).flip(0),
    lambda x: torch.cat([x, x[:1]]).softmax(0)[:-1].roll(1, 0),
    lambda x: F.conv1d(x.t()[None], torch.ones(4, 4, 3), padding=2)[0].cumsum(1),
    lambda x: torch.cat([x, x[:2]]).sort(0)[0].diff(dim=0),
])
def test_few_more_elements(function):
    """Rules lay parts behind what is there, in arrays that have just the room."""
    compiled = torch.compile(function, dynamic=True)
    for n in (30, 31, 32, 33, 61, 62, 63, 64, 65):
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("more", [1, 3])
def test_what_grows_by_steps_goes_beyond_its_room(more):
    """Sizes and few more than they share arrays: a program whose arrays have no room for them gives way to a longer one."""
    def step(held, row):
        held = torch.cat([held, row])
        shifted = F.pad(held, (0, 0, 1, 0))[:-1]  # as long, and one more in between
        return held, (held * shifted).sum(0), held.flip(0)[1:].cumsum(0)[-1], held.sort(0)[0][: held.shape[0] - 1].mean(0)

    grow = torch.compile(step, dynamic=True)
    held = first = torch.rand(57, 300)
    for i in range(12 // more):
        row = torch.rand(more, 300)
        expected = step(held, row)
        held, *others = grow(held, row)
        torch.testing.assert_close([held, *others], list(expected))
    assert first.shape == (57, 300)


def test_sizes_and_much_more_than_they():
    """A length of few and a thousand has arrays of its own."""
    memory = torch.rand(1024, 4)

    def attend(x):
        held = torch.cat([memory, x])
        return held.sum(0), held[-3:]

    compiled = torch.compile(attend, dynamic=True)
    for n in (5, 6, 7, 9, 17, 33, 70, 90):
        x = torch.rand(n, 4)
        torch.testing.assert_close(compiled(x), attend(x))


def test_dimensions_that_vary():
    """A dimension is a number in the graphs of gradients, too, where other whole numbers are symbols."""
    compiled = torch.compile(lambda x, dim: torch.cat([x, x], dim=dim) * 2.0, backend="aot_eager", fullgraph=True)
    for dim in (0, 1, 2):
        x = torch.ones(3, 3, 3, requires_grad=True)
        out = compiled(x, dim)
        out.sum().backward()
        assert out.shape[dim] == 6 and torch.equal(x.grad, torch.full((3, 3, 3), 4.0))
