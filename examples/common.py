"""What the training recipes share: data, the command line, and running a recipe in another library.

A recipe is a file with a function ``trainer`` that builds its model and gives a function which takes
one optimizer step and returns the loss, and one that describes what was learnt.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
import types
from pydoc_data.topics import topics

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

RECIPES = (
    "mlp", "cnn", "resnet", "lstm", "gpt", "vit", "vae", "gan", "dqn", "graph",
)


def digits(torch):
    """1797 real 8x8 digits of values 0 to 1: ``(images, labels)`` to train on, and to test on."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=0.25, stratify=labels, random_state=0)
    train_x, test_x = (torch.tensor(p, dtype=torch.get_default_dtype()).view(-1, 1, 8, 8) for p in parts[:2])
    train_y, test_y = (torch.tensor(p) for p in parts[2:])
    return (train_x, train_y), (test_x, test_y)


def text(torch, length=200_000):
    """Python's own reference as ``(codes, characters)``: ``characters[codes[i]]`` is the i-th."""
    characters = "".join(topics[name] for name in sorted(topics))[:length]
    known = sorted(set(characters))
    code = {c: i for i, c in enumerate(known)}
    return torch.tensor([code[c] for c in characters]), known


def minibatch(torch, data, size):
    """Rows drawn at random, the same of each tensor."""
    rows = torch.randint(0, len(data[0]), (size,))
    return tuple(t[rows] for t in data)


def accuracy(torch, model, data):
    """``test accuracy: 97.11%`` of a classifier."""
    x, y = data
    model.eval()
    with torch.no_grad():
        share = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return f"test accuracy: {share:.2%}"


def learn(step, report, doc, steps, rank=0):
    """The command line of a recipe for several processes: the first one shows progress and prints what was learnt.

    Args:
        step: takes a number and gives the loss (every process calls it). ``report`` tells what was learnt.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    options = parser.parse_args()
    loss = None
    for i in tqdm(range(options.steps), desc="training", disable=options.no_progress or rank > 0):
        loss = step(i)
    said = report()
    if rank == 0:
        print(f"loss of the last step: {float(loss):.5f}")
        print(said)


def main(torch, trainer, steps, doc):
    """The command line of a recipe: trains with a progress bar and prints what was learnt."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    options = parser.parse_args()
    torch.manual_seed(0)
    step, report = trainer()
    start = time.perf_counter()
    bar = tqdm(range(options.steps), desc="training", disable=options.no_progress)
    for i in bar:
        loss = step()
        if i % 20 == 0 or i == options.steps - 1:
            bar.set_postfix(loss=f"{loss.item():.4f}")
    print(f"{options.steps} steps in {time.perf_counter() - start:.1f} s")
    print(report())


def load(name, library="ftorch"):
    """The recipe's module with ``import ftorch`` replaced by the import of another library."""
    importlib.import_module(library)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    with open(path, encoding="utf-8") as file:
        source = file.read().replace("import ftorch", f"import {library}")
    module = types.ModuleType(f"{name}_in_{library}")
    source = source.replace("from ftorch", f"from {library}").replace("from common", f"from {__name__}")
    exec(compile(source, path, "exec"), module.__dict__)
    return module
