"""PyTorch as the oracle of the tests: the same values and programs in both libraries, and whether they agree."""

from .programs import (
    LIBRARIES,
    assert_same_outcome,
    assert_says_same,
    assert_shows_same,
    both,
    both_with_text,
    outcome,
    said,
    shown,
)
from .texts import assert_prints_same, programs
from .values import (
    TOLERANCE,
    array,
    assert_same,
    dtypes,
    is_tensor,
    name_of,
    plain,
    tensors,
    to_ftorch,
    to_torch,
)

__all__ = [
    "LIBRARIES",
    "TOLERANCE",
    "array",
    "assert_prints_same",
    "assert_same",
    "assert_same_outcome",
    "assert_says_same",
    "assert_shows_same",
    "both",
    "both_with_text",
    "dtypes",
    "is_tensor",
    "name_of",
    "outcome",
    "plain",
    "programs",
    "said",
    "shown",
    "tensors",
    "to_ftorch",
    "to_torch",
]
