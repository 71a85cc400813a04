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
from ..native.codes import ElementType, Reduction

_NAMES_OF_TYPES = {
    "bool": ElementType.BOOL,
    "int8": ElementType.I8,
    "uint8": ElementType.U8,
    "int16": ElementType.I16,
    "int32": ElementType.I32,
    "uint32": ElementType.U32,
    "int64": ElementType.I64,
    "float32": ElementType.F32,
    "float64": ElementType.F64,
}
DTYPES = tuple(_NAMES_OF_TYPES)
_TYPES: dict = {np.dtype(name): code.value for name, code in _NAMES_OF_TYPES.items()}
_TYPES |= {name: code.value for name, code in _NAMES_OF_TYPES.items()}

_RENAMED = {
    "SHIFT_RIGHT_LOGICAL": "shift_right_logical", "ROUND_EVEN": "round", "ROUND_AWAY": "round_away",
    "SELECT": "select_n", "CONVERT": "convert_element_type",
}
_names = module.codes()["OPERATIONS"].split() if available else ()
#: {primitive: code} of what programs have; see `supports` for the dtypes.
PRIMITIVES: dict[str, int] = {_RENAMED.get(name, name.lower()): code for code, name in enumerate(_names)}
if available:
    PRIMITIVES |= {"add_any": PRIMITIVES["add"], "stop_gradient": PRIMITIVES["copy"], "copy_p": PRIMITIVES["copy"]}
    PRIMITIVES |= {"square": PRIMITIVES["mul"], "integer_pow": PRIMITIVES["mul"]}
#: {primitive: code} of the reductions in which programs may end.
REDUCTIONS: dict[str, int] = {
    "reduce_sum": Reduction.SUM.value,
    "reduce_prod": Reduction.PRODUCT.value,
    "reduce_max": Reduction.GREATEST.value,
    "reduce_min": Reduction.LEAST.value,
    "reduce_and": Reduction.ALL.value,
    "reduce_or": Reduction.ANY.value,
}


def supports(primitive: str, dtype, other=None) -> bool:
    """Whether programs have a primitive (or reduction) for operands of a dtype.

    Args:
        other: the result's dtype, of ``convert_element_type``.
    """
    code, own = PRIMITIVES.get(primitive), _TYPES.get(np.dtype(dtype))
    if not available or own is None:
        return False
    if primitive in REDUCTIONS:
        return module.supports_reduction(REDUCTIONS[primitive], own)
    to = own if other is None else _TYPES.get(np.dtype(other))
    return code is not None and to is not None and module.supports(code, own, to)


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
    numbers = list(range(len(inputs) + len(constants)))  # of the values that users number: the program's own
    powers = {np.dtype(i[1]) for i in instructions if i[0] == "integer_pow" and i[3] <= 0}
    constants = [*constants, *((dtype, 1) for dtype in powers)]
    ones = {_TYPES[dtype]: len(numbers) + i for i, dtype in enumerate(powers)}
    first = len(inputs) + len(constants)
    code: list[int] = []

    def add(operation, dtype, other, *operands):
        operands = (*operands, 0, 0)[:3]
        code.extend((operation, dtype, other, *operands))
        return first + len(code) // 6 - 1

    for name, dtype, *operands in instructions:
        own = other = _TYPES[dtype if isinstance(dtype, str) else np.dtype(dtype)]
        if name == "convert_element_type":
            to = operands.pop(0)
            other = _TYPES[to if isinstance(to, str) else np.dtype(to)]
        if name == "integer_pow":
            numbers.append(_power(add, ones, own, numbers[operands[0]], operands[1]))
            continue
        operands = [numbers[n] for n in operands]
        if name == "square":
            operands *= 2
        numbers.append(add(PRIMITIVES[name], own, other, *operands))
    results, seen = [], set()
    types = [_TYPES[np.dtype(d)] for d in inputs] + [_TYPES[np.dtype(d)] for d, _ in constants]
    for output in outputs:
        if isinstance(output, tuple):
            results.append((numbers[output[1]], REDUCTIONS[output[0]]))
            continue
        value = numbers[output]
        if value < first or value in seen:
            own = types[value] if value < first else _result(code, value - first)
            value = add(PRIMITIVES["copy"], own, own, value)
        seen.add(value)
        results.append((value, -1))
    fixed = tuple((_TYPES[np.dtype(d)], np.asarray(x).item()) for d, x in constants)
    places = (None,) * len(inputs) if dims is None else tuple(d if d is None else tuple(d) for d in dims)
    return module.Program(
        tuple(_TYPES[np.dtype(d)] for d in inputs), fixed, tuple(code), tuple(results), places, tuple(axes)
    )


def _result(code, k):
    """The code of the dtype of an instruction's result."""
    operation, own, other = code[6 * k : 6 * k + 3]
    if operation == PRIMITIVES["convert_element_type"]:
        return other
    return 0 if PRIMITIVES["eq"] <= operation <= PRIMITIVES["ge"] or operation == PRIMITIVES["is_finite"] else own


def _power(add, ones, dtype, x, exponent):
    """A power by squaring, as XLA makes it."""
    mul, result, n = PRIMITIVES["mul"], None, abs(exponent)
    while n:
        if n & 1:
            result = x if result is None else add(mul, dtype, dtype, result, x)
        n >>= 1
        if n:
            x = add(mul, dtype, dtype, x, x)
    if result is None:
        return ones[dtype]
    return result if exponent > 0 else add(PRIMITIVES["div"], dtype, dtype, ones[dtype], result)
