"""What a profile collects: events, their averages and how they are printed."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


def format_time(us: float) -> str:
    """Microseconds as PyTorch prints them: ``"1.234ms"``."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    if us >= 1e3:
        return f"{us / 1e3:.3f}ms"
    return f"{us:.3f}us"


def format_memory(n: int) -> str:
    """Bytes as PyTorch prints them: ``"1.50 KB"``."""
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"


@dataclass(eq=False)
class FunctionEvent:
    """One call.

    Attributes:
        start, end: microseconds since the profile began.
        cpu_children: the calls inside it.
        input_shapes: of the tensors, where asked for.
        cpu_memory_usage: bytes of the results, those of calls inside included.
    """

    id: int
    name: str
    category: str
    thread: int
    start: float
    end: float = 0.0
    input_shapes: list = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    args: dict[str, Any] = field(default_factory=dict)
    self_cpu_memory_usage: int = 0
    cpu_children: list[FunctionEvent] = field(default_factory=list)
    cpu_parent: FunctionEvent | None = None
    is_user_annotation: bool = False
    count = 1
    device_time_total = self_device_time_total = device_memory_usage = 0

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds, calls inside included."""
        return self.end - self.start

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds without those of calls inside."""
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of results."""
        return self.self_cpu_memory_usage + sum(c.cpu_memory_usage for c in self.cpu_children)

    def __repr__(self):
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={format_time(self.cpu_time)} "
            f"cpu_children={[c.id for c in self.cpu_children]} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


@dataclass
class FunctionEventAvg:
    """The calls of one name."""

    key: str = ""
    count: int = 0
    input_shapes: Any = ""
    stack: Any = None
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    is_user_annotation: bool = False
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    device_memory_usage: int = 0
    self_device_memory_usage: int = 0

    def add(self, event) -> FunctionEventAvg:
        """Adds a call, or the calls of an average."""
        self.key = self.key or event.key
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
                     "self_cpu_memory_usage"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(event, name))
        self.is_user_annotation = event.is_user_annotation
        return self

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    device_time = cuda_time = property(lambda self: 0.0)
    cuda_time_total = property(lambda self: self.device_time_total)
    cpu_time_str = property(lambda self: format_time(self.cpu_time))
    cpu_time_total_str = property(lambda self: format_time(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: format_time(self.self_cpu_time_total))

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time=0.000us cuda_time=0.000us "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            "cuda_memory_usage=0>"
        )


class EventList(list):
    """Events, or averages of them."""

    def __init__(self, events=(), profile_memory=False, has_shapes=False):
        super().__init__(events)
        self._profile_memory, self._has_shapes = profile_memory, has_shapes

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return sum(e.self_cpu_time_total for e in self)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
            total.key = "Total"
        return total

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0,
                     group_by_overload_name=False) -> EventList:  # fmt: skip
        """The averages by name (and shapes, and the innermost frames)."""
        groups: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            stack = tuple(event.stack[:group_by_stack_n])
            average = groups[event.name, shapes, stack].add(event)
            average.input_shapes = event.input_shapes if group_by_input_shapes else ""
            average.stack = list(stack)
        return EventList(groups.values(), self._profile_memory, group_by_input_shapes)

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False,
              time_unit=None) -> str:  # fmt: skip
        """The events as a table.

        Args:
            sort_by: an attribute (``"cpu_time_total"``, ``"self_cpu_memory_usage"``, ``"count"``, ...),
                largest first.
            row_limit: -1 for all.
        """
        return _table(self, sort_by, row_limit, max_name_column_width, max_shapes_column_width,
                      max_src_column_width, header, top_level_events_only)  # fmt: skip

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events for ``chrome://tracing`` or Perfetto."""
        write_chrome_trace(self, path)


_SORTED_BY = {"cuda_time": "device_time", "cuda_time_total": "device_time_total",
              "self_cuda_time_total": "self_device_time_total",
              "cuda_memory_usage": "device_memory_usage"}  # fmt: skip


def _table(events, sort_by, row_limit, name_width, shape_width, src_width, header, top_level):
    if not events:
        return ""
    chosen = list(events)
    if sort_by is not None:
        name = _SORTED_BY.get(sort_by, sort_by)
        chosen.sort(key=lambda e: getattr(e, name), reverse=True)
    if top_level:
        chosen = [e for e in chosen if getattr(e, "cpu_parent", None) is None]
    total = sum(e.self_cpu_time_total for e in events)
    memory = getattr(events, "_profile_memory", False)
    shown = chosen if row_limit is None or row_limit < 0 else chosen[:row_limit]
    longest = max(len(e.key) for e in chosen) + 4 if chosen else 8
    longest = longest if name_width is None else min(longest, name_width)
    columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    columns += ["CPU Mem", "Self CPU Mem"] * memory + ["# of Calls"]
    widths = [longest] + [12] * (len(columns) - 1)
    shapes = any(getattr(e, "input_shapes", None) for e in chosen) and events._has_shapes
    if shapes:
        columns.append("Input Shapes")
        widths.append(min(max(len(str(e.input_shapes)) for e in chosen) + 4, shape_width))
    stacks = any(getattr(e, "stack", None) for e in chosen)
    if stacks:
        columns.append("Source Location")
        widths.append(src_width)

    def row(cells):
        return "".join(f"{_cut(str(c), w): >{w}}  " for c, w in zip(cells, widths))

    line = "".join("-" * w + "  " for w in widths)
    out = []
    if header is not None:
        out += ["=" * len(line), header]
    out += [line, row(columns), line]
    for e in shown:
        cells = [
            e.key, _percent(e.self_cpu_time_total, total), format_time(e.self_cpu_time_total),
            _percent(e.cpu_time_total, total), format_time(e.cpu_time_total), format_time(e.cpu_time),
        ]  # fmt: skip
        if memory:
            cells += [format_memory(e.cpu_memory_usage), format_memory(e.self_cpu_memory_usage)]
        cells.append(e.count)
        if shapes:
            cells.append(e.input_shapes)
        if stacks:
            cells.append(e.stack[0] if e.stack else "")
        out.append(row(cells))
    out += [line, f"Self CPU time total: {format_time(total)}", ""]
    return "\n".join(out)


def _cut(text, width):
    return text if len(text) <= width else text[: width - 3] + "..."


def _percent(part, whole):
    return f"{100 * part / whole if whole else 0:.2f}%"


_CATEGORIES = {"op": "cpu_op", "user": "user_annotation", "program": "ftorch_program",
               "compile": "ftorch_compile", "python": "python_function"}  # fmt: skip


def write_chrome_trace(events, path: str, metadata=None, began: float = 0.0) -> None:
    """Writes events as a Chrome trace; a name that ends in ``.gz`` is compressed."""
    pid = os.getpid()
    items = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "ftorch"}},
    ]
    for e in events:
        args = {"External id": e.id, **e.args}
        if e.input_shapes:
            args["Input Dims"] = e.input_shapes
        if e.stack:
            args["Call stack"] = ";".join(reversed(e.stack))
        items.append({
            "ph": "X", "cat": _CATEGORIES[e.category],
            "name": e.name.replace("*", f"#{e.args['step']}") if "step" in e.args else e.name, "pid": pid,
            "tid": e.thread, "ts": began + e.start, "dur": e.end - e.start, "args": args,
        })  # fmt: skip
    data = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": items,
            "traceName": os.fspath(path)}  # fmt: skip
    text = json.dumps(data)
    if os.fspath(path).endswith(".gz"):
        import gzip

        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        with open(path, "w") as file:
            file.write(text)


__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "format_memory", "format_time",
           "write_chrome_trace"]  # fmt: skip
