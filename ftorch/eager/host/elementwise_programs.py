"""Fused elementwise programs and reductions on NumPy arrays, without XLA.

`elementwise` makes a program, once for all sizes. It runs on blocks of some hundred elements, one
instruction after the other, so that nothing but its results is written to memory; every instruction rounds its
result (no multiply-adds are fused), and the same numbers give the same bits whatever the sizes, the place in an
array, the processor's instructions and the number of threads. Values are numbered: first the inputs, then the
constants, then one for each instruction::

    >>> import numpy as np
    >>> if available:  # tanh(x * y) + 1, and its sum along the last dimension
    ...     program = elementwise(
    ...         inputs=("float32", "float32"),
    ...         constants=(("float32", 1.0),),
    ...         instructions=(("mul", "float32", 0, 1), ("tanh", "float32", 3), ("add", "float32", 4, 2)),
    ...         outputs=(5, ("reduce_sum", 5)),
    ...         axes=(1,),
    ...     )
    ...     y, total = program([np.zeros((2, 3), np.float32), np.float32(2)], (2, 3))
    ...     print(y.tolist(), total.tolist())
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]] [3.0, 3.0]

An instruction is (primitive, dtype of its operands, *operands); ``convert_element_type`` has a second dtype, that of its
result, behind the first: ``("convert_element_type", "int32", "float32", 0)``. Comparisons and ``is_finite`` give "bool",
``select_n`` is (which, where false, where true) and its dtype that of the choices, ``clamp`` (least, x, greatest);
float16 and bfloat16 are computed in float32 and rounded after each instruction (reductions of them are not: convert first);
``integer_pow`` takes its exponent behind the operand; ``round`` rounds halves to even, ``round_away`` away from zero.

A call gives the inputs (arrays of any strides, or Python's numbers for ones without dimensions) and the shape that the
program is computed for. Inputs are broadcast to it as NumPy does, or with ``dims`` as ``broadcast_in_dim`` does. Its
third argument, a list, says for each output where to write it (an array of any strides, which may be an
input's memory if it is exactly that), or None for a new array. New arrays are aligned to 64 bytes, so that JAX takes
them without a copy, and their memory is used again when they are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..native import available, module
from ..native.elementwise_code import DTYPES, PRIMITIVES, REDUCTIONS, TYPES, encoded, supports

__all__ = ["DTYPES", "PRIMITIVES", "REDUCTIONS", "available", "elementwise", "supports"]


def elementwise(
    inputs: Sequence, instructions: Sequence, outputs: Sequence, constants: Sequence = (), dims=None, axes=()
):
    """A program of elementwise instructions: ``program(inputs, shape, out=None) -> list of arrays``.

    Args:
        inputs: their dtypes.
        instructions: as above.
        outputs: numbers of values, or (reduction, number), reduced along ``axes``.
        constants: (dtype, number) of each.
        dims: for each input None, or which dimension of the program each of its own is.
        axes: the dimensions that reductions go along.

    Raises:
        ValueError: if it has an operation on a dtype that there is not, or operands of other dtypes.
    """
    constants, code, results = encoded(inputs, instructions, outputs, constants)
    fixed = tuple((TYPES[np.dtype(d)], np.asarray(x).item()) for d, x in constants)
    places = (None,) * len(inputs) if dims is None else tuple(d if d is None else tuple(d) for d in dims)
    return module.Program(
        tuple(TYPES[np.dtype(d)] for d in inputs), fixed, tuple(code), tuple(results), places, tuple(axes)
    )
