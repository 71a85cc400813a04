"""Text generation for many at once: continuous batching over a paged cache, speculative decoding, beams.

    python examples/serve_llm.py [--requests 24]

The model is a small GPT with rotary positions and grouped queries, and random weights: what it says is noise, but each way of
generating has to say the same as the plainest one, which is checked. Caches of keys and values: appended by ``cat``, static,
sliding, paged, quantized. A step of decoding is one compiled program, which writes the caches where they are.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import time

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F
from ftorch.nn.attention.flex_attention import create_block_mask, flex_attention


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of a model; ``heads`` of queries share ``kv_heads`` of keys and values."""

    vocabulary: int = 96
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    depth: int = 2
    longest: int = 128

    @property
    def head(self):
        return self.width // self.heads


# --- the model ------------------------------------------------------------------------------


def rotated(x, angles):
    """Rotary positions: pairs of features turned by angles (B, 1, T, head / 2)."""
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    """Grouped-query attention over a cache."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, config.kv_heads * config.head, bias=False)
        self.value = nn.Linear(config.width, config.kv_heads * config.head, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        steps = torch.arange(0, config.head, 2) / config.head
        self.register_buffer("frequencies", 10000.0 ** -steps, persistent=False)

    def forward(self, x, positions, cache, layer):
        def heads(t, count):
            return t.unflatten(-1, (count, self.config.head)).transpose(1, 2)

        angles = positions[:, None, :, None] * self.frequencies
        query = rotated(heads(self.query(x), self.config.heads), angles)
        key = rotated(heads(self.key(x), self.config.kv_heads), angles)
        value = heads(self.value(x), self.config.kv_heads)
        y = cache(layer, query, key, value, positions)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a gated perceptron, each normalized before and added to its input."""

    def __init__(self, config):
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(config.width, eps=1e-6), Attention(config)
        self.norm2 = nn.RMSNorm(config.width, eps=1e-6)
        self.gate = nn.Linear(config.width, 2 * config.width, bias=False)
        self.up = nn.Linear(config.width, 2 * config.width, bias=False)
        self.down = nn.Linear(2 * config.width, config.width, bias=False)

    def forward(self, x, positions, cache, layer):
        x = x + self.attention(self.norm1(x), positions, cache, layer)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class GPT(nn.Module):
    """Scores of the next token: (B, T, vocabulary) of tokens and positions (B, T)."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.norm = nn.RMSNorm(config.width, eps=1e-6)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.15)

    def forward(self, tokens, positions, cache):
        x = self.tokens(tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, positions, cache, layer)
        return self.head(self.norm(x))


# --- caches ---------------------------------------------------------------------------------
# ``cache(layer, query, key, value, positions)`` takes in keys and values (B, kv_heads, T, head) at positions (B, T),
# and attends to all that it holds.


def attend(query, key, value, seen):
    """Attention to keys that a mask (B or 1, T, S) lets be seen."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None], enable_gqa=True)


class GrowingCache:
    """Keys and values appended by ``cat``: as long as what was said, with new sizes at each step."""

    def __init__(self, config, batch=1):
        self.keys: list = [None] * config.depth
        self.values: list = [None] * config.depth

    def __call__(self, layer, query, key, value, positions):
        if self.keys[layer] is not None:
            key = torch.cat([self.keys[layer], key], 2)
            value = torch.cat([self.values[layer], value], 2)
        self.keys[layer], self.values[layer] = key, value
        columns = torch.arange(key.shape[2])
        return attend(query, key, value, columns <= positions[:, :, None])


class StaticCache(nn.Module):
    """Room for the longest text, written by ``index_copy_``; all rows of the batch are at the same positions."""

    def __init__(self, config, batch=1, dtype=torch.float32):
        super().__init__()
        size = (config.depth, batch, config.kv_heads, config.longest, config.head)
        self.register_buffer("keys", torch.zeros(size, dtype=dtype))
        self.register_buffer("values", torch.zeros(size, dtype=dtype))

    def forward(self, layer, query, key, value, positions):
        self.keys[layer].index_copy_(2, positions[0], key)
        self.values[layer].index_copy_(2, positions[0], value)
        columns = torch.arange(self.keys.shape[3])
        return attend(query, self.keys[layer], self.values[layer], columns <= positions[:, :, None])

    def reorder(self, rows):
        """Row i becomes what row ``rows[i]`` was."""
        self.keys.copy_(self.keys.index_select(1, rows))
        self.values.copy_(self.values.index_select(1, rows))


