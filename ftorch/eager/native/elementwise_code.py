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
    "float16": ElementType.F16,
    "bfloat16": ElementType.BF16,
}
DTYPES = tuple(_NAMES_OF_TYPES)
TYPES: dict = {np.dtype(name): code.value for name, code in _NAMES_OF_TYPES.items()}
_DTYPES = {code: dtype for dtype, code in TYPES.items()}
TYPES |= {name: code.value for name, code in _NAMES_OF_TYPES.items()}

_WIDE = np.dtype(np.float32)
_NARROW = {TYPES[name] for name in ("float16", "bfloat16")}  # moved as they are, computed with in float32
_MOVES = frozenset(("select_n", "copy", "copy_p", "stop_gradient"))
_TO_BOOLEANS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "is_finite"))
_EXACT = tuple(map(np.dtype, (np.bool_, np.int8, np.uint8, np.int16)))  # integers that float32 has

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
    if primitive == "convert_element_type" and other is not None and TYPES.get(np.dtype(other)) in _NARROW:
        return own in _NARROW or dtype == _WIDE or dtype in _EXACT
    if own in _NARROW and primitive not in _MOVES:
        # Powers are made of products, each of which is rounded.
        return primitive not in REDUCTIONS and primitive != "integer_pow" and supports(primitive, _WIDE, other)
    if primitive in REDUCTIONS:
        return module.supports_reduction(REDUCTIONS[primitive], own)
    to = own if other is None else TYPES.get(np.dtype(other))
    return code is not None and to is not None and module.supports(code, own, to)


def encoded(inputs: Sequence, instructions: Sequence, outputs: Sequence, constants: Sequence):
    """(constants, instructions of six integers in one list, (value, reduction or -1) of each output) of a program.

    Args:
        inputs, instructions, outputs, constants: as `ftorch.eager.host.elementwise_programs.elementwise` takes them.
    """
    instructions, outputs, constants = _in_float32(inputs, instructions, outputs, constants)
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
        own = other = _code(dtype)
        if name == "convert_element_type":
            other = _code(operands.pop(0))
        if name == "integer_pow":
            numbers.append(_power(add, ones, own, numbers[operands[0]], operands[1]))
            continue
        operands = [numbers[n] for n in operands]
        if name == "square":
            operands *= 2
        numbers.append(add(PRIMITIVES[name], own, other, *operands))
    results, seen = [], set()
    types = [_code(d) for d in (*inputs, *(d for d, _ in constants))]
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


def _in_float32(inputs, instructions, outputs, constants):
    """(instructions, outputs, constants) that compute in float32 what is to be of 16 bits, each result rounded to these."""
    types = [_code(d) for d in (*inputs, *(d for d, _ in constants))]
    if _NARROW.isdisjoint(types) and not any(_code(i[1]) in _NARROW or _narrows(i) for i in instructions):
        return instructions, outputs, constants
    first = len(types)
    made: list[tuple] = []
    own = list(range(first))  # of the values that users number: the program's own, and what they are in float32
    wide: list = [None] * first
    for i, _ in enumerate(constants, len(inputs)):
        if types[i] in _NARROW:
            own[i], wide[i] = None, i
    constants = [(_WIDE if _code(dtype) in _NARROW else dtype, x) for dtype, x in constants]

    def add(*instruction):
        made.append(instruction)
        return first + len(made) - 1

    def widened(n):
        if wide[n] is None:
            wide[n] = add("convert_element_type", _DTYPES[types[n]], _WIDE, own[n])
        return wide[n]

    def moved(n):
        if own[n] is None:
            own[n] = add("convert_element_type", _WIDE, _DTYPES[types[n]], wide[n])
        return own[n]

    def give(dtype, number, in_float32=None):
        types.append(_code(dtype))
        own.append(number)
        wide.append(in_float32)

    for name, dtype, *operands in instructions:
        is_narrow = _code(dtype) in _NARROW
        if name == "convert_element_type":
            to, n = operands
            if _code(to) in _NARROW:
                source = widened(n) if is_narrow else own[n]
                if not is_narrow and np.dtype(dtype) != _WIDE:
                    source = add(name, dtype, _WIDE, source)
                give(to, add(name, _WIDE, to, source))
            elif is_narrow and np.dtype(to) == _WIDE:
                give(to, widened(n))
            else:
                give(to, add(name, _WIDE if is_narrow else dtype, to, widened(n) if is_narrow else own[n]))
        elif not is_narrow:
            count = 1 if name == "integer_pow" else len(operands)
            give(_given(name, dtype), add(name, dtype, *(own[n] for n in operands[:count]), *operands[count:]))
        elif name in _MOVES:
            give(dtype, add(name, dtype, *map(moved, operands)))
        else:
            found = add(name, _WIDE, *map(widened, operands))
            to = _given(name, dtype)
            give(to, found if to is not dtype else add("convert_element_type", _WIDE, dtype, found))
    listed = [(o[0], own[o[1]]) if isinstance(o, tuple) else moved(o) for o in outputs]
    return made, listed, constants


def _code(dtype):
    return TYPES[dtype if isinstance(dtype, str) else np.dtype(dtype)]


def _narrows(instruction):
    return instruction[0] == "convert_element_type" and _code(instruction[2]) in _NARROW


def _given(name, dtype):
    """The dtype of what an operation gives."""
    return np.bool_ if name in _TO_BOOLEANS else dtype


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
