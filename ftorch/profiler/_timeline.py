"""A program's timeline as a page: what XLA's thunks, kernels, compilations and the user's parts took, by thread.

The spans are those of JAX's own profiler (`jax.profiler.ProfileData`), and, while `recording` is on, those of the
engine's: traces that run (``ftorch::program``) and kernels that are called without XLA.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import jax

from ..eager.core.places import own_file
from ..eager.native import numpy_calls
from ..eager.native.contexts import contextmanager
from ..eager.runtime import executor, program

PAGE = Path(own_file("profiler/timeline.html"))
KINDS = ("thunk", "kernel", "program", "compile", "runtime", "annotation")


# JAX's names of what it does with a program that it has not got yet.
_COMPILING = ("trace_to_jaxpr", "lower_", "backend_compile")


class Span(NamedTuple):
    """One stretch of time of a thread.

    Attributes:
        thread: its name, ``python`` for the main one.
        kind: one of `KINDS`: a step of an XLA program; a kernel of this package called without XLA; a trace that
            runs; a compilation's part in Python's thread; XLA's and JAX's own doings; a part that the user named.
        start, duration: microseconds.
        module: the XLA program that a thunk belongs to.
    """

    thread: str
    kind: str
    name: str
    start: float
    duration: float
    module: str = ""


@contextmanager
def recording(spans: list[Span], details: bool = False):
    """What runs inside is appended to ``spans`` when it is over, sorted by thread and start.

    Args:
        details: XLA's own doings, too, not only thunks, kernels, compilations and named parts.

    >>> import ftorch as torch
    >>> from ftorch.profiler._timeline import recording
    >>> spans = []
    >>> with recording(spans):
    ...     y = (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item()
    >>> "ftorch::program" in {span.name for span in spans}
    True
    """
    folder = tempfile.mkdtemp(prefix="ftorch-timeline-")
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 2
    executor.flush()
    saved = program.execute, numpy_calls.call
    program.execute = _named(program.execute, "program", lambda *_: "ftorch::program")
    numpy_calls.call = _named(numpy_calls.call, "kernel", lambda name, *_: name)
    jax.profiler.start_trace(folder, profiler_options=options)
    try:
        yield spans
        executor.flush()
    finally:
        program.execute, numpy_calls.call = saved
        jax.profiler.stop_trace()
        spans += read(folder, details)
        shutil.rmtree(folder, ignore_errors=True)


def _named(function, kind, name):
    """The function, its calls annotated for the trace: kinds are told to `_span` as metadata."""

    @functools.wraps(function)
    def named(*args):
        with jax.profiler.TraceAnnotation(name(*args), ftorch=kind):
            return function(*args)

    return named


def read(folder, details: bool = False) -> list[Span]:
    """The spans of the traces that JAX wrote below a folder."""
    found: list[Span] = []
    for path in Path(folder).rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
            for number, line in enumerate(plane.lines):
                thread = _thread(line.name, number)
                found += (
                    span
                    for event in line.events
                    if (span := _span(thread, event, details)) is not None
                )
    return sorted(
        found, key=lambda span: (span.thread != "python", span.thread, span.start, -span.duration)
    )


def _thread(name, number):
    pool, _, _ = name.partition("/")
    return name if pool == "python" or not pool else f"{pool.removeprefix('tf_')} {number}"


def _span(thread, event, details):
    name, duration = event.name, event.duration_ns / 1e3
    if duration <= 0 or name.startswith("end: "):
        return None
    stats = dict(event.stats)
    if "hlo_op" in stats:
        kind = "thunk"
    elif "ftorch" in stats:
        kind = str(stats["ftorch"])
    elif thread == "python" and name.startswith(_COMPILING):
        kind = "compile"
    else:
        kind = "runtime"
    if kind == "runtime" and not details:
        return None
    return Span(
        thread, kind, name, event.start_ns / 1e3, duration, str(stats.get("hlo_module", ""))
    )


def totals(spans: list[Span]) -> list[tuple[str, str, int, float]]:
    """[(kind, name, how often, microseconds in all)], the longest first; numbers behind names are left out."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for span in spans:
        name, dot, number = span.name.rpartition(".")
        found[span.kind, name if dot and number.isdigit() else span.name].append(span.duration)
    rows = [(kind, name, len(times), sum(times)) for (kind, name), times in found.items()]
    return sorted(rows, key=lambda row: -row[3])


def page(spans: list[Span], title: str) -> str:
    """A page of HTML that needs nothing else: the spans by thread, to look into with the mouse, and the totals."""
    begin = min((span.start for span in spans), default=0.0)
    threads = list(dict.fromkeys(span.thread for span in spans))
    names = list(dict.fromkeys((span.kind, span.name, span.module) for span in spans))
    number_of, thread_of = (
        {name: i for i, name in enumerate(names)},
        {name: i for i, name in enumerate(threads)},
    )
    data = {
        "title": title,
        "kinds": KINDS,
        "threads": threads,
        "names": [[KINDS.index(kind), name, module] for kind, name, module in names],
        "spans": [
            [
                thread_of[s.thread],
                number_of[s.kind, s.name, s.module],
                round(s.start - begin, 2),
                round(s.duration, 2),
            ]
            for s in spans
        ],
        "totals": totals(spans)[:100],
    }
    text = json.dumps(data).replace("<", "\\u003c")  # a name may not end the script
    return PAGE.read_text().replace("/*DATA*/null", text)


__all__ = ["KINDS", "Span", "page", "read", "recording", "totals"]