class SlidingCache(nn.Module):
    """The last ``window`` positions, in a ring: memory does not grow with the text."""

    def __init__(self, config, batch=1, window=16):
        super().__init__()
        self.window = window
        size = (config.depth, batch, config.kv_heads, window, config.head)
        self.register_buffer("keys", torch.zeros(size))
        self.register_buffer("values", torch.zeros(size))
        self.register_buffer("held", torch.full((config.depth, window), -1))  # positions, -1: none

    def forward(self, layer, query, key, value, positions):
        # Those that new ones are going to replace are seen by earlier of the new ones.
        keys = torch.cat([self.keys[layer], key], 2)
        values = torch.cat([self.values[layer], value], 2)
        held = torch.cat([self.held[layer], positions[0]])
        queries = positions[:, :, None]
        seen = (held >= 0) & (held <= queries) & (held > queries - self.window)
        last = positions[0, -self.window :]
        places = last % self.window
        self.keys[layer].index_copy_(2, places, key[:, :, -self.window :])
        self.values[layer].index_copy_(2, places, value[:, :, -self.window :])
        self.held[layer].index_copy_(0, places, last)
        return attend(query, keys, values, seen)


class QuantizedCache(nn.Module):
    """Eight bits for each number, and a scale for each position and head: a quarter of the memory."""

    def __init__(self, config, batch=1):
        super().__init__()
        size = (config.depth, 2, batch, config.kv_heads, config.longest)
        self.register_buffer("numbers", torch.zeros(*size, config.head, dtype=torch.int8))
        self.register_buffer("scales", torch.zeros(*size, 1))

    def forward(self, layer, query, key, value, positions):
        new = torch.stack([key, value])
        scales = new.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
        self.numbers[layer].index_copy_(3, positions[0], (new / scales).round().to(torch.int8))
        self.scales[layer].index_copy_(3, positions[0], scales)
        keys, values = self.numbers[layer] * self.scales[layer]
        columns = torch.arange(self.numbers.shape[4])
        return attend(query, keys, values, columns <= positions[:, :, None])


