"""A multilayer perceptron with dropout on handwritten digits.

    python examples/mlp.py
"""

from common import accuracy, digits, main, minibatch

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


class MLP(nn.Module):
    """Two hidden layers."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10),
        )

    def forward(self, x):
        return self.layers(x)


def trainer(width=256, batch=64):
    train, test = digits(torch)
    model = MLP(width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        x, y = minibatch(torch, train, batch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: accuracy(torch, model, test)


if __name__ == "__main__":
    main(torch, trainer, 600, __doc__)
