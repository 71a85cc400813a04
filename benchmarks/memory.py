"""Peak memory of training, against PyTorch.

    python benchmarks/memory.py [--steps 6] [--cases NAME ...]

Each case runs in processes of its own, one after another. A process's peak is the largest resident size that the
system has counted (VmHWM); what it had when the library and its first program were loaded is shown, too, and both
ratios: of the peaks, and of what came on top. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile

from programs import PROGRAMS

DEFAULT = (
    "mlp", "mlp wide", "mlp deep", "gpt small", "gpt medium", "resnet small", "resnet medium", "blocks", "checkpoint",
    "save_on_cpu", *(name for name in PROGRAMS if name.startswith("recipe")),
)


def resident(field):
    """Bytes of this process: ``VmHWM`` (the most it ever had), ``VmRSS`` (now)."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field + ":"))
    return int(line.split()[1]) << 10


def child(library, case, steps):
    """What is measured; prints the bytes at the start, the most, and the loss."""
    lib = importlib.import_module(library)
    importlib.import_module(f"{library}.optim")
    x = lib.ones(4, 4, requires_grad=True)
    (x @ x).sum().backward()
    assert x.grad is not None
    x.grad.sum().item()
    before = resident("VmRSS")
    step = PROGRAMS[case](lib)
    for _ in range(steps):
        loss = step()
        loss = loss.item() if hasattr(loss, "item") else loss
    print("measured", before, resident("VmHWM"), loss, flush=True)


def measure(library, case, steps, cache):
    """(bytes at the start, at most, the last loss)."""
    environment = {**os.environ, "FTORCH_CACHE_DIR": cache}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    found = subprocess.run(
        [sys.executable, __file__, "--steps", str(steps), "--child", library, case],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )
    line = next(line for line in found.stdout.splitlines() if line.startswith("measured "))
    _, before, most, loss = line.split()
    return int(before), int(most), float(loss)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--cases", nargs="+", default=DEFAULT, choices=PROGRAMS, metavar="NAME")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.steps)
        return
    print(f"{'MB':16}{'ftorch':>9}{'PyTorch':>9}{'ratio':>7}{'on top':>9}{'PyTorch':>9}{'ratio':>7}")
    ratios = []
    with tempfile.TemporaryDirectory() as cache:
        for case in options.cases:
            (before, mine, loss), (other, theirs, expected) = (
                measure(library, case, options.steps, cache) for library in ("ftorch", "torch")
            )
            ratios.append(mine / theirs)
            print(
                f"{case:16}{mine / 1e6:>9.0f}{theirs / 1e6:>9.0f}{mine / theirs:>7.2f}{(mine - before) / 1e6:>9.0f}"
                f"{(theirs - other) / 1e6:>9.0f}{(mine - before) / (theirs - other):>7.2f}",
                flush=True,
            )
            if abs(loss - expected) > 2e-2 * abs(expected):
                print(f"{case}: losses differ, {loss} and {expected}", file=sys.stderr)
    print(f"{'geometric mean':34}{statistics.geometric_mean(ratios):>7.2f}")


if __name__ == "__main__":
    main()
