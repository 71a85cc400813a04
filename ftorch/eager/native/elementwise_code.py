"""Elementwise programs as lists of integers (``src/elementwise.h``), for the host tier and for programs of XLA's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import available, module
from .codes import ElementType, Reduction

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
TYPES: dict = {np.dtype(name): code.value for name, code in _NAMES_OF_TYPES.items()}
TYPES |= {name: code.value for name, code in _NAMES_OF_TYPES.items()}

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
    code, own = PRIMITIVES.get(primitive), TYPES.get(np.dtype(dtype))
    if not available or own is None:
        return False
    if primitive in REDUCTIONS:
        return module.supports_reduction(REDUCTIONS[primitive], own)
    to = own if other is None else TYPES.get(np.dtype(other))
    return code is not None and to is not None and module.supports(code, own, to)


def encoded(inputs: Sequence, instructions: Sequence, outputs: Sequence, constants: Sequence):
    """(constants, instructions of six integers in one list, (value, reduction or -1) of each output) of a program.

    Args:
        inputs, instructions, outputs, constants: as `ftorch.eager.host.elementwise_programs.elementwise` takes them.
    """
    numbers = list(range(len(inputs) + len(constants)))  # of the values that users number: the program's own
    powers = {np.dtype(i[1]) for i in instructions if i[0] == "integer_pow" and i[3] <= 0}
    constants = [*constants, *((dtype, 1) for dtype in powers)]
    ones = {TYPES[dtype]: len(numbers) + i for i, dtype in enumerate(powers)}
    first = len(inputs) + len(constants)
    code: list[int] = []

    def add(operation, dtype, other, *operands):
        operands = (*operands, 0, 0)[:3]
        code.extend((operation, dtype, other, *operands))
        return first + len(code) // 6 - 1

    for name, dtype, *operands in instructions:
        own = other = TYPES[dtype if isinstance(dtype, str) else np.dtype(dtype)]
        if name == "convert_element_type":
            to = operands.pop(0)
            other = TYPES[to if isinstance(to, str) else np.dtype(to)]
        if name == "integer_pow":
            numbers.append(_power(add, ones, own, numbers[operands[0]], operands[1]))
            continue
        operands = [numbers[n] for n in operands]
        if name == "square":
            operands *= 2
        numbers.append(add(PRIMITIVES[name], own, other, *operands))
    results, seen = [], set()
    types = [TYPES[np.dtype(d)] for d in inputs] + [TYPES[np.dtype(d)] for d, _ in constants]
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
    return constants, code, results


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