class PagedCache(nn.Module):
    """Pages of a pool, shared by texts of any lengths: ``table`` says which pages a row of the batch has.

    Page 0 is nobody's: rows without a text and positions of -1 write there.
    """

    def __init__(self, config, batch, pages, page=8):
        super().__init__()
        self.page = page
        size = (config.depth, pages, page, config.kv_heads, config.head)
        self.register_buffer("keys", torch.zeros(size))
        self.register_buffer("values", torch.zeros(size))
        self.register_buffer("table", torch.zeros(batch, config.longest // page, dtype=torch.int64))

    def forward(self, layer, query, key, value, positions):
        return self.attended(self.table, layer, query, key, value, positions)

    def attended(self, table, layer, query, key, value, positions):
        at = positions.clamp(min=0)
        pages = torch.where(positions >= 0, table.gather(1, at // self.page), 0)
        self.keys[layer].index_put_((pages, at % self.page), key.transpose(1, 2))
        self.values[layer].index_put_((pages, at % self.page), value.transpose(1, 2))
        keys = self.keys[layer][table].flatten(1, 2).transpose(1, 2)
        values = self.values[layer][table].flatten(1, 2).transpose(1, 2)
        columns = torch.arange(keys.shape[2])
        return attend(query, keys, values, columns <= at[:, :, None])

    def row(self, row):
        """The cache of one row of the batch alone, for its prompt."""

        def cache(*arguments):
            return self.attended(self.table[row : row + 1], *arguments)

        return cache


class PackedAttention:
    """No cache: several texts one after another in a row, each of which sees itself only (``flex_attention``)."""

    def __init__(self, lengths):
        text = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))

        def same_text(b, h, q, kv):
            return (text[q] == text[kv]) & (q >= kv)

        self.mask = create_block_mask(same_text, None, None, len(text), len(text), device="cpu")

    def __call__(self, layer, query, key, value, positions):
        return flex_attention(query, key, value, block_mask=self.mask, enable_gqa=True)


# --- ways to generate -----------------------------------------------------------------------


def positions_of(start, count):
    return torch.arange(start, start + count)[None]


def sampled(logits, temperature=1.0, top_k=0, top_p=1.0):
    """Tokens (B,) drawn from scores (B, vocabulary), of which the best k or those of a share p of probability are kept."""
    if temperature == 0:
        return logits.argmax(-1)
    logits = logits / temperature
    if top_k:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(descending=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        logits = logits.masked_fill((before >= top_p).scatter(1, order, before >= top_p), -torch.inf)
    return torch.multinomial(logits.softmax(-1), 1)[:, 0]


def make_step(model, cache, compiled):
    """A function of a token (1, 1) and its position (1, 1) that gives the scores of the next: one program."""

    @torch.no_grad()
    def step(token, position):
        return model(token, position, cache)[:, -1]

    return torch.compile(step, mode="reduce-overhead") if compiled else step


@torch.no_grad()
def generate(model, cache, prompt, count, step=None, **how):
    """The tokens that follow a prompt, one by one; the likeliest unless ``temperature`` or others say how.

    Args:
        step: what `make_step` made for this cache.
    """
    how = how or {"temperature": 0}
    step = step or make_step(model, cache, compiled=False)
    logits = model(torch.tensor([prompt]), positions_of(0, len(prompt)), cache)[:, -1]
    tokens = [sampled(logits, **how)]
    position = torch.tensor([[len(prompt)]])
    for _ in range(count - 1):
        tokens.append(sampled(step(tokens[-1][:, None], position), **how))
        position += 1
    return torch.cat(tokens).tolist()


@torch.no_grad()
def speculate(model, draft, prompt, count, ahead=4):
    """The likeliest tokens, of which a smaller model guesses several that the larger one checks in one call.

    Returns:
        (tokens, the number of calls of the larger model).
    """
    cache, guesses_cache = StaticCache(model.config), StaticCache(draft.config)
    start = torch.tensor([prompt])
    tokens = [int(model(start, positions_of(0, len(prompt)), cache)[0, -1].argmax())]
    draft(start, positions_of(0, len(prompt)), guesses_cache)
    calls = 1
    while len(tokens) < count:
        at = len(prompt) + len(tokens) - 1  # where the last token goes
        guesses = [tokens[-1]]
        for i in range(ahead):
            logits = draft(torch.tensor([[guesses[-1]]]), positions_of(at + i, 1), guesses_cache)
            guesses.append(int(logits[0, -1].argmax()))
        best = model(torch.tensor([guesses]), positions_of(at, len(guesses)), cache)[0].argmax(-1).tolist()
        calls += 1
        agreed = 0
        while agreed < ahead and guesses[agreed + 1] == best[agreed]:
            agreed += 1
        if agreed == ahead:  # the draft has not read its last guess
            draft(torch.tensor([guesses[-1:]]), positions_of(at + ahead, 1), guesses_cache)
        tokens += best[: agreed + 1]  # what was guessed beyond is written over
    return tokens[:count], calls


@torch.no_grad()
def search(model, prompt, count, beams=4):
    """The likeliest continuation that a beam search finds: (tokens, the logarithm of its probability)."""
    cache = StaticCache(model.config, beams)
    start = torch.tensor([prompt] * beams)
    positions = positions_of(0, len(prompt)).expand(beams, -1)
    scores = model(start, positions, cache)[:, -1].log_softmax(-1)
    totals, tokens = scores[0].topk(beams)
    texts = tokens[:, None]
    for i in range(count - 1):
        positions = positions_of(len(prompt) + i, 1).expand(beams, -1)
        scores = model(texts[:, -1:], positions, cache)[:, -1].log_softmax(-1)
        totals, places = (totals[:, None] + scores).flatten().topk(beams)
        rows = places // scores.shape[-1]
        cache.reorder(rows)
        texts = torch.cat([texts[rows], (places % scores.shape[-1])[:, None]], 1)
    return texts[0].tolist(), totals[0].item()


# --- continuous batching --------------------------------------------------------------------


@dataclasses.dataclass
class Request:
    """A prompt, how many tokens are wanted, and those there are."""

    prompt: list[int]
    count: int
    tokens: list[int] = dataclasses.field(default_factory=list)
    pages: list[int] = dataclasses.field(default_factory=list)
    row: int = -1

    @property
    def is_done(self):
        return len(self.tokens) >= self.count


class Engine:
    """Generates for many requests: each step all rows of a batch get a token, and rows that are done go to others.

    A request is let in when there are pages for its prompt. One that needs a page when there are none gives its pages back and
    waits again; it is continued from what it has said.
    """

    def __init__(self, model, rows=8, pages=64, page=8, compiled=True):
        self.model = model
        self.cache = PagedCache(model.config, rows, pages, page)
        self.free_pages, self.free_rows = list(range(pages - 1, 0, -1)), list(range(rows - 1, -1, -1))
        self.waiting: collections.deque[Request] = collections.deque()
        self.running: list[Request] = []
        self.steps = 0

        @torch.no_grad()
        def decode(tokens, positions):
            return model(tokens, positions, self.cache)[:, -1].argmax(-1)

        self.decode = torch.compile(decode, mode="reduce-overhead") if compiled else decode
        self.rows = rows

    def submit(self, prompt, count):
        """A request, whose tokens come with further steps.

        Raises:
            ValueError: it is longer than the model or the cache can be.
        """
        most = min(self.model.config.longest, (len(self.cache.keys[0]) - 1) * self.cache.page)
        if not prompt or len(prompt) + count > most:
            raise ValueError(f"{len(prompt)} and {count} tokens, of 1 to {most} in all")
        self.waiting.append(Request(list(prompt), count))
        return self.waiting[-1]

    def step(self):
        """Lets requests in and gives all that run a token."""
        while self.waiting and self.free_rows and self._admit(self.waiting[0]):
            self.waiting.popleft()
        for request in list(self.running):
            if request in self.running and not self._has_room(request):
                self._release(request)
                self.waiting.appendleft(request)
        if not self.running:
            return
        tokens, positions = [[0]] * self.rows, [[-1]] * self.rows
        for r in self.running:
            tokens[r.row] = [r.tokens[-1]]
            positions[r.row] = [len(r.prompt) + len(r.tokens) - 1]
        found = self.decode(torch.tensor(tokens), torch.tensor(positions)).tolist()
        self.steps += 1
        for request in list(self.running):
            request.tokens.append(found[request.row])
            if request.is_done:
                self._release(request)

    def run(self):
        """Makes steps until all requests are done."""
        while self.waiting or self.running:
            self.step()

    def _admit(self, request):
        text = request.prompt + request.tokens
        count = -(-(len(text) + 1) // self.cache.page)
        if len(self.free_pages) < count:
            return False
        request.row = self.free_rows.pop()
        self._give(request, count)
        self.running.append(request)
        # Lengths are filled up to powers of two, so that few sizes come.
        size = 1 << (len(text) - 1).bit_length()
        positions = [*range(len(text)), *[-1] * (size - len(text))]
        tokens = torch.tensor([text + [0] * (size - len(text))])
        with torch.no_grad():
            logits = self.model(tokens, torch.tensor([positions]), self.cache.row(request.row))
        request.tokens.append(int(logits[0, len(text) - 1].argmax()))
        if request.is_done:
            self._release(request)
        return True

    def _has_room(self, request):
        needed = (len(request.prompt) + len(request.tokens) - 1) // self.cache.page + 1
        if needed > len(request.pages):
            if not self.free_pages:
                return False
            self._give(request, 1)
        return True

    def _give(self, request, count):
        for _ in range(count):
            self.cache.table[request.row, len(request.pages)] = self.free_pages[-1]
            request.pages.append(self.free_pages.pop())

    def _release(self, request):
        self.cache.table[request.row] = 0
        self.free_pages += request.pages
        self.free_rows.append(request.row)
        self.running.remove(request)
        request.pages, request.row = [], -1


# --- the demonstration ----------------------------------------------------------------------


def prompts(count, config):
    return [torch.randint(1, config.vocabulary, (3 + 5 * i % 17,)).tolist() for i in range(count)]


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=24)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = Config()
    model, draft = GPT(config).eval(), GPT(dataclasses.replace(config, depth=1)).eval()
    draft.load_state_dict(model.state_dict(), strict=False)  # guesses with the first block
    texts, count = prompts(options.requests, config), options.tokens
    expected = [generate(model, GrowingCache(config), text, count) for text in texts]
    for kind in (StaticCache, QuantizedCache):
        cache = kind(config)
        step = make_step(model, cache, True)
        same = sum(generate(model, cache, t, count, step) == e for t, e in zip(texts, expected))
        print(f"{kind.__name__}: {same} of {len(texts)} texts are those of the growing cache")
    print(f"the last 16 positions: {generate(model, SlidingCache(config), texts[0], 8)}")
    found, calls = speculate(model, draft, texts[0], count)
    print(f"speculative: {'the same' if found == expected[0] else 'another'} text, {count} tokens in {calls} calls")
    print(f"beams: {search(model, texts[0], 8)}")
    for rows in (1, 8):
        engine = Engine(model, rows)
        engine.submit(texts[0], 2)
        engine.run()  # compiles
        start = time.perf_counter()
        requests = [engine.submit(text, count) for text in texts]
        engine.run()
        took = time.perf_counter() - start
        same = sum(r.tokens == e for r, e in zip(requests, expected))
        print(f"engine, {rows} at once: {same} of {len(texts)} texts the same, {engine.steps} steps, "
              f"{len(texts) * count / took:.0f} tokens a second")


if __name__ == "__main__":
    main()
