"""Buffer donation: memory that a program takes over from operands which nobody else holds.

XLA writes results over operands that are donated to it only where the memory is its own: an array of NumPy's is copied
before, so that both are there at one time. And what was freed before lies in pieces that its large blocks do not fit
into. So a program's first run gets copies of XLA's, made one by one, and pages of free memory go back to the kernel.
"""

from __future__ import annotations

import sys

import numpy as np

from ... import _arrays
from ..core import device as _device
from ..core import jax_internals
from ..core.refcount import ITEM
from ..memory import host_memory

_LARGE = 1 << 26  # bytes that are worth a compilation
_OWNED_BYTES = 1 << 20  # of an array of NumPy's; what is smaller XLA copies by itself
_SPARED_BYTES = 1 << 24


class EarlyPrograms:
    """Which traces are compiled when they come for the first time: those that replace much.

    By steps, what a trace replaces stays until all of it has run; a program writes over it. What is compiled early
    and never comes again was compiled for nothing, so that this is done as long as most do come again.

    Attributes:
        left: how many more may be compiled early.
    """

    def __init__(self):
        self.left = 4
        self._waiting = set()

    def may_want(self, size) -> bool:
        """Whether a trace whose results take so many bytes may be compiled at once."""
        return size > _LARGE

    def wants(self, program, inputs) -> bool:
        """Whether a trace is to be compiled at once.

        Args:
            program: what is known of it, with ``reusable``, the inputs whose memory a result could take.
        """
        if self.left <= 0:
            return False
        found = 0
        for i in program.reusable:
            if sys.getrefcount(inputs[i]) == ITEM:
                found += inputs[i].nbytes
        if found <= _LARGE:
            return False
        self.left -= 1
        self._waiting.add(program)
        return True

    def came_again(self, program):
        """Notes that a compiled program was found."""
        if program in self._waiting:
            self._waiting.discard(program)
            self.left += 1


early_programs = EarlyPrograms()


def hand_over(arrays: list, places) -> None:
    """Puts arrays whose memory XLA owns in the places of large ones of NumPy's, which are freed one by one."""
    for i in places:
        array = arrays[i]
        if array.__class__ is np.ndarray and array.nbytes > _OWNED_BYTES:
            arrays[i] = None
            try:
                arrays[i] = jax_internals.owned_copy(array, _device.to_jax(_device.CPU))
            finally:
                if arrays[i] is None:
                    arrays[i] = array
            del array
            jax_internals.collect_garbage()  # JAX lets go of what it has read when it comes to it


def prepare(function, kept, given, rest, device) -> list:
    """Compiles a program that did not run yet; gives what it may use up.

    Compiling can be interrupted, or fail: only then is anything given away. Between the first run, which is a call of
    many instructions of Python's, and its end an interrupt would lose what is given: where it is little, it is copied.

    Args:
        function: a jitted function of (kept, given, *rest).
    """
    size = sum([a.nbytes for a in given])
    if size + sum([a.nbytes for a in kept]) > _SPARED_BYTES:
        compiled = function.lower(kept, given, *rest).compile()
        if device is _device.CPU:
            found = compiled.memory_analysis()
            host_memory.free_memory.temporary = max(
                host_memory.free_memory.temporary, getattr(found, "temp_size_in_bytes", 0)
            )
            host_memory.free_memory.give_all_back()  # the steps' memory, too: the program has its own
    if size > _SPARED_BYTES or not given:
        return given
    if device is _device.CPU:
        return [_device.put(_arrays.aligned_copy(np.asarray(a)), device) for a in given]
    return [a.copy() for a in given]
