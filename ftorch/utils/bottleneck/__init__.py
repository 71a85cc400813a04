"""Where a script's time goes (``torch.utils.bottleneck``): ``python -m ftorch.utils.bottleneck script.py``.

Beside the calls, it tells what was compiled and how often, which is what makes a program slow here.
"""

from __future__ import annotations

import collections
import os
import platform
import sys

import jax

from ..._toplevel.startup import cache_folder
from ...eager.runtime.counters import stats
from ...version import ftorch_version


def _section(title: str, lines) -> str:
    rule = "-" * 80
    return "\n".join([rule, f"  {title}", rule, *lines])


def summary(profile, row_limit: int = 15) -> str:
    """The report of a profile: the environment, compilations, programs and the slowest calls.

    Args:
        profile: a `ftorch.profiler.profile` that has ended.

    >>> import ftorch as torch
    >>> from ftorch.utils.bottleneck import summary
    >>> with torch.profiler.profile() as p:
    ...     y = (torch.ones(3) * 2).tolist()
    >>> print(summary(p).splitlines()[1].strip())
    Environment Summary
    """
    events = profile.events()
    compiled = profile.compilations()
    programs = [e for e in events if e.category == "program"]
    seconds = sum(e.cpu_time_total for e in compiled) / 1e6
    times: dict[str, list[float]] = collections.defaultdict(list)
    for e in compiled:
        times[e.args.get("function") or "(unnamed)"].append(e.cpu_time_total / 1e3)
    slowest = sorted(times.items(), key=lambda item: -sum(item[1]))[:row_limit]
    ops = sum(e.args["count"] for e in programs)
    lines = [
        f"compilations: {len(compiled)}, {seconds:.3f} s",
        f"programs run: {len(programs)}, of {ops} ops "
        f"({ops / len(programs) if programs else 0:.1f} ops each)",
        f"executor: {stats}",
        *(f"  {sum(t):10.1f} ms  {len(t):4d} x  {name}" for name, t in slowest),
    ]
    if programs and len(compiled) > len(programs) / 2 > 4:
        lines.append(
            "Most programs were compiled when they ran: shapes or the course of the script differ from "
            "step to step. Keep shapes constant, or set JAX_COMPILATION_CACHE_DIR to keep programs."
        )
    environment = [
        f"ftorch {ftorch_version}, jax {jax.__version__}, Python {platform.python_version()}",
        f"{jax.default_backend()}, {len(jax.devices())} device(s), {os.cpu_count()} processors",
        f"compilation cache: {cache_folder() or 'none'}",
    ]
    table = profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=row_limit)
    return "\n".join([
        _section("Environment Summary", environment), _section("Compilations and programs", lines),
        _section("autograd profiler output", [f"top {row_limit} events sorted by self_cpu_time_total",
                                              "", table]),
    ])


def main(argv=None) -> None:
    """Runs a script in a profile and prints the report."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: python -m ftorch.utils.bottleneck script.py [arguments]")
        return
    import runpy

    from ...profiler import profile

    sys.argv = list(argv)
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
    with profile() as p:
        runpy.run_path(argv[0], run_name="__main__")
    print(summary(p))


__all__ = ["main", "summary"]
