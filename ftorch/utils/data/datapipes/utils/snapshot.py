"""Going on with a datapipe where it was pickled."""

from __future__ import annotations

from ...graph_settings import apply_random_seed
from .._hook_iterator import _SnapshotState
from ..datapipe import IterDataPipe


def _simple_graph_snapshot_restoration(datapipe: IterDataPipe, n_iterations: int, rng=None) -> None:
    """Reads ``n_iterations`` samples, so that the next iterator goes on behind them.

    Raises:
        RuntimeError: if there are fewer samples, or if it was restored and not read since.
    """
    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the "
            "graph if your graph has not been restored."
        )
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    iterator = iter(datapipe)
    for _ in range(n_iterations):
        try:
            next(iterator)
        except StopIteration as e:
            raise RuntimeError(
                f"Fast-forward {datapipe} by {n_iterations} iterations "
                "exceeds the number of samples available."
            ) from e
    datapipe._fast_forward_iterator = iterator
    datapipe._snapshot_state = _SnapshotState.Restored
