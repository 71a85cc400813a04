"""Generation with a key-value cache as one compiled loop: the tokens are those of a loop in Python."""

import pytest

import ftorch as torch
from ftorch import nn
from ftorch._higher_order_ops import scan, while_loop

F = nn.functional
LAYERS, HEADS, WIDTH, VOCABULARY, LENGTH = 2, 2, 16, 23, 20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, keys, values, position):
        """One token each: (batch, width); caches of (batch, heads, length, width of a head)."""
        shape = (x.shape[0], HEADS, 1, WIDTH // HEADS)
        q, k, v = (t.reshape(shape) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        keys = keys.index_copy(2, position.view(1), k)
        values = values.index_copy(2, position.view(1), v)
        mask = torch.arange(LENGTH) <= position
        attended = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask.view(1, 1, 1, -1))
        x = x + self.out(attended.reshape(x.shape))
        return x + self.mlp(self.norm2(x)), keys, values


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def cache(self, batch):
        shape = (LAYERS, batch, HEADS, LENGTH, WIDTH // HEADS)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, token, position, keys, values):
        """The logits after one more token, and the caches."""
        x = self.token(token) + self.place(position)
        new = []
        for i, block in enumerate(self.blocks):
            x, *cached = block(x, keys[i], values[i], position)
            new.append(cached)
        keys, values = (torch.stack([c[j] for c in new]) for j in (0, 1))
        return self.head(x), keys, values


def in_python(model, start, steps, sample):
    keys, values = model.cache(len(start))
    token, found = start, []
    for i in range(steps):
        logits, keys, values = model(token, torch.tensor(i), keys, values)
        if sample:
            token = torch.multinomial(F.softmax(logits / 0.8, -1), 1)[:, 0]
        else:
            token = logits.argmax(-1)
        found.append(token)
    return torch.stack(found, 1)


def as_a_loop(model, start, steps, sample):
    """The same with `scan`. The numbers that sampling needs are drawn before, in the same order."""
    keys, values = model.cache(len(start))
    positions = torch.arange(steps)
    clocks = torch.empty(steps, len(start), VOCABULARY)
    if sample:
        clocks.exponential_()

    def step(carry, x):
        token, keys, values = carry
        position, clock = x
        logits, keys, values = model(token, position, keys, values)
        scores = F.softmax(logits / 0.8, -1) / clock if sample else logits
        token = scores.argmax(-1)
        return (token, keys, values), token

    _, tokens = scan(step, (start, keys, values), (positions, clocks))
    return tokens.T


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return GPT().eval()


@pytest.mark.parametrize("sample", [False, True])
def test_tokens_are_those_of_a_python_loop(model, sample):
    compiled = torch.compile(as_a_loop, fullgraph=True)
    start = torch.tensor([1, 2, 3])
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            expected = in_python(model, start, 16, sample)
            after = torch.rand(1)
            torch.manual_seed(seed)
            found = compiled(model, start, 16, sample)
            assert found.tolist() == expected.tolist()
            assert torch.rand(1) == after  # the stream stands where it stood
    (program,) = compiled.programs
    assert "scan" in compiled.graph.code


def test_generation_until_an_end_token(model):
    """A `while_loop` that stops when every sequence has ended."""
    end = 7

    def generate(start):
        keys, values = model.cache(len(start))
        tokens = torch.full((len(start), 16), end)

        def goes_on(i, token, tokens, keys, values):
            return (i < 16) & (token != end).any()

        def step(i, token, tokens, keys, values):
            logits, keys, values = model(token, i, keys, values)
            token = torch.where(token == end, token, logits.argmax(-1))
            return i + 1, token, tokens.index_copy(1, i.view(1), token[:, None]), keys, values

        state = (torch.tensor(0), start, tokens, keys, values)
        i, _, tokens, _, _ = while_loop(goes_on, step, state)
        return tokens, i

    compiled = torch.compile(generate, fullgraph=True)
    with torch.no_grad():
        for start in ([1, 2], [7, 7], [20, 7]):
            found, expected = compiled(torch.tensor(start)), generate(torch.tensor(start))
            assert found[0].tolist() == expected[0].tolist() and found[1] == expected[1]
    assert len(compiled.programs) == 1, [e.reason for e in compiled.events]


def test_a_step_that_writes_its_cache_in_place(model):
    """The caches are donated: a step per token, without copying them."""
    plain, mine = model.cache(2), model.cache(2)

    def step(token, position, keys, values):
        logits, k, v = model(token, position, keys, values)
        keys.copy_(k)
        values.copy_(v)
        return logits.argmax(-1)

    compiled = torch.compile(step)
    token = other = torch.tensor([1, 2])
    with torch.no_grad():
        for i in range(5):
            token = compiled(token, torch.tensor(i), *mine)
            other = step(other, torch.tensor(i), *plain)
            assert token.tolist() == other.tolist()
    assert torch.allclose(mine[0], plain[0], 1e-5, 1e-5)
    assert len(compiled.programs) == 1, [e.reason for e in compiled.events]
