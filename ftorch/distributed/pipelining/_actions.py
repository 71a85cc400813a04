"""What a process does in which order: forward and backward of microbatches, for each schedule.

An order is a list of actions and None, where a process waits (they show how the stages' times fit together).
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from ._utils import generate_rank_to_stage_mapping


class _ComputationType(StrEnum):
    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    FULL_BACKWARD = "B"
    OVERLAP_F_B = "OVERLAP_F_B"
    REDUCE_GRAD = "REDUCE_GRAD"

    @staticmethod
    def from_str(action: str) -> _ComputationType:
        """The type of a text. Raises RuntimeError for an unknown one."""
        try:
            return _ComputationType(action)
        except ValueError:
            raise RuntimeError(f"Invalid computation type {action}") from None


FORWARD, FULL_BACKWARD = _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD
BACKWARD_INPUT, BACKWARD_WEIGHT = _ComputationType.BACKWARD_INPUT, _ComputationType.BACKWARD_WEIGHT
OVERLAP_F_B, REDUCE_GRAD = _ComputationType.OVERLAP_F_B, _ComputationType.REDUCE_GRAD
UNSHARD, RESHARD = _ComputationType.UNSHARD, _ComputationType.RESHARD
SEND_F, RECV_F = _ComputationType.SEND_F, _ComputationType.RECV_F
SEND_B, RECV_B = _ComputationType.SEND_B, _ComputationType.RECV_B
_PATTERN = re.compile(r"(\d+)(F|I|B|W|UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*)")


class _Action(NamedTuple):
    """A step: ``2F0`` is the forward of microbatch 0 in stage 2."""

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int | None = None
    sub_actions: tuple | None = None

    def __repr__(self):
        if self.sub_actions is not None:
            return f"({';'.join(map(repr, self.sub_actions))}){self.computation_type.value}"
        number = "" if self.microbatch_index is None else self.microbatch_index
        return f"{self.stage_index}{self.computation_type.value}{number}"

    __str__ = __repr__

    @property
    def is_compute_op(self) -> bool:
        """Whether it computes."""
        return self.computation_type in (FORWARD, FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, OVERLAP_F_B)

    @staticmethod
    def from_str(action_string: str) -> _Action | None:
        """The action of a text, None for an empty one. Raises RuntimeError for another."""
        text = action_string.strip()
        if not text:
            return None
        if text.startswith("(") and ")" in text:
            inner, _, kind = text[1:].partition(")")
            parts = [_Action.from_str(p) for p in inner.split(";") if p.strip()]
            return _Action(-1, _ComputationType.from_str(kind), None, tuple(parts) or None)
        match = _PATTERN.match(text)
        if match is None:
            raise RuntimeError(
                f"Invalid action string: {text}, should be formatted as [stage][action type][(microbatch)] e.g. 2F0"
            )
        stage, kind, number = match.groups()
        return _Action(int(stage), _ComputationType.from_str(kind), int(number) if number else None)


def parts_of(action):
    """The actions of which an action is made."""
    return action.sub_actions if action.sub_actions is not None else (action,)


def with_reduction(actions, n_microbatches):
    """The order, without waiting, with the reduction of gradients after each stage's last backward."""
    made, done = [], Counter()
    for action in actions:
        if action is None:
            continue
        made.append(action)
        for part in parts_of(action):
            if part.computation_type in (FULL_BACKWARD, BACKWARD_WEIGHT):
                done[part.stage_index] += 1
                if done[part.stage_index] == n_microbatches:
                    made.append(_Action(part.stage_index, REDUCE_GRAD))
    return made


def gpipe(rank, size, count):
    """All forwards, then all backwards."""
    forwards = [_Action(rank, FORWARD, i) for i in range(count)]
    backwards = [_Action(rank, FULL_BACKWARD, i) for i in range(count)]
    waits = [None] * (3 * (size - 1 - rank))
    return with_reduction([*[None] * rank, *forwards, *waits, *backwards], count)


def one_f_one_b(rank, size, count):
    """As many forwards as stages follow, then forward and backward in turns, then the other backwards."""
    early = size - 1 - rank
    made = [_Action(rank, FORWARD, i) for i in range(early)]
    for i in range(count - early):
        made += [_Action(rank, FORWARD, early + i), _Action(rank, FULL_BACKWARD, i)]
    made += [_Action(rank, FULL_BACKWARD, i) for i in range(count - early, count)]
    return with_reduction(made, count)


def looped_breadth_first(rank, size, stages, count):
    """Stage by stage: all forwards of one, then of the next; backwards in the reverse order."""
    own = range(rank, size * stages, size)
    made: list = [None] * rank
    made += [_Action(s, FORWARD, i) for s in own for i in range(count)]
    made += [None] * (2 * (size - 1 - rank))
    return made + [_Action(s, FULL_BACKWARD, i) for s in reversed(own) for i in reversed(range(count))]


