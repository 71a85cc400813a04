"""What a profile collects: events, their averages and how they are printed."""

from __future__ import annotations

import enum
import json
import math
import os
import socket
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .._old_names import place_in


class DeviceType(enum.Enum):
    """Where an event happened."""

    CPU = 0
    CUDA = 1


def format_time_share(part: float, whole: float) -> str:
    """A share as PyTorch prints it: ``"33.33%"``.

    Raises:
        AssertionError: a share of nothing that is not nothing.
    """
    if whole == 0:
        if part != 0:
            raise AssertionError(f"Expected time_us == 0 but got {part}")
        return "NaN"
    return f"{part * 100.0 / whole:.2f}%"


class Interval:
    """A stretch of time, in microseconds."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        """Its length."""
        return self.end - self.start


class FormattedTimesMixin:
    """The times of an event as text, and what it has no other time on.

    Devices' own times are in JAX's trace (``logdir``), so those here are 0.
    """

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_type = DeviceType.CPU
    use_device = None
    is_async = is_remote = is_legacy = False
    node_id = -1
    overload_name = ""
    device_time_total = self_device_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0
    device_time = cuda_time = property(lambda self: 0.0)
    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)
    self_cuda_memory_usage = property(lambda self: self.self_device_memory_usage)
    cpu_time_str = property(lambda self: format_time(self.cpu_time))
    cpu_time_total_str = property(lambda self: format_time(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: format_time(self.self_cpu_time_total))
    device_time_str = property(lambda self: format_time(self.device_time))
    device_time_total_str = property(lambda self: format_time(self.device_time_total))
    self_device_time_total_str = property(lambda self: format_time(self.self_device_time_total))

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0


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
class FunctionEvent(FormattedTimesMixin):
    """One call.

    Attributes:
        start, end: microseconds since the profile began.
        cpu_children: the calls inside it.
        input_shapes: of the tensors, where asked for.
        cpu_memory_usage: bytes of the results, those of calls inside included.
        flops: floating point operations, where asked for and known.
        scope: 7 for what the user named, else 0.
        sequence_nr: the number of the node that the call left in the graph; -1 for none.
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
    flops: int = 0
    sequence_nr: int = -1
    is_composite: bool = False
    count = 1
    device_index = property(lambda self: self.thread)
    scope = property(lambda self: 7 if self.is_user_annotation else 0)
    time_range = property(lambda self: Interval(self.start, self.end))
    fwd_thread = trace_name = None
    kernels: tuple = ()
    concrete_inputs: tuple = ()
    kwinputs: ClassVar[dict] = {}

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds, calls inside included."""
        return self.end - self.start

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
class FunctionEventAvg(FormattedTimesMixin):
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
    flops: int = 0
    scope: int = 0
    cpu_parent: Any = None
    cpu_children: Any = None

    def add(self, event) -> FunctionEventAvg:
        """Adds a call, or the calls of an average."""
        self.key = self.key or event.key
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
                     "self_cpu_memory_usage", "flops"):
            setattr(self, name, getattr(self, name) + getattr(event, name))
        self.is_user_annotation, self.scope = event.is_user_annotation, event.scope
        return self

    __iadd__ = add

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
                     group_by_overload_name=False) -> EventList:
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
              time_unit=None) -> str:
        """The events as a table.

        Args:
            sort_by: an attribute (``"cpu_time_total"``, ``"self_cpu_memory_usage"``, ``"count"``, ...),
                largest first.
            row_limit: -1 for all.
        """
        return _table(self, sort_by, row_limit, max_name_column_width, max_shapes_column_width,
                      max_src_column_width, header, top_level_events_only)

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events for ``chrome://tracing`` or Perfetto, without what is known of the run."""
        with open(path, "w") as file:
            json.dump(trace_items(self), file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """The times that `export_stacks` can write."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total",
                "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Writes stacks with their times, for flame graphs.

        Raises:
            ValueError: another metric.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"metric should be one of: {self.supported_export_stacks_metrics()}"
            )
        with open(path, "w") as file:
            for e in self:
                time = int(getattr(e, metric, 0))
                if e.stack and time > 0:
                    stack = ";".join(f.replace(" ", "_") for f in reversed(e.stack))
                    file.write(f"{stack};{e.name} {time}\n")


_SORTED_BY = {"cuda_time": "device_time", "cuda_time_total": "device_time_total",
              "self_cuda_time_total": "self_device_time_total",
              "cuda_memory_usage": "device_memory_usage"}


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

    flops = min((e.flops for e in chosen if e.flops > 0), default=0)
    if flops:
        scale = min(int(math.log10(flops)) // 3 * 3, 15)
        columns.append(f"Total {'KMGTP'[scale // 3 - 1] if scale else ''}FLOPs")
        widths.append(12)

    line = "".join("-" * w + "  " for w in widths)
    out = []
    if header is not None:
        out += ["=" * (len(line) - 2), header]
    out += [line, row(columns), line]
    for e in shown:
        cells = [
            e.key, _percent(e.self_cpu_time_total, total), format_time(e.self_cpu_time_total),
            _percent(e.cpu_time_total, total), format_time(e.cpu_time_total), format_time(e.cpu_time),
        ]
        if memory:
            cells += [format_memory(e.cpu_memory_usage), format_memory(e.self_cpu_memory_usage)]
        cells.append(e.count)
        if shapes:
            cells.append(e.input_shapes)
        if stacks:
            cells.append(e.stack[0] if e.stack else "")
        if flops:
            cells.append(f"{e.flops / 10**scale:8.3f}" if e.flops > 0 else "--")
        out.append(row(cells))
    out += [line, f"Self CPU time total: {format_time(total)}", ""]
    return "\n".join(out)


def _cut(text, width):
    return text if len(text) <= width else text[: width - 3] + "..."


def _percent(part, whole):
    return f"{100 * part / whole if whole else 0:.2f}%"


_CATEGORIES = {"op": "cpu_op", "user": "user_annotation", "program": "ftorch_program",
               "compile": "ftorch_compile", "python": "python_function"}


def trace_items(events, began: float = 0.0) -> list[dict[str, Any]]:
    """The events as items of a Chrome trace."""
    pid = os.getpid()
    items: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "ftorch"}},
    ]
    for e in events:
        args = {"External id": e.id, "Ev Idx": e.id - 1, **e.args}
        if e.input_shapes:
            args["Input Dims"] = e.input_shapes
        if e.stack:
            args["Call stack"] = ";".join(reversed(e.stack))
        items.append({
            "ph": "X", "cat": _CATEGORIES[e.category],
            "name": e.name.replace("*", f"#{e.args['step']}") if "step" in e.args else e.name, "pid": pid,
            "tid": e.thread, "ts": began + e.start, "dur": e.end - e.start, "args": args,
        })
    return items


def write_chrome_trace(events, path: str, metadata=None, began: float = 0.0) -> None:
    """Writes events as a Chrome trace; a name that ends in ``.gz`` is compressed."""
    data = {"schemaVersion": 1, "displayTimeUnit": "ms", "deviceProperties": [],
            "host_name": socket.gethostname(), "trace_id": uuid.uuid4().hex.upper(),
            "record_shapes": int(getattr(events, "_has_shapes", False)), **(metadata or {}),
            "traceEvents": trace_items(events, began), "traceName": os.fspath(path)}
    text = json.dumps(data)
    if os.fspath(path).endswith(".gz"):
        import gzip

        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        with open(path, "w") as file:
            file.write(text)


__all__ = ["DeviceType", "EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg",
           "Interval", "format_memory", "format_time", "format_time_share", "write_chrome_trace"]

place_in("autograd.profiler_util", EventList, FunctionEvent)
