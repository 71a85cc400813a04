"""Counts what five walks through the code pass: files of the package, and moves from one file to another.

Run as::

    python tools/walks.py [FOLDER]

of the package in FOLDER, by default the one beside this file. Each walk is made warm, then once while Python tells of every
function that is entered and left. A *file* counts where one of its functions runs, a *move* where the next function that is
entered, or gone back to, stands in another file of the package. What runs in C takes no part: with ``FTORCH_NATIVE=0`` and
without `FTORCH_EXECUTOR` as in eager calls Python does it.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path

WARM = 40  # calls before the one that is looked at


class Walk:
    """What is entered and left while a function runs."""

    def __init__(self, package: str):
        self.package = package
        self.files: dict[str, int] = {}
        self.moves = self.calls = 0
        self._at: str | None = None

    def __call__(self, frame, event, arg):
        if event == "call":
            self._to(frame)
            self.calls += frame.f_code.co_filename.startswith(self.package)
        elif event == "return" and frame.f_back is not None:
            self._to(frame.f_back)

    def _to(self, frame):
        file = frame.f_code.co_filename
        if not file.startswith(self.package):
            return
        self.files[file] = self.files.get(file, 0) + 1
        if self._at not in (None, file):
            self.moves += 1
        self._at = file


def walks(torch):
    """{what is done: a function that does it}, of which each is run as often as one likes."""
    x, y = torch.randn(8), torch.randn(8)
    w = torch.randn(8, requires_grad=True)
    model, compiled = torch.nn.Linear(4, 4), torch.compile(lambda a: torch.sin(a) + 1)
    mapped = torch.func.vmap(torch.func.grad(torch.sin))

    def losses():
        return (w * x).sum()

    return {
        "`x + y`": (lambda _: x + y, lambda: None),
        "`loss.backward()`": (lambda loss: loss.backward(), losses),
        "`torch.compile(f)(x)`, again": (lambda _: compiled(x), lambda: None),
        "`torch.compile(f)(x)`, first": (lambda f: f(x), lambda: torch.compile(lambda a: torch.sin(a) + 1)),
        "`torch.save(state_dict)`": (lambda _: torch.save(model.state_dict(), io.BytesIO()), lambda: None),
        "`vmap(grad(sin))(x)`": (lambda _: mapped(x), lambda: None),
    }


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).resolve().parent.parent))
    folder = os.path.abspath(parser.parse_args(arguments).folder)
    sys.path.insert(0, folder)
    import ftorch as torch

    package = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")
    print("| walk | files | moves | calls |\n|---|---|---|---|")
    for name, (run, prepare) in walks(torch).items():
        for _ in range(WARM if "first" not in name else 3):
            run(prepare())
        prepared, seen = prepare(), Walk(package)
        sys.setprofile(seen)
        try:
            run(prepared)
        finally:
            sys.setprofile(None)
        print(f"| {name} | {len(seen.files)} | {seen.moves} | {seen.calls} |")


if __name__ == "__main__":
    main()
