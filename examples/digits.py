"""Handwritten digits: a first program, from training to a compiled step.

    python examples/digits.py

Trains a small convolutional network on scikit-learn's 1797 real 8x8 digits, saves and reloads a
checkpoint, takes per-sample gradients with ``vmap(grad(...))`` and compiles inference and training.
It is ordinary PyTorch: ``import torch`` in place of the first import runs it there.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import ftorch as torch
from ftorch import nn
from ftorch.func import functional_call, grad, vmap
from ftorch.nn import functional as F
from ftorch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def digits():
    """Images (n, 1, 8, 8) of values 0 to 1 and their labels: the training and the test set."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images, labels, test_size=0.25, stratify=labels, random_state=0)
    train_x, test_x = (torch.tensor(p / 16, dtype=torch.float32).view(-1, 1, 8, 8) for p in parts[:2])
    train_y, test_y = (torch.tensor(p) for p in parts[2:])
    return TensorDataset(train_x, train_y), TensorDataset(test_x, test_y)


def train(model, data, epochs, progress):
    """Trains eagerly with Adam and a cosine schedule."""
    loader = DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    bar = tqdm(range(epochs), desc="training", disable=not progress)
    for _ in bar:
        total = torch.zeros(())
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        scheduler.step()
        bar.set_postfix(loss=f"{total.item() / len(loader):.4f}")
    return optimizer


@torch.no_grad()
def accuracy(model, data):
    """The share of digits that the model gets right."""
    model.eval()
    x, y = data.tensors
    return (model(x).argmax(1) == y).float().mean().item()


def reload(model, optimizer):
    """Saves model and optimizer to a ``.pt`` file and gives a new model loaded from it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "digits.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        checkpoint = torch.load(path)
    restored = Net()
    restored.load_state_dict(checkpoint["model"])
    torch.optim.Adam(restored.parameters()).load_state_dict(checkpoint["optimizer"])
    return restored


def per_sample_gradients(model, x, y):
    """The largest difference between ``vmap(grad(...))`` and a loop over the samples."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, x, y):
        logits = functional_call(model, parameters, (x.unsqueeze(0),))
        return F.cross_entropy(logits, y.unsqueeze(0))

    together = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    difference = 0.0
    for i in range(len(x)):
        model.zero_grad()
        F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        for name, p in model.named_parameters():
            difference = max(difference, (together[name][i] - p.grad).abs().max().item())
    return difference


def milliseconds(functions, repeats=60):
    """The median time of a call of each function, taken in turns after warming up."""
    times = [[] for _ in functions]
    for round in range(repeats + 5):
        for function, own in zip(functions, times):
            start = time.perf_counter()
            function()
            if round >= 5:
                own.append(time.perf_counter() - start)
    return [sorted(own)[repeats // 2] * 1e3 for own in times]


def speed_ups(model, x, y):
    """(name, eager ms, compiled ms) of inference and of a whole training step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def infer(x):
        with torch.no_grad():
            return model(x).argmax(1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    rows = []
    for name, function, arguments in ("inference", infer, (x,)), ("training step", step, (x, y)):
        compiled = torch.compile(function)
        calls = [lambda f=f, a=arguments: f(*a).sum().item() for f in (function, compiled)]
        rows.append((name, *milliseconds(calls)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    options = parser.parse_args()

    torch.manual_seed(0)
    train_set, test_set = digits()
    model = Net()
    start = time.perf_counter()
    optimizer = train(model, train_set, options.epochs, not options.no_progress)
    print(f"trained {options.epochs} epochs in {time.perf_counter() - start:.1f} s")

    score = accuracy(model, test_set)
    print(f"test accuracy: {score:.2%}")

    restored = reload(model, optimizer)
    assert accuracy(restored, test_set) == score
    print("checkpoint: reloaded, the same accuracy")

    x, y = (t[:32] for t in test_set.tensors)
    difference = per_sample_gradients(model, x, y)
    print(f"per-sample gradients: vmap(grad) and a loop differ by at most {difference:.1e}")
    assert difference < 1e-4

    model.train()
    x, y = (t[:64] for t in train_set.tensors)
    for name, eager_ms, compiled_ms in speed_ups(model, x, y):
        print(f"{name}: eager {eager_ms:.2f} ms, compiled {compiled_ms:.2f} ms, "
              f"{eager_ms / compiled_ms:.2f} times as fast")
    if score < 0.97:
        raise SystemExit("the accuracy is below 97 %")


if __name__ == "__main__":
    main()
