"""Trace encoding: one flat list, each step's plan followed by its operands, which are integers.

An operand from 0 on is a slot (the results of all steps are numbered through), -1 the first input, -2 the second. A
plan's numbers (`Plan.scalars`) lie apart in two lists, of integers and of floats. Nothing else knows that.
"""

from __future__ import annotations

from .scalars import COMPLEX, INT


def steps_of(code) -> list:
    """The steps, in order: (plan, operands)."""
    steps, i, end = [], 0, len(code)
    while i < end:
        plan = code[i]
        j = i + 1
        while j < end and code[j].__class__ is int:
            j += 1
        steps.append((plan, code[i + 1 : j]))
        i = j
    return steps


def steps_back(code):
    """The steps, the last one first."""
    end = len(code)
    while end:
        i = end - 1
        while code[i].__class__ is int:
            i -= 1
        yield code[i], code[i + 1 : end]
        end = i


def counts_of_numbers(plan) -> tuple[int, int]:
    """How many of a step's numbers are among the integers, and how many among the floats, where a complex one is two."""
    ints = plan.scalars.count(INT)
    return ints, len(plan.scalars) - ints + plan.scalars.count(COMPLEX)
