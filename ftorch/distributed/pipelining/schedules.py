"""Pipeline schedules (``torch.distributed.pipelining.schedules``).

A schedule is an order of actions for each process (`_actions`); one loop runs them all.
"""

from __future__ import annotations

import csv
import logging
from collections import Counter, deque

import ftorch as torch

from ...utils._pytree import tree_map_only
from . import _actions as actions
from ._actions import (  # noqa: F401  (PyTorch has the types of actions under this name)
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    FULL_BACKWARD,
    OVERLAP_F_B,
    RECV_B,
    RECV_F,
    REDUCE_GRAD,
    RESHARD,
    SEND_B,
    SEND_F,
    UNSHARD,
    _Action,
    _ComputationType,
)
from ._utils import generate_stage_to_rank_mapping
from .microbatch import TensorChunkSpec, _split_tensor, merge_chunks, split_args_kwargs_into_chunks

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
    "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble", "get_schedule_class",
]

logger = logging.getLogger(__name__)
_NO_GRAD = (
    "step() requires gradients to be enabled for backward computation; it should not be used under "
    "torch.no_grad() context. Please call eval() instead."
)


class _PipelineSchedule:
    """What all schedules share."""

    def __init__(self, stages, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads: bool = True):
        self._stages, self._n_microbatches, self._loss_fn = list(stages), n_microbatches, loss_fn
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self._has_backward = loss_fn is not None
        self._internal_losses: dict = {}
        first = self._stages[0]
        self._num_stages, self.pp_group_size = first.num_stages, first.group_size
        self.rank = first.group_rank
        self.pipeline_order: dict[int, list] = {}

    def _own_orders(self):
        """The orders of the places that this process is: one, or all where its stages lie on its own devices."""
        orders = self._all_orders()
        return [orders[self.rank]] if self._stages[0].places is None else [orders[place] for place in sorted(orders)]

    def _all_orders(self):
        return self.pipeline_order

    def step(self, *args, target=None, losses: list | None = None, return_outputs: bool = True,
             loss_kwargs=None, **kwargs):
        """Forward and backward of a whole batch.

        Args:
            args, kwargs: of the first stage's process. ``target``: of the last stage's process.
            losses: filled with the microbatches' losses, where the last stage is.

        Returns:
            the output, where the last stage is; else None.
        """
        if self._has_backward and not torch.is_grad_enabled():
            raise RuntimeError(_NO_GRAD)
        args_split, kwargs_split = self._split_inputs(args, kwargs)
        targets = None if target is None else _split_tensor(target, TensorChunkSpec(0), self._n_microbatches)
        self._step_microbatches(args_split, kwargs_split, targets, losses, return_outputs, loss_kwargs)
        for stage in self._stages:
            if stage.is_last and return_outputs:
                return merge_chunks(tree_map_only(torch.Tensor, _detached, stage.output_chunks), self._output_merge_spec)
        return None

    def eval(self, *args, target=None, losses: list | None = None, **kwargs):
        """`step` without backward."""
        kept, self._has_backward = self._has_backward, False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = kept

    def _split_inputs(self, args, kwargs):
        if not args and not kwargs:
            return [()] * self._n_microbatches, [{}] * self._n_microbatches
        return split_args_kwargs_into_chunks(
            args, kwargs, self._n_microbatches, self._args_chunk_spec, self._kwargs_chunk_spec
        )

    def _check(self, name, microbatches):
        if not isinstance(microbatches, list):
            raise TypeError(f"{name} must be a list but got a {type(microbatches)}")
        if len(microbatches) != self._n_microbatches:
            raise ValueError(f"Expecting {self._n_microbatches} {name} but got {len(microbatches)}")

    def _step_microbatches(self, arg_mbs=None, kwarg_mbs=None, target_mbs=None, losses=None,
                           return_outputs: bool = True, loss_kwargs=None) -> None:
        """Runs the process' order on microbatches."""
        arg_mbs = [()] * self._n_microbatches if arg_mbs is None else arg_mbs
        kwarg_mbs = [{}] * self._n_microbatches if kwarg_mbs is None else kwarg_mbs
        self._check("arg_mbs", arg_mbs)
        self._check("kwarg_mbs", kwarg_mbs)
        if target_mbs is not None:
            self._check("target_mbs", target_mbs)
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        own = {s.stage_index: s for s in self._stages}
        for stage in self._stages:
            stage.has_backward = self._has_backward
            stage.clear_runtime_states()
        self._internal_losses, self._done = {}, Counter()
        batch = arg_mbs, kwarg_mbs, target_mbs, loss_kwargs or {}, return_outputs
        waiting = [deque((n, a) for n, a in enumerate(order) if a is not None) for order in self._own_orders()]
        while any(waiting):
            at = next((i for i, order in enumerate(waiting) if order and self._is_ready(order[0][1], own)), None)
            if at is None:
                raise RuntimeError(f"the stages wait for each other: {[order[0][1] for order in waiting if order]}")
            waiting.append(order := waiting.pop(at))  # the places take turns
            number, action = order.popleft()
            try:
                for part in actions.parts_of(action):
                    self._perform(part, own, batch)
            except Exception:
                logger.error("[Rank %s] failed in action %s, number %s of its order", self.rank, action, number)
                raise
        for stage in self._stages:
            stage.finish()
        if losses is not None and self._internal_losses:
            losses[:] = [self._internal_losses[i] for i in sorted(self._internal_losses)]

    def _is_ready(self, action, own):
        """Whether an action can run: between processes messages are waited for."""
        if self._stages[0].places is None:
            return True
        return all(
            own[part.stage_index].is_ready(int(part.computation_type != actions.FORWARD), part.microbatch_index)
            for part in actions.parts_of(action)
            if part.computation_type == actions.FORWARD or self._has_backward and part.computation_type in (
                actions.FULL_BACKWARD, actions.BACKWARD_INPUT)
        )

    def _perform(self, action, own, batch):
        arg_mbs, kwarg_mbs, target_mbs, loss_kwargs, return_outputs = batch
        stage, kind, i = own[action.stage_index], action.computation_type, action.microbatch_index
        if kind == actions.FORWARD:
            output = stage.forward_one_chunk(i, arg_mbs[i], kwarg_mbs[i], return_outputs, own)
            if stage.is_last and self._loss_fn is not None and target_mbs is not None:
                self._internal_losses[i] = self._loss_fn(output, target_mbs[i], **loss_kwargs)
            return
        if not self._has_backward:
            return
        if kind == actions.REDUCE_GRAD:
            stage.perform_reduce_grad(self._n_microbatches if self.scale_grads else 1)
        elif kind == actions.BACKWARD_WEIGHT:
            stage.backward_weight_one_chunk(i)
        elif kind in (actions.FULL_BACKWARD, actions.BACKWARD_INPUT):
            if stage.is_last and i not in self._internal_losses:
                raise RuntimeError(
                    f"Loss for microbatch {i} is not available. Available losses for microbatches: "
                    f"{list(self._internal_losses.values())}"
                )
            self._done[action.stage_index] += 1
            last = self._done[action.stage_index] == self._n_microbatches
            full = kind == actions.FULL_BACKWARD
            stage.backward_one_chunk(i, self._internal_losses.get(i), full, last, own)
        else:
            raise ValueError(f"Unknown computation type {kind}")


