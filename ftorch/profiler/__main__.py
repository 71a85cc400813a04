"""``python -m ftorch.profiler trace script.py ...``: runs a script and writes its timeline as a page of HTML.

The page shows, for each thread, XLA's thunks, this package's kernels, compilations and the parts that the script names
with `torch.profiler.record_function`. ``import torch`` in the script is ftorch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str]) -> int | None:
    """Runs the command; gives the script's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m ftorch.profiler", description=__doc__.partition("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    trace = commands.add_parser("trace", help="run a script and write its timeline")
    trace.add_argument(
        "-o", "--output", type=Path, default=Path("timeline.html"), help="the page (timeline.html)"
    )
    trace.add_argument(
        "--details", action="store_true", help="XLA's own doings between the thunks, too"
    )
    trace.add_argument(
        "--rows", type=int, default=12, help="rows of the table that is printed (12)"
    )
    trace.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        help="script.py, -m module or -c code, and its arguments",
    )
    options = parser.parse_args(arguments)
    if not options.script:
        trace.error("which script?")
    from ..__main__ import main as run
    from ._timeline import page, recording, totals

    spans: list = []
    title = " ".join(options.script)
    status: int | None = None
    try:
        with recording(spans, options.details):
            status = run(options.script)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    options.output.write_text(page(spans, title))
    for kind, name, count, microseconds in totals(spans)[: options.rows]:
        print(f"{microseconds / 1e3:10.2f} ms {count:6} x  {kind:10} {name[:80]}", file=sys.stderr)
    print(
        f"{len(spans)} spans of {len({s.thread for s in spans})} threads: {options.output}",
        file=sys.stderr,
    )
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
