"""Enumerations: the numbers by which Python names things to the kernels, as ``src/codes.h`` has them.

`differing` compares them with those that the library was built with.
"""

from __future__ import annotations

from enum import IntEnum


class Epilogue(IntEnum):
    """What becomes of a product's results."""

    ADD, SUBTRACT, MULTIPLY, RECTIFY, MASK = range(5)


class GroupStep(IntEnum):
    """Steps of several results."""

    PLUS, MINUS, TIMES, OVER, GREATER, LESS, NEGATIVE, ABSOLUTE, SIGN, SQUARE, ROOT, CHOICE = range(
        12
    )


class Scan(IntEnum):
    """Cumulative functions."""

    SUM, PRODUCT, MAXIMUM, MINIMUM, LOG_SUM = range(5)


class Selection(IntEnum):
    """Which elements are looked for: that of a rank, the first ones in any order, or sorted."""

    RANKED, TOP, SORTED_TOP = range(3)


class ElementType(IntEnum):
    """Types of elements of elementwise programs."""

    BOOL, I8, U8, I16, I32, U32, I64, F32, F64, F16, BF16 = range(11)


class Reduction(IntEnum):
    """Reductions in which elementwise programs end."""

    SUM, PRODUCT, GREATEST, LEAST, ALL, ANY = range(6)


class Draw(IntEnum):
    """What few random numbers are drawn of."""

    UNIFORM32, UNIFORM64, INTEGER, PERMUTATION, COIN = range(5)


class Write(IntEnum):
    """How an in-place call is done in memory."""

    (
        NO_WRITE, FILL, COPY, SET_ROWS, ADD_ROWS, FILL_ROWS, SET_ELEMENTS, ADD_ELEMENTS, FILL_ELEMENTS, COMPUTE, PUT, ADD_AT
    ) = range(12)


class Call(IntEnum):
    """What a call of a public function comes to. OUT: its last operand is written to; ASK: a class of tensors has a say."""

    SLOW, CALL, INPLACE, VIEW, OUT, ASK = range(6)


class Getter(IntEnum):
    """What a plain tensor's geometry answers by itself."""

    NONE, DIM, NUMEL, SIZE, STRIDE, IS_CONTIGUOUS = range(6)


LISTS: dict[str, type[IntEnum]] = {
    "EPILOGUES": Epilogue,
    "GROUP_STEPS": GroupStep,
    "SCANS": Scan,
    "SELECTIONS": Selection,
    "ELEMENT_TYPES": ElementType,
    "REDUCTIONS": Reduction,
    "DRAWS": Draw,
    "WRITES": Write,
    "CALLS": Call,
    "GETTERS": Getter,
}


def differing(module) -> list[str]:
    """The lists that a library of kernels was built with other numbers of."""
    built = module.codes() if hasattr(module, "codes") else {}
    return [
        name
        for name, own in LISTS.items()
        if built.get(name, "").split() != [member.name for member in own]
    ]
