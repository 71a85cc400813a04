"""A small GPT on characters: causal attention, weight decay groups, warm-up and cosine decay.

    python examples/gpt.py
"""

import math

from common import main, text

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        split = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        q, k, v = split.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a perceptron, each normalised before and added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A stack of blocks; the embedding of the characters is also the last layer."""

    def __init__(self, characters, context, width, heads, depth):
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(characters, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        self.head.weight = self.tokens.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, codes):
        x = self.tokens(codes) + self.positions(torch.arange(codes.shape[1]))
        return self.head(self.norm(self.blocks(x)))


@torch.no_grad()
def sample(model, characters, start, length=120):
    """Text that begins with ``start``, the next characters drawn from the model."""
    codes = torch.tensor([[characters.index(c) for c in start]])
    for _ in range(length):
        # The context is filled up on the right, which a causal model does not see: one shape.
        seen = codes[:, -model.context :]
        filled = F.pad(seen, (0, model.context - seen.shape[1]))
        logits = model(filled)[:, seen.shape[1] - 1]
        codes = torch.cat([codes, torch.multinomial(logits.softmax(-1), 1)], 1)
    return repr("".join(characters[i] for i in codes[0].tolist()))


def trainer(width=64, heads=4, depth=2, context=64, batch=16, steps=500):
    codes, characters = text(torch)
    model = GPT(len(characters), context, width, heads, depth)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=2e-3
    )

    def rate(i):
        return min(1, (i + 1) / 20) * 0.5 * (1 + math.cos(math.pi * min(1, i / steps)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    offsets = torch.arange(context + 1)

    def step():
        starts = torch.randint(0, len(codes) - context, (batch, 1))
        part = codes[starts + offsets]
        optimizer.zero_grad(set_to_none=True)
        logits = model(part[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.detach()

    return step, lambda: sample(model, characters, "The ")


if __name__ == "__main__":
    main(torch, trainer, 500, __doc__)
