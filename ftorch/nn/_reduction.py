"""What the losses' argument ``reduction`` means (``torch.nn._reduction``)."""

from __future__ import annotations

import warnings


def get_enum(reduction: str) -> int:
    """The number that operators take for a name.

    Raises:
        ValueError: there is no such reduction.

    >>> from ftorch.nn._reduction import get_enum
    >>> get_enum("none"), get_enum("mean"), get_enum("sum")
    (0, 1, 2)
    """
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
        return 1
    try:
        return ("none", "mean", "sum").index(reduction)
    except ValueError:
        raise ValueError(f"{reduction} is not a valid value for reduction") from None


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The name for the two arguments that there were before, with a warning.

    >>> from ftorch.nn._reduction import legacy_get_string
    >>> legacy_get_string(False, None, emit_warning=False)
    'sum'
    """
    averaged, reduced = (value is None or bool(value) for value in (size_average, reduce))
    name = ("mean" if averaged else "sum") if reduced else "none"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.", stacklevel=2
        )
    return name


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """`get_enum` of `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
