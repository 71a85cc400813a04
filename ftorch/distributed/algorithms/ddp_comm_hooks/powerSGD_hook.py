"""Gradients exchanged as products of thin matrices (PowerSGD, https://arxiv.org/abs/1905.13727)."""

from __future__ import annotations

import math

import ftorch as torch
from ftorch import distributed as dist

from ....futures import Future
from .default_hooks import _average

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Settings of PowerSGD, and what it keeps from step to step.

    Args:
        process_group: the processes; None: all.
        matrix_approximation_rank: the number of columns of the thin matrices.
        start_powerSGD_iter: the step from which on gradients are compressed.
        min_compression_rate: matrices that would shrink by less are exchanged whole.
        use_error_feedback: whether what one step loses is added to the next one's gradient.
        warm_start: whether a step begins with the last one's thin matrices.
        orthogonalization_epsilon: added to the norms of columns.

    Raises:
        ValueError: if compression with memory is to begin before the third step.
    """

    def __init__(self, process_group, matrix_approximation_rank=1, start_powerSGD_iter=1_000,
                 min_compression_rate=2, use_error_feedback=True, warm_start=True,
                 orthogonalization_epsilon=0, random_seed=0, compression_stats_logging_frequency=10_000,
                 batch_tensors_with_same_shape: bool = False):
        import numpy as np

        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, "
                "because PowerSGD can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, torch.Tensor] = {}
        self.p_memory_dict: dict[int, torch.Tensor] = {}
        self.q_memory_dict: dict[int, torch.Tensor] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.next_stats_report = 0
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "process_group"}

    def __setstate__(self, state):
        self.process_group = dist.group.WORLD
        self.__dict__.update(state)

    def maybe_increase_iter(self, bucket) -> None:
        """Counts a step with its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """(rate, number of elements before, and after compression), so far."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after

    def _group(self):
        return self.process_group if self.process_group is not None else dist.group.WORLD

    def _with_error(self, index, flat):
        """Adds what the last step lost."""
        if not self.use_error_feedback:
            return None
        if index in self.error_dict:
            flat.add_(self.error_dict[index])
        return flat.detach().clone()

    def _random(self, shapes, dtype):
        """Standard normal matrices, the same in all processes; the caller's random stream is left alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self.rng.randint(1_000_000_000)))
            return [torch.randn(*shape, dtype=dtype) for shape in shapes]


def _done(value):
    future: Future = Future()
    future.set_result(value)
    return future


def _orthogonalize(matrices, epsilon=0):
    """The columns of matrices (n, rows, columns) as orthonormal ones."""
    count = matrices.shape[2]
    if count > 2 and matrices.dtype not in (torch.float16, torch.bfloat16):
        return torch.linalg.qr(matrices)[0]
    columns: list = []
    for i in range(count):
        column = matrices[:, :, i : i + 1]
        for done in columns:
            column = column - (done * column).sum(1, keepdim=True) * done
        columns.append(column / (column.norm(dim=1, keepdim=True) + epsilon))
    return torch.cat(columns, 2)


def _power_iteration(state, index, matrices, ranks, exchange_rest=None):
    """Products of thin matrices that are near the sums of matrices (n, rows, columns) over all processes,
    divided by their number."""
    group, size = state._group(), state._group().size()
    dtype = matrices[0].dtype if matrices else torch.float32
    shapes = [(m.shape[0], m.shape[2], rank) for m, rank in zip(matrices, ranks)]
    if state.warm_start and index in state.q_memory_dict:
        qs = _split(state.q_memory_dict[index], shapes)
    else:
        qs = state._random(shapes, dtype)
    epsilon = state.orthogonalization_epsilon
    ps = [m @ _orthogonalize(q, epsilon) for m, q in zip(matrices, qs)]
    ps = [_orthogonalize(p, epsilon) for p in _summed(ps, group)]
    qs = [q / size for q in _summed([m.transpose(1, 2) @ p for m, p in zip(matrices, ps)], group)]
    if state.warm_start and matrices:
        state.p_memory_dict[index] = torch.cat([p.reshape(-1) for p in ps])
        state.q_memory_dict[index] = torch.cat([q.reshape(-1) for q in qs])
    return [p @ q.transpose(1, 2) for p, q in zip(ps, qs)]


def _split(flat, shapes):
    parts = flat.split([math.prod(s) for s in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes)]


def _summed(tensors, group):
    """Tensors summed over a group, in one exchange."""
    if not tensors:
        return []
    flat = torch.cat([t.reshape(-1) for t in tensors])
    dist.all_reduce(flat, group=group)
    return _split(flat, [t.shape for t in tensors])


def powerSGD_hook(state: PowerSGDState, bucket):  # noqa: N802
    """The average whose matrices are exchanged as products of thin ones."""
    flat = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return _average(state._group(), flat)
    group, index = state._group(), bucket.index()
    before = state._with_error(index, flat)
    matrices, whole = [], []
    for t in bucket.gradients():
        m = t.view(t.shape[0], -1) if t.dim() else t.view(1, 1)
        rows, columns = m.shape
        rank = min(rows, columns, state.matrix_approximation_rank)
        thin, state_size = (rows + columns) * rank, rows * columns
        state.total_numel_before_compression += state_size
        if thin * state.min_compression_rate < state_size:
            matrices.append((m, rank))
            state.total_numel_after_compression += thin
        else:
            whole.append(t)
            state.total_numel_after_compression += state_size
    for t, total in zip(whole, _summed(whole, group)):
        t.copy_(total / group.size())
    groups: dict = {}
    for i, (m, rank) in enumerate(matrices):
        key = (m.shape, rank) if state.batch_tensors_with_same_shape else i
        groups.setdefault(key, ([], rank))[0].append(m)
    stacked = [torch.stack(same) for same, _ in groups.values()]
    near = _power_iteration(state, index, stacked, [rank for _, rank in groups.values()])
    for (same, _), products in zip(groups.values(), near):
        for m, product in zip(same, products):
            m.copy_(product)
    if before is not None:
        state.error_dict[index] = before - flat
    state.maybe_increase_iter(bucket)
    return _done(flat)


def batched_powerSGD_hook(state: PowerSGDState, bucket):  # noqa: N802
    """`powerSGD_hook` of the whole bucket as one square matrix: faster, less exact."""
    flat = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return _average(state._group(), flat)
    count, index = flat.numel(), bucket.index()
    side = math.ceil(math.sqrt(count))
    rank = min(side, state.matrix_approximation_rank)
    state.total_numel_before_compression += count
    state.total_numel_after_compression += side * rank * 2
    square = torch.cat([flat, flat.new_zeros(side * side - count)])
    before = state._with_error(index, square)
    (near,) = _power_iteration(state, index, [square.view(1, side, side)], [rank])
    near = near.reshape(-1)
    if before is not None:
        state.error_dict[index] = before - near
    state.maybe_increase_iter(bucket)
    return _done(flat.copy_(near[:count]))
