"""Decoding with caches of keys and values: grown, static, sliding, paged, of int8; choosing tokens; reordered beams."""

# ruff: noqa: E501

from __future__ import annotations

_MODEL = """class Decoder(nn.Module):
    def __init__(self, heads, shared, width, bias):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.e = nn.Embedding(13, width)
        self.q, self.k, self.v = nn.Linear(width, width, bias=bias), nn.Linear(width, shared * self.size, bias=bias), nn.Linear(width, shared * self.size, bias=bias)
        self.o, self.n, self.out = nn.Linear(width, width), nn.LayerNorm(width), nn.Linear(width, 13, bias=False)
    def rotated(self, x, positions):
        half = x.shape[-1] // 2
        angles = positions[:, None] / 10.0 ** (torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)
    def parts(self, ids, positions):
        x = self.e(ids)
        split = lambda t, h: t.unflatten(-1, (h, self.size)).transpose(1, 2)
        y = self.n(x)
        return x, self.rotated(split(self.q(y), self.heads), positions), self.rotated(split(self.k(y), self.shared), positions), split(self.v(y), self.shared)
    def end(self, x, attended):
        return self.out(torch.relu(x + self.o(attended.transpose(1, 2).flatten(2))))
    def attend(self, q, k, v, mask):
        if k.shape[1] != q.shape[1]:
            k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    def forward(self, ids, cache, start):
        positions = torch.arange(start, start + ids.shape[1])
        x, q, k, v = self.parts(ids, positions)
        k, v, mask = cache.update(k, v, positions)
        return self.end(x, self.attend(q, k, v, mask))"""

_CACHES = {
    "grown": """class Cache:
    def __init__(self, b, h, n, d):
        self.k = self.v = None
    def update(self, k, v, positions):
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return self.k, self.v, torch.arange(self.k.shape[2])[None] <= positions[:, None]
    def reorder(self, index):
        self.k, self.v = self.k.index_select(0, index), self.v[index]
    def crop(self, n):
        self.k, self.v = self.k[:, :, :n], self.v[:, :, :n]""",
    "static": """class Cache:
    def __init__(self, b, h, n, d):
        self.k, self.v = torch.zeros(b, h, n, d), torch.zeros(b, h, n, d)
    def update(self, k, v, positions):
        self.k.index_copy_(2, positions, k); self.v.index_copy_(2, positions, v)
        return self.k, self.v, torch.arange(self.k.shape[2])[None] <= positions[:, None]
    def reorder(self, index):
        self.k.copy_(self.k.index_select(0, index)); self.v[:] = self.v[index]
    def crop(self, n):
        self.k[:, :, n:] = 0; self.v[:, :, n:].zero_()""",
    "written": """class Cache:
    def __init__(self, b, h, n, d):
        self.kv = torch.zeros(2, b, h, n, d)
    def update(self, k, v, positions):
        i, j = int(positions[0]), int(positions[-1]) + 1
        self.kv[0, :, :, i:j], self.kv[1][:, :, i:j] = k, v
        k, v = self.kv[:, :, :, :j].unbind(0)
        return k, v, torch.arange(j)[None] <= positions[:, None]
    def reorder(self, index):
        self.kv = self.kv[:, index]
    def crop(self, n):
        self.kv[..., n:, :].fill_(0)""",
    "sliding": """class Cache:
    window = 4
    def __init__(self, b, h, n, d):
        self.k, self.v, self.at = torch.zeros(b, h, 0, d), torch.zeros(b, h, 0, d), torch.zeros(0, dtype=torch.long)
    def update(self, k, v, positions):
        k, v, at = torch.cat([self.k, k], 2), torch.cat([self.v, v], -2), torch.cat([self.at, positions])
        mask = (at[None] <= positions[:, None]) & (at[None] > positions[:, None] - self.window)
        self.k, self.v, self.at = k[:, :, -self.window:], v[:, :, -self.window:], at[-self.window:]
        return k, v, mask
    def reorder(self, index):
        self.k, self.v = self.k[index], torch.index_select(self.v, 0, index)
    def crop(self, n):
        kept = self.at < n
        self.k, self.v, self.at = self.k[:, :, kept], self.v[:, :, kept], self.at[kept]""",
    "paged": """class Cache:
    page = 3
    def __init__(self, b, h, n, d):
        self.pages = torch.zeros(2, b * (n // 3 + 1), 3, h, d)
        self.table = torch.randperm(b * (n // 3 + 1), generator=torch.Generator().manual_seed(2)).view(b, -1)
    def update(self, k, v, positions):
        where = self.table[:, positions // self.page], (positions % self.page).expand(k.shape[0], -1)
        self.pages[0].index_put_(where, k.transpose(1, 2)); self.pages[1][where] = v.transpose(1, 2)
        k, v = (p[self.table].flatten(1, 2).transpose(1, 2) for p in self.pages)
        return k, v, torch.arange(k.shape[2])[None] <= positions[:, None]
    def reorder(self, index):
        whole = self.pages[:, self.table[index]]
        self.pages[:, self.table.flatten()] = whole.flatten(1, 2)
    def crop(self, n):
        pass""",
    "int8": """class Cache:
    def __init__(self, b, h, n, d):
        self.numbers, self.scales = torch.zeros(2, b, h, n, d, dtype=torch.int8), torch.ones(2, b, h, n, 1)
    def update(self, k, v, positions):
        for i, t in enumerate((k, v)):
            scale = t.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
            self.numbers[i].index_copy_(2, positions, (t / scale).round().clamp(-127, 127).to(torch.int8))
            self.scales[i].index_copy_(2, positions, scale)
        k, v = (self.numbers.float() * self.scales).unbind(0)
        return k, v, torch.arange(k.shape[2])[None] <= positions[:, None]
    def reorder(self, index):
        self.numbers, self.scales = self.numbers[:, index].clone(), self.scales[:, index]
    def crop(self, n):
        self.scales[..., n:, :] = 1""",
}
_CHOICES = {
    "greedy": "logits.argmax(-1, keepdim=True)", "sampled": "torch.multinomial((logits / 0.7).softmax(-1), 1)",
    "top": "torch.topk(logits, 3)[1].gather(1, torch.multinomial(torch.topk(logits, 3)[0].softmax(-1), 1))",
    "nucleus": "nucleus(logits)", "penalized": "(logits - 0.5 * F.one_hot(ids, 13).sum(1)).argmax(-1, keepdim=True)",
    "gumbel": "(logits - torch.empty_like(logits).exponential_().log()).argmax(-1, keepdim=True)",
}
_NUCLEUS = """def nucleus(logits):
    p, order = logits.softmax(-1).sort(-1, descending=True)
    p = p.masked_fill(p.cumsum(-1) - p > 0.8, 0.0)
    return order.gather(1, torch.multinomial(p / p.sum(-1, keepdim=True), 1))"""


