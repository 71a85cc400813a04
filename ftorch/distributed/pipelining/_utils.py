"""Which process has which stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PipeInfo", "generate_rank_to_stage_mapping", "generate_stage_to_rank_mapping"]


@dataclass
class PipeInfo:
    """A `Pipe` in short: its graph, the number of stages, and whether a loss is part of it."""

    graph: Any
    num_stages: int
    has_loss_and_backward: bool = False


def generate_stage_to_rank_mapping(pp_size: int, num_stages: int, style: str = "loop") -> dict[int, int]:
    """The process of each stage: round by round (``"loop"``), or there and back again (``"v"``).

    Raises:
        ValueError: for another style, or a ``"v"`` whose stages do not divide evenly.

    >>> generate_stage_to_rank_mapping(2, 4, "v")
    {0: 0, 1: 1, 2: 1, 3: 0}
    """
    if style == "loop":
        return {stage: stage % pp_size for stage in range(num_stages)}
    if style != "v":
        raise ValueError(f"Style {style} is not supported.")
    if num_stages % pp_size:
        raise ValueError(
            f"num_stages {num_stages} must be evenly divisible by pp_size {pp_size} for V schedules"
        )
    made = {}
    for stage in range(num_stages):
        lap, place = divmod(stage, pp_size)
        made[stage] = pp_size - 1 - place if lap % 2 else place
    return made


def generate_rank_to_stage_mapping(pp_size: int, num_stages: int, style: str = "loop") -> dict[int, list[int]]:
    """The stages of each process."""
    made: dict[int, list[int]] = {}
    for stage, rank in generate_stage_to_rank_mapping(pp_size, num_stages, style).items():
        made.setdefault(rank, []).append(stage)
    return made


def as_tuple(value) -> tuple:
    """A module's output as a tuple."""
    return tuple(value) if type(value) in (tuple, list) else (value,)
