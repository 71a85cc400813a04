"""Writes docs/performance.md and its plots from what the benchmarks print.

    python tools/performance.py [NAME ...] [--render]

Runs ``benchmarks/NAME.py`` (by default each of `BENCHMARKS`, some twenty minutes on a quiet machine), keeps the rows of
their tables in docs/performance.json, and draws the page from that file. Rows of benchmarks that are not run stay as
they are; ``--render`` runs none. Needs PyTorch and matplotlib.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE, IMAGES = ROOT / "docs/performance.json", ROOT / "docs/performance.md", ROOT / "docs/images"

# {benchmark: (what it asks, arguments)}
BENCHMARKS = {
    "eager": ("Eager calls and training steps of fixed sizes", []),
    "ops": ("Single operators", []),
    "train": ("Training steps of the recipes in `examples/`", []),
    "compiled": ("Compiled functions, against `jax.jit` of the same program", []),
    "transforms": ("Transforms, against `torch.func`", []),
    "dynamic": ("Training and inference whose sizes are new in each step", []),
    "value_reads": ("Programs that look at small values all the time", []),
    "writes": ("Writes into large tensors, and a read of what was written", ["--megabytes", "256"]),
}


def rows_of(printed: str) -> list[tuple[str, float]]:
    """[(name, ratio)] of the tables in what a benchmark printed.

    A table begins with a line that has a column ``ratio``, or ``ratios`` for one of eager calls and one of compiled ones;
    numbers end where their column's title does.
    """
    found: list[tuple[str, float]] = []
    end, kinds = None, ("",)
    for line in printed.splitlines():
        title = next((w for w in ("ratios", "ratio") if w in line.split()), None)
        if title is not None:
            end = line.index(title) + len(title)
            kinds = (", eager", ", compiled") if title == "ratios" else ("",)
        elif end is not None and not line.startswith("geometric mean"):
            numbers = line[:end].split()[-len(kinds) :]
            try:
                ratios = [float(n) for n in numbers]
            except ValueError:
                continue
            name = line.split("  ")[0].strip()
            found += [(name + kind, ratio) for kind, ratio in zip(kinds, ratios)]
    return found


def mean(ratios) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def run(name: str) -> dict:
    """Runs a benchmark; gives what the page says of it."""
    command = [sys.executable, f"benchmarks/{name}.py", *BENCHMARKS[name][1]]
    print("$", *command[1:], flush=True)
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    rows = rows_of("".join(lines))
    if not rows:
        raise SystemExit(f"no table in what {name} printed")
    return {"date": datetime.date.today().isoformat(), "rows": rows, "machine": machine()}


def machine() -> str:
    """The processor, its cores and the versions, in a line."""
    info = Path("/proc/cpuinfo")
    models = (
        [x.partition(":")[2].strip() for x in info.read_text().splitlines() if x.startswith("model name")]
        if info.exists()
        else []
    )
    cpu = models[0] if models else platform.processor() or platform.machine()
    return (
        f"{os.cpu_count()} cores ({cpu}), Python {platform.python_version()}, jax {version('jax')}, "
        f"PyTorch {version('torch').partition('+')[0]}"
    )


def bars(names, ratios, path: Path) -> None:
    """Draws ratios as bars from 1, on a logarithmic axis; shorter times are to the left."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    plt.rcParams["svg.hashsalt"] = "ftorch"  # the same file for the same numbers
    plt.rcParams["svg.fonttype"] = "none"  # letters as text, not as outlines
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.24 * len(names)), layout="constrained")
    colors = ["#2a7f62" if r <= 1 else "#c05746" for r in ratios]
    axes.barh(range(len(names)), [r - 1 for r in ratios], left=1, color=colors, height=0.7)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    low, high = min(*ratios, 0.5), max(*ratios, 2.0)
    axes.set_xlim(low / 1.3, high * 1.3)
    ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low / 1.3 <= t <= high * 1.3]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.axvline(1, color="black", linewidth=0.8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("time, in times of the other's (left of 1: faster)", fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def render(data: dict) -> None:
    """Writes the page and its plots."""
    IMAGES.mkdir(exist_ok=True)
    parts = [
        "# Performance",
        "",
        "Each number is ftorch's time in times of PyTorch's (or of plain JAX's, where it says so) in the same run, the two "
        "taking turns, the median of many: below 1 ftorch is faster. Written by `python tools/performance.py`.",
        "",
        "![Geometric mean of each benchmark](images/performance.svg)",
        "",
    ]
    shown = [name for name in BENCHMARKS if name in data]
    bars(
        [BENCHMARKS[n][0].replace("`", "") for n in shown],
        [mean([r for _, r in data[n]["rows"]]) for n in shown],
        IMAGES / "performance.svg",
    )
    for name in shown:
        what, found = BENCHMARKS[name][0], data[name]
        names, ratios = [n for n, _ in found["rows"]], [r for _, r in found["rows"]]
        image = f"performance_{name}.svg"
        bars(names, ratios, IMAGES / image)
        parts += [
            f"## {what}",
            "",
            f"`python benchmarks/{' '.join([name + '.py', *BENCHMARKS[name][1]])}`, {found['date']}, {found['machine']}: "
            f"geometric mean **{mean(ratios):.2f}**, from {min(ratios):.2f} to {max(ratios):.2f}.",
            "",
            f"![{what}](images/{image})",
            "",
        ]
    PAGE.write_text("\n".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--render", action="store_true", help="run none, draw what is kept")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}")
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    for name in () if options.render else options.names or BENCHMARKS:
        data[name] = run(name)
        DATA.write_text(json.dumps(data, indent=1) + "\n")
    render(data)


if __name__ == "__main__":
    main()