def generation(r):
    """Prefill, then some tokens one by one, with what a server does in between."""
    heads, batch = r.choice([(2, 1), (2, 2), (4, 2), (4, 4)]), r.choice([1, 2, 3])
    mode = r.choice(["torch.no_grad()", "torch.inference_mode()", "torch.inference_mode()", "torch.enable_grad()"])
    step = r.choice(["model", "model", "compiled", "whole", "autocast"])
    prompt, count = r.choice([1, 2, 5]), r.choice([2, 4, 7])
    lines = ["import warnings; warnings.simplefilter('ignore')", "__ft = torch.__name__ == 'ftorch'", _MODEL, _CACHES[r.choice(list(_CACHES))], _NUCLEUS,
             f"model = Decoder({heads[0]}, {heads[1]}, 16, {r.random() < 0.5}).eval()",
             f"cache = Cache({batch}, {heads[1]}, 16, {16 // heads[0]})", f"ids = torch.randint(0, 13, ({batch}, {prompt}))"]
    run = {"compiled": "torch.compile(model) if __ft else model", "whole": "torch.compile(model, dynamic=True) if __ft else model"}.get(step, "model")
    lines.append(f"__run = {run}")
    inner = "            logits = __run(given, cache, start)[:, -1]"
    if step == "autocast":
        inner = "            with torch.autocast('cpu', torch.bfloat16):\n                logits = __run(given, cache, start)[:, -1]\n            logits = logits.float()"
    lines += ["def decode(ids, count, seen):", f"    with {mode}:", "        start, given = (0, ids) if not seen else (ids.shape[1] - 1, ids[:, -1:])",
              "        for _ in range(count):", inner, f"            token = {_CHOICES[r.choice(list(_CHOICES))]}",
              "            ids = torch.cat([ids, token], 1)", "            start, given = ids.shape[1] - 1, token", "    return ids, logits.detach()"]
    lines.append(f"ids, logits = decode(ids, {count}, False)")
    for _ in range(r.choice([0, 1, 2])):
        event = r.choice([f"with {mode}: cache.reorder(torch.tensor({[r.randrange(batch) for _ in range(batch)]}))",
                          "with torch.no_grad(): cache.crop(ids.shape[1] - 1)", "with torch.no_grad(): [p.mul_(0.9) for p in model.parameters()]",
                          "torch.manual_seed(5)", "model.requires_grad_(False)", f"cache = Cache({batch}, {heads[1]}, 16, {16 // heads[0]}); ids = ids[:, :1]; logits = None"])
        lines += [event, f"ids, logits = decode(ids, {r.choice([1, 3])}, {'cache = ' not in event})" if "cache = " not in event else "ids, logits = decode(ids, 3, False)"]
    lines.append("vars(cache)")
    return "\n".join(lines)
