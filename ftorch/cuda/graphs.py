"""CUDA's graphs (``torch.cuda.graphs``): a captured region is a program, which is run again on the same tensors.

What a region records is not run while it is captured. `CUDAGraph.replay` runs it as one XLA program: it reads what tensors
from outside hold then, writes those that the region wrote to, and gives the tensors that it made their values.
"""

from __future__ import annotations

from typing import Any

from ..eager.call.hooks import hooks
from ..eager.core import device as _device
from .allocator import graph_pool_handle
from .index import device_index

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def is_current_stream_capturing() -> bool:
    """Whether this thread captures a graph."""
    return hooks.recorded_region().is_recording()


class CUDAGraph:
    """A region of work on a GPU that was captured, to be replayed.

    Args:
        keep_graph: accepted, without meaning: the program is compiled at the first replay, or by `instantiate`.

    Raises:
        RuntimeError: (when made) there is no GPU.
    """

    def __init__(self, keep_graph=False):
        if not _device.jax_devices("cuda"):
            raise RuntimeError("Tried to instantiate dummy base class CUDAGraph")
        self._region = hooks.recorded_region().RecordedRegion(_device.device("cuda", device_index(None)))
        self._pool: Any = None

    def capture_begin(self, pool=None, capture_error_mode="global", check_input_liveness=False) -> None:
        """Starts to capture what this thread does on the GPU.

        Raises:
            RuntimeError: this thread captures already.
        """
        self._pool = graph_pool_handle() if pool is None else pool
        self._region.begin()

    def capture_end(self) -> None:
        """Ends the capture.

        Raises:
            RuntimeError: nothing is being captured.
        """
        self._region.end()

    def instantiate(self) -> None:
        """Does nothing: the program is compiled at the first replay."""
        self._captured("instantiate")

    def replay(self) -> None:
        """Runs the captured region.

        Raises:
            RuntimeError: nothing was captured.
        """
        self._captured("replay")
        self._region.replay()

    def reset(self) -> None:
        """Forgets the captured region."""
        self._region.reset()

    def pool(self) -> tuple[int, int]:
        """The name of the memory, to be given to other captures.

        Raises:
            RuntimeError: nothing was captured.
        """
        self._captured("pool")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Does nothing: `debug_dump` always works."""

    def debug_dump(self, debug_path) -> None:
        """Writes the program's steps as text."""
        self._captured("debug_dump")
        with open(debug_path, "w", encoding="utf-8") as file:
            file.writelines(f"{step.plan.name} {step.operands}\n" for step in self._region._lowered.steps)

    def _captured(self, name):
        if not self._region.is_recorded:
            raise RuntimeError(f"Called CUDAGraph::{name} without a preceding successful capture.")


class graph:
    """A ``with`` block that is captured.

    Args:
        cuda_graph: the `CUDAGraph` that keeps it.
        pool, capture_error_mode, enable_annotations, check_input_liveness: accepted, without meaning.
        stream: whose GPU is meant.

    Raises:
        RuntimeError: (when made) there is no GPU; (within) a value is looked at.
    """

    default_capture_stream = None

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global",
                 enable_annotations=False, check_input_liveness=False):
        if not _device.jax_devices("cuda"):
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        self.cuda_graph, self.pool = cuda_graph, pool

    def __enter__(self):
        self.cuda_graph.capture_begin(self.pool)

    def __exit__(self, kind, *_):
        if kind is None:
            self.cuda_graph.capture_end()
        else:
            self.cuda_graph._region.abandon()


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Compiles functions or modules, which is what graphs of their kernels would be for.

    Args:
        callables: one, or a tuple of them; sample_args: their arguments, which are called once.
    """
    import ftorch as torch

    def made(function, args):
        compiled = torch.compile(function)
        compiled(*args)
        return compiled

    if isinstance(callables, tuple):
        return tuple(made(c, args) for c, args in zip(callables, sample_args))
    return made(callables, sample_args)
