"""From ``python script.py`` to the end of the third training step, against PyTorch.

    python benchmarks/start.py [--rounds 5] [--cases NAME ...] [--cpu]

Each case runs in processes of its own, the libraries taking turns. "empty" is ftorch with an empty folder of
compiled programs, "warm" with the one that an earlier process has left. Seconds are medians, from before the process
starts until it has printed the third step's loss; with ``--cpu`` those of all its cores to its end, which a busy
machine changes less. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

from programs import PROGRAMS

STEPS = 3
DEFAULT = ("mlp", "gpt small", "resnet small")


def child(library, case):
    """What is measured: a training script."""
    lib = importlib.import_module(library)
    step = PROGRAMS[case](lib)
    for _ in range(STEPS):
        loss = step().item()
    print(loss, flush=True)


def _of_cores():
    used = os.times()
    return used.children_user + used.children_system


def seconds(library, case, cache, cpu=False):
    """(seconds of one process until its last line, or of the cores, and the loss)."""
    environment = {**os.environ, "FTORCH_CACHE_DIR": cache}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    start, before = time.perf_counter(), _of_cores()
    with subprocess.Popen(
        [sys.executable, __file__, "--child", library, case],
        env=environment, stdout=subprocess.PIPE, text=True,
    ) as process:
        line = process.stdout.readline()
        taken = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{library} failed on {case}")
    return _of_cores() - before if cpu else taken, float(line)


def measure(case, rounds, cpu=False):
    """{"empty", "warm", "PyTorch": median seconds}."""
    times = {"empty": [], "warm": [], "PyTorch": []}
    with tempfile.TemporaryDirectory() as warm:
        seconds("ftorch", case, warm)
        seconds("ftorch", case, warm)
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as empty:
                taken, mine = seconds("ftorch", case, empty, cpu)
            times["empty"].append(taken)
            times["warm"].append(seconds("ftorch", case, warm, cpu)[0])
            taken, theirs = seconds("torch", case, warm, cpu)
            times["PyTorch"].append(taken)
            if abs(mine - theirs) > 1e-2 * abs(theirs):
                print(f"{case}: losses differ, {mine} and {theirs}", file=sys.stderr)
    return {name: statistics.median(own) for name, own in times.items()}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", default=DEFAULT, choices=PROGRAMS, metavar="NAME")
    parser.add_argument("--cpu", action="store_true", help="seconds of cores")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    print(f"{'':16}{'PyTorch':>10}{'warm':>10}{'ratio':>7}{'empty':>10}{'ratio':>7}")
    for case in options.cases:
        found = measure(case, options.rounds, options.cpu)
        theirs = found["PyTorch"]
        print(
            f"{case:16}{theirs:>8.2f} s{found['warm']:>8.2f} s{found['warm'] / theirs:>7.2f}"
            f"{found['empty']:>8.2f} s{found['empty'] / theirs:>7.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