def _wait_batch_p2p(work: list) -> None:
    """Waits for sends and receives."""
    for each in work:
        each.wait()


def _detached(t):
    return t.detach()


class PipelineScheduleSingle(_PipelineSchedule):
    """A schedule of one stage a process, or of all stages on devices of one: ``stage`` is a list of them then."""

    def __init__(self, stage, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads: bool = True):
        stages = stage if isinstance(stage, (list, tuple)) else [stage]
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)
        self._stage = stages[0]
        if len(stages) != (1 if self._stage.places is None else self._num_stages):
            raise ValueError(f"{len(stages)} stages of {self._num_stages} were given to one process")
        self.rank = self._stage.stage_index
        self.pipeline_order = {
            rank: self._order(rank, self._num_stages, n_microbatches) for rank in range(self._num_stages)
        }

    @staticmethod
    def _order(rank, size, count) -> list:
        """The actions of a stage."""
        return actions.gpipe(rank, size, count)


class ScheduleGPipe(PipelineScheduleSingle):
    """All forwards, then all backwards (https://arxiv.org/abs/1811.06965).

    >>> import ftorch as torch
    >>> from ftorch.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> stage = PipelineStage(torch.nn.Linear(2, 2), 0, 1, torch.device("cpu"))
    >>> schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    >>> losses = []
    >>> schedule.step(torch.ones(4, 2), target=torch.zeros(4, 2), losses=losses).shape, len(losses)
    (torch.Size([4, 2]), 2)
    >>> dist.destroy_process_group()
    """


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forwards alone."""

    def _step_microbatches(self, arg_mbs=None, kwarg_mbs=None, target_mbs=None, losses=None,
                           return_outputs: bool = True, loss_kwargs=None) -> None:
        if target_mbs is not None or losses is not None:
            raise RuntimeError("Forward-only schedule does not support loss computation")
        super()._step_microbatches(arg_mbs, kwarg_mbs, None, None, return_outputs, loss_kwargs)


class Schedule1F1B(PipelineScheduleSingle):
    """Forward and backward in turns: at most as many microbatches as stages are kept
    (https://arxiv.org/abs/1806.03377).

    Raises:
        ValueError: for fewer microbatches than stages.
    """

    def __init__(self, stage, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, scale_grads: bool = True):
        count = (stage[0] if isinstance(stage, (list, tuple)) else stage).num_stages
        if n_microbatches < count:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number of "
                f"stages ({count})."
            )
        super().__init__(stage, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)

    @staticmethod
    def _order(rank, size, count):
        return actions.one_f_one_b(rank, size, count)


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule of several stages a process."""

    _style = "loop"

    def __init__(self, stages, n_microbatches: int, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
                 output_merge_spec=None, use_full_backward=None, scale_grads: bool = True,
                 backward_requires_autograd: bool = True, defer_pp_recv: bool = False):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)
        places = 1 if self._stages[0].places is None else self.pp_group_size
        self.n_local_stages = len(self._stages) // places
        self.stage_index_to_group_rank = generate_stage_to_rank_mapping(
            self.pp_group_size, self._num_stages, self._style
        )
        self._set_order(self._orders())

    def _orders(self) -> dict[int, list]:
        """The orders of all processes."""
        return {}

    def _set_order(self, orders):
        self.pipeline_order = orders
        if not orders:
            return
        self._validate(orders)
        self.pipeline_order_with_reduction = {
            rank: actions.with_reduction(order, self._n_microbatches) for rank, order in orders.items()
        }
        for stage in self._stages:
            stage.stage_index_to_group_rank = self.stage_index_to_group_rank
            if stage.places is not None:
                stage.put(self.stage_index_to_group_rank[stage.stage_index])

    def _all_orders(self):
        return self.pipeline_order_with_reduction

    def _validate(self, orders):
        if len(orders) != self.pp_group_size:
            raise AssertionError(
                f"Schedule has incorrect number of ranks - expected {self.pp_group_size}, actual {len(orders)}"
            )
        seen: dict = {}
        places: dict[int, int] = {}
        for rank, order in orders.items():
            for step, action in enumerate(order):
                for part in actions.parts_of(action) if action is not None else ():
                    stage, kind, number = part[:3]
                    if places.setdefault(stage, rank) != rank:
                        raise AssertionError(
                            f"Rank {rank}, step {step}: Stage {stage} is assigned to both rank {rank} and rank "
                            f"{places[stage]}"
                        )
                    needs = {"B": "F", "I": "F", "W": "I"}.get(kind.value)
                    if needs and number not in seen.get((stage, needs), ()):
                        raise AssertionError(
                            f"Rank {rank}, step {step}: {part} without its {needs} of microbatch {number} before"
                        )
                    seen.setdefault((stage, kind.value), set()).add(number)
        for stage in range(self._num_stages):
            counts = {k: len(seen.get((stage, k), ())) for k in "FBIW"}
            if counts["F"] != self._n_microbatches:
                raise AssertionError(
                    f"Got {counts['F']} {actions.FORWARD} microbatches for stage {stage}, expected "
                    f"{self._n_microbatches}"
                )
            if counts["I"] != counts["W"] or counts["B"] + counts["I"] != self._n_microbatches:
                raise AssertionError(f"Invalid backward microbatches for stage {stage}: {counts}")
        self.stage_index_to_group_rank = places

    def _dump_csv(self, filename) -> None:
        """Writes the orders of all processes, one row each."""
        with open(filename, "w", newline="") as file:
            csv.writer(file).writerows(self.pipeline_order[r] for r in sorted(self.pipeline_order))

    def _load_csv(self, filename, format: str = "compute_only") -> None:
        """Takes the orders of a file."""
        if format != "compute_only":
            raise AssertionError(f'format must be "compute_only", got {format}')
        with open(filename, newline="") as file:
            self._set_order({
                rank: [_Action.from_str(text) for text in row] for rank, row in enumerate(csv.reader(file))
            })


