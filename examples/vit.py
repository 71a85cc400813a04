"""A vision transformer on handwritten digits, with ``nn.TransformerEncoder``.

    python examples/vit.py
"""

from common import accuracy, digits, main, minibatch

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


class ViT(nn.Module):
    """Patches of 2x2 pixels and a class token through a transformer."""

    def __init__(self, width, heads, depth):
        super().__init__()
        self.patches = nn.Linear(4, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x):
        x = self.patches(F.pixel_unshuffle(x, 2).flatten(2).transpose(1, 2))
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def trainer(width=64, heads=4, depth=2, batch=64):
    train, test = digits(torch)
    model = ViT(width, heads, depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

    def step():
        x, y = minibatch(torch, train, batch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: accuracy(torch, model, test)


if __name__ == "__main__":
    main(torch, trainer, 500, __doc__)
