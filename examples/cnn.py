"""A convolutional network with batch normalisation on handwritten digits.

    python examples/cnn.py
"""

from common import accuracy, digits, main, minibatch

import ftorch as torch
from ftorch import nn
from ftorch.nn import functional as F


class CNN(nn.Module):
    """Three convolutions, each normalised over the batch."""

    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            *self.block(1, width), nn.MaxPool2d(2), *self.block(width, 2 * width), nn.MaxPool2d(2),
            *self.block(2 * width, 2 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.head = nn.Linear(2 * width, 10)

    @staticmethod
    def block(inputs, outputs):
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return convolution, nn.BatchNorm2d(outputs), nn.ReLU()

    def forward(self, x):
        return self.head(self.features(x))


def trainer(width=16, batch=64):
    train, test = digits(torch)
    model = CNN(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 200, 0.3)

    def step():
        x, y = minibatch(torch, train, batch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach()

    return step, lambda: accuracy(torch, model, test)


if __name__ == "__main__":
    main(torch, trainer, 400, __doc__)