def interleaved(rank, size, stages, count, zero_bubble=False):
    """1F1B over several stages a process, microbatches in rounds; with ``zero_bubble`` the weights'
    gradients come later, where a process would wait."""
    rounds = max(1, count // size)
    per_round = count // rounds
    total = stages * count
    early = min((stages - 1) * per_round + (1 if zero_bubble else 2) * (size - 1 - rank), total)
    seen: Counter = Counter()
    made: list = [None] * rank
    late: list = []  # backwards of inputs whose weights are still to come

    def take(kind, stage):
        number = seen[kind, stage]
        seen[kind, stage] += 1
        made.append(_Action(stage, kind, number))

    def forward(step):
        take(FORWARD, step // per_round % stages * size + rank)

    def backward(step):
        stage = (stages - 1 - (step - early) // per_round % stages) * size + rank
        take(BACKWARD_INPUT if zero_bubble else FULL_BACKWARD, stage)
        late.append(stage)
        if zero_bubble and step - early >= rank:
            take(BACKWARD_WEIGHT, late.pop(0))

    for step in range(early):
        forward(step)
    if early:
        made += [None] * (size - rank - 1 if zero_bubble else stages * size + 2 * (size - 1 - rank) - early - rank)
    for step in range(early, total):
        forward(step)
        backward(step)
    for step in range(total, total + early):
        if not zero_bubble:
            made.append(None)
        backward(step)
    while zero_bubble and late:
        take(BACKWARD_WEIGHT, late.pop(0))
    return made


def with_bubbles(orders, last_stage):
    """The orders with None wherever a process has to wait for another one."""
    seen: set = set()
    made: dict = {rank: [] for rank in orders}
    place = dict.fromkeys(orders, 0)

    def waits(action):
        stage, kind, number = action[:3]
        if kind == FORWARD:
            return stage != 0 and (stage - 1, kind, number) not in seen
        if kind == FULL_BACKWARD:
            before = (stage, FORWARD, number) if stage == last_stage else (stage + 1, kind, number)
            return before not in seen
        return False

    while any(place[r] < len(orders[r]) for r in orders):
        now = set()
        for rank, order in orders.items():
            if place[rank] >= len(order):
                continue
            action = order[place[rank]]
            if action is not None and waits(action):
                made[rank].append(None)
                continue
            made[rank].append(action)
            place[rank] += 1
            if action is not None:
                now.add(tuple(action[:3]))
        seen |= now
    return made


class _Order:
    """An order that is being made: microbatches are counted by stage and kind."""

    def __init__(self, first=()):
        self.actions, self.seen, self.late = list(first), Counter(), []

    def add(self, stage, *kinds):
        for kind in kinds:
            counted = BACKWARD_INPUT if kind == FULL_BACKWARD else kind
            number = self.seen[stage, counted]
            self.seen[stage, counted] += 1
            if kind == FULL_BACKWARD:
                self.seen[stage, BACKWARD_WEIGHT] += 1
            self.actions.append(_Action(stage, kind, number))
            if kind == BACKWARD_INPUT:
                self.late.append((stage, number))

    def count(self, stage, kind):
        return self.seen[stage, kind]


def zero_bubble_v(rank, size, count):
    """Two stages a process, there and back again; each backward in two halves (https://arxiv.org/abs/2401.10241)."""
    there, back = rank, 2 * size - 1 - rank
    many = max(2 * size - 1, count)
    order = _Order([None] * rank)
    both = BACKWARD_INPUT, BACKWARD_WEIGHT
    for _ in range(2 * (size - rank) - 1):
        order.add(there, FORWARD)
    for _ in range(rank):
        order.add(back, FORWARD)
        order.add(there, FORWARD)
    for _ in range(size - rank):
        order.add(back, FORWARD, *both)
    while order.count(back, FORWARD) < order.count(there, FORWARD) or order.count(there, FORWARD) < many:
        if order.count(there, FORWARD) < many:
            order.add(there, FORWARD)
        order.add(there, *both)
        order.add(back, FORWARD, *both)
    for _ in range(rank):
        order.add(there, BACKWARD_INPUT)
        order.add(back, BACKWARD_INPUT)
    for _ in range(size - rank):
        order.add(there, *both)
    for stage in (back, there):
        while order.count(stage, BACKWARD_WEIGHT) < order.count(stage, BACKWARD_INPUT):
            order.add(stage, BACKWARD_WEIGHT)
    return [a if a is not None and a.microbatch_index < count else None for a in order.actions]


def dual_pipe_v(rank, size, count):
    """DualPipe folded into a V: forward and backward of different microbatches side by side
    (https://arxiv.org/abs/2412.19437)."""
    there, back = generate_rank_to_stage_mapping(size, size * 2, "v")[rank]
    order = _Order()

    def overlap(forward, backward):
        pair = (
            _Action(forward, FORWARD, order.count(forward, FORWARD)),
            _Action(backward, FULL_BACKWARD, order.count(backward, BACKWARD_INPUT)),
        )
        order.seen[forward, FORWARD] += 1
        order.seen[backward, BACKWARD_INPUT] += 1
        order.seen[backward, BACKWARD_WEIGHT] += 1
        order.actions.append(_Action(-1, OVERLAP_F_B, None, pair))

    def weight():
        if order.late:
            stage, number = order.late.pop(0)
            order.seen[stage, BACKWARD_WEIGHT] += 1
            order.actions.append(_Action(stage, BACKWARD_WEIGHT, number))

    after = size - rank - 1
    for _ in range(2 * after):
        order.add(there, FORWARD)
    for _ in range(rank + 1):
        order.add(there, FORWARD)
        order.add(back, FORWARD)
    for _ in range(after):
        order.add(back, BACKWARD_INPUT)
        weight()
        order.add(back, FORWARD)
    for i in range(count - 2 * size + rank + 1):
        if i == 0 and after == 0:
            order.add(there, FORWARD)
            order.add(back, FULL_BACKWARD)
        else:
            overlap(there, back)
        overlap(back, there)
    for _ in range(after):
        order.add(back, FULL_BACKWARD)
        overlap(back, there)
    split, half = False, (rank + 1) // 2
    for i in range(rank + 1):
        split = split or (i == half and rank % 2 == 1)
        order.add(back, BACKWARD_INPUT if split else FULL_BACKWARD)
        split = split or (i == half and rank % 2 == 0)
        order.add(there, BACKWARD_INPUT if split else FULL_BACKWARD)
    for _ in range(after):
        weight()
        order.add(there, BACKWARD_INPUT if split else FULL_BACKWARD)
    for _ in range(rank + 1):
        weight()
    return order.actions
