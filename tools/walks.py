"""Counts what five walks through the code pass: files of the package, and moves from one file to another.

Run as::

    python tools/walks.py [FOLDER]
    FTORCH_NATIVE=0 python tools/walks.py --draw docs/images

of the package in FOLDER, by default the one beside this file. Each walk is made warm, then once while Python tells of every
function that is entered and left. A *file* counts where one of its functions runs, a *move* where the next function that is
entered, or gone back to, stands in another file of the package. What runs in C takes no part: with ``FTORCH_NATIVE=0`` and
without `FTORCH_EXECUTOR` as in eager calls Python does it. ``--draw`` writes a picture of each walk, ``walk_*.svg``: a line
for each file, and the way from one to another from left to right (needs matplotlib). ``--files`` prints the files as JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from pathlib import Path

WARM = 40  # calls before the one that is looked at


class Walk:
    """What is entered and left while a function runs."""

    def __init__(self, package: str):
        self.package = package
        self.files: dict[str, int] = {}
        self.way: list[str] = []  # where it was, move after move
        self.calls = 0

    @property
    def moves(self) -> int:
        """How often it went from one file to another."""
        return max(len(self.way) - 1, 0)

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
        if self.way[-1:] != [file]:
            self.way.append(file)


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


def taken(torch, package: str) -> dict[str, Walk]:
    """What each walk passes."""
    found = {}
    for name, (run, prepare) in walks(torch).items():
        for _ in range(WARM if "first" not in name else 3):
            run(prepare())
        prepared, found[name] = prepare(), Walk(package)
        sys.setprofile(found[name])
        try:
            run(prepared)
        finally:
            sys.setprofile(None)
    return found


PICTURES = {
    "`x + y`": "walk_addition.svg",
    "`loss.backward()`": "walk_backward.svg",
    "`torch.compile(f)(x)`, first": "walk_compile.svg",
    "`torch.save(state_dict)`": "walk_save.svg",
    "`vmap(grad(sin))(x)`": "walk_vmap.svg",
}


def draw(walk: Walk, name: str, path: Path) -> None:
    """A picture of a walk: its files from above to below as they come, its moves from left to right."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "ftorch"  # the same file for the same walk
    plt.rcParams["svg.fonttype"] = "none"  # letters as text, not as outlines
    rows = {file: row for row, file in enumerate(dict.fromkeys(walk.way))}
    figure, axes = plt.subplots(figsize=(9, 0.9 + 0.19 * len(rows)), layout="constrained")
    ways = [rows[file] for file in walk.way]
    axes.step(range(len(ways)), ways, where="post", linewidth=0.8, color="#4063b0")
    axes.plot(range(len(ways)), ways, ".", markersize=3.5, color="#4063b0")
    axes.set_yticks(range(len(rows)), [file.removeprefix(walk.package) for file in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", linewidth=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(f"moves ({walk.moves})", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(f"{name.replace('`', '')}: {len(rows)} files", fontsize=9, loc="left")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text().splitlines()))


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).resolve().parent.parent))
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="write pictures of the walks there")
    parser.add_argument("--files", action="store_true", help="print the files of each walk as JSON")
    options = parser.parse_args(arguments)
    folder = os.path.abspath(options.folder)
    sys.path.insert(0, folder)
    import ftorch as torch

    package = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")
    found = taken(torch, package)
    if options.files:
        print(json.dumps({name: [file.removeprefix(package) for file in walk.files] for name, walk in found.items()}))
        return
    for name, picture in PICTURES.items() if options.draw else ():
        draw(found[name], name, options.draw / picture)
    print("| walk | files | moves | calls |\n|---|---|---|---|")
    for name, walk in found.items():
        print(f"| {name} | {len(walk.files)} | {walk.moves} | {walk.calls} |")


if __name__ == "__main__":
    main()