class _PipelineScheduleRuntime(PipelineScheduleMulti):
    """A schedule whose orders come from elsewhere."""

    def _prepare_schedule_with_comms(self, orders, format: str = "compute_only") -> None:
        """Takes orders; those of communications are left out: messages need no order here."""
        kinds = _ComputationType
        skipped = {kinds.SEND_F, kinds.RECV_F, kinds.SEND_B, kinds.RECV_B, kinds.UNSHARD, kinds.RESHARD,
                   kinds.REDUCE_GRAD}
        self._set_order({
            rank: [a for a in order if a is None or a.computation_type not in skipped]
            for rank, order in orders.items()
        })


def _per_rank(schedule, function, *options):
    return {rank: function(rank, schedule.pp_group_size, *options) for rank in range(schedule.pp_group_size)}


class ScheduleLoopedBFS(_PipelineScheduleRuntime):
    """Breadth first: a stage's forwards of all microbatches before the next stage's (https://arxiv.org/abs/2211.05953)."""

    def _orders(self):
        return _per_rank(self, actions.looped_breadth_first, self.n_local_stages, self._n_microbatches)


class _Rounds(_PipelineScheduleRuntime):
    _name = ""

    def _check_rounds(self):
        rounds = max(1, self._n_microbatches // self.pp_group_size)
        if self._n_microbatches % rounds:
            raise ValueError(
                f"{self._name} requires the number of microbatches to be a multiple of the number of rounds "
                f"({rounds}), but got {self._n_microbatches}."
            )
        self.number_of_rounds, self.microbatches_per_round = rounds, self._n_microbatches // rounds


class ScheduleInterleaved1F1B(_Rounds):
    """1F1B over several stages a process (https://arxiv.org/abs/2104.04473).

    Raises:
        ValueError: for numbers of microbatches that make no whole rounds.
    """

    _name = "Interleaved 1F1B"

    def _orders(self):
        self._check_rounds()
        return _per_rank(self, actions.interleaved, self.n_local_stages, self._n_microbatches)


class ScheduleInterleavedZeroBubble(_Rounds):
    """`ScheduleInterleaved1F1B` whose weights' gradients come where a process would wait
    (https://arxiv.org/abs/2401.10241)."""

    _name = "Zero bubble"

    def _orders(self):
        self._check_rounds()
        orders = _per_rank(self, actions.interleaved, self.n_local_stages, self._n_microbatches, True)
        return actions.with_bubbles(orders, self.n_local_stages * self.pp_group_size - 1)


class _VShaped(_PipelineScheduleRuntime):
    _style = "v"

    def _check_stages(self):
        if self.n_local_stages != 2:
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {self.n_local_stages}.")


class ScheduleZBVZeroBubble(_VShaped):
    """Two stages a process, there and back again, backwards in two halves (https://arxiv.org/abs/2401.10241).

    Raises:
        ValueError: for another number of stages a process.
    """

    def _orders(self):
        self._check_stages()
        return _per_rank(self, actions.zero_bubble_v, self._n_microbatches)


class ScheduleDualPipeV(_VShaped):
    """DualPipe folded into a V (https://arxiv.org/abs/2412.19437).

    Raises:
        ValueError: for another number of stages a process, or fewer microbatches than stages.
    """

    def _orders(self):
        self._check_stages()
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                "DualPipeV requires at least as many microbatches as stages, but got "
                f"{self._n_microbatches} microbatches and {self._num_stages} stages."
            )
        return _per_rank(self, actions.dual_pipe_v, self._n_microbatches)


_SCHEDULES = {
    "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS, "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle, "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble, "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str):
    """The class of a schedule by its name, in any case.

    Raises:
        ValueError: for an unknown name.
    """
    known = {name.lower(): kind for name, kind in _SCHEDULES.items()}
    if schedule_name.lower() not in known:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(_SCHEDULES)}")
    return known[schedule_name.lower()]
