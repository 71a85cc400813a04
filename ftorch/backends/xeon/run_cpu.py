"""``python -m torch.backends.xeon.run_cpu script.py``: runs a script in one or several processes on their own cores.

Each instance gets its share of the cores this process may use (``taskset``'s mask) and as many threads. What
PyTorch's launcher says about memory allocators and OpenMP libraries is taken and has no effect: XLA brings its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

__all__ = ["create_args", "main"]


def create_args(parser=None):
    """Adds the arguments to a parser."""
    parser.add_argument("--ninstances", type=int, default=1)
    parser.add_argument("--ncores-per-instance", "--ncores_per_instance", type=int, default=0)
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("-m", "--module", action="store_true", default=False)
    parser.add_argument("--no-python", "--no_python", action="store_true", default=False)
    parser.add_argument("--log-path", "--log_path", default="")
    for name in (
        "--latency-mode", "--throughput-mode", "--multi-instance", "--use-logical-core", "--skip-cross-node-cores",
        "--disable-numactl", "--disable-taskset", "--disable-iomp", "--enable-tcmalloc", "--enable-jemalloc",
        "--use-default-allocator",
    ):
        parser.add_argument(name, name.replace("-", "_").replace("__", "--", 1), action="store_true")
    parser.add_argument("program")
    parser.add_argument("program_args", nargs=argparse.REMAINDER)


def _command(args):
    if args.no_python:
        return [args.program, *args.program_args]
    return [sys.executable, "-u", *(["-m"] if args.module else []), args.program, *args.program_args]


def main(args) -> None:
    """Runs the instances and waits. Raises SystemExit with the first status that is not 0."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    instances = max(args.ninstances, 1)
    each = args.ncores_per_instance or max(len(cores) // instances, 1)
    running = []
    for rank in range(instances):
        if args.rank not in (-1, rank):
            continue
        mine = cores[rank * each : (rank + 1) * each] or cores
        environ = os.environ | {"OMP_NUM_THREADS": str(len(mine))}

        def pin(mine=mine):
            os.sched_setaffinity(0, mine)

        running.append(subprocess.Popen(_command(args), env=environ, preexec_fn=pin))
    codes = [process.wait() for process in running]
    for code in codes:
        if code:
            raise SystemExit(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    create_args(parser)
    main(parser.parse_args())
