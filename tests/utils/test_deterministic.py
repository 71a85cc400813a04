"""In deterministic mode memory that nobody has written to holds what is soon noticed, as PyTorch's does."""

from __future__ import annotations

import pytest
import torch as reference

import ftorch

MADE = [
    "empty(2)", "empty(2, dtype=torch.complex64)", "empty(2, dtype=torch.int8)", "empty(2, dtype=torch.uint8)",
    "empty(3, dtype=torch.bool)", "empty(2, dtype=torch.uint16)", "empty(2, dtype=torch.bfloat16)",
    "empty(2, dtype=torch.uint64)", "empty_strided((2, 2), (1, 2), dtype=torch.uint64)",
    "ones(2, dtype=torch.uint64).resize_(4)", "empty(2, dtype=torch.uint64, out=torch.ones(1, dtype=torch.uint64))",
    "empty_like(torch.ones(2, 2))",
    "ones(2).new_empty(2)", "empty_strided((2,), (2,))", "ones(2).new_empty_strided((2,), (1,))", "ones(2).resize_(4)",
    "empty_permuted((2, 3), (1, 0))", "Tensor(2)", "empty(2, out=torch.ones(1))", "ones(2).resize_as_(torch.ones(3))",
    "ones(4).resize_(2).resize_(4)",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", MADE)
def test_filled_memory(expression):
    shown = []
    for torch in (ftorch, reference):
        torch.use_deterministic_algorithms(True)
        try:
            shown.append(repr(eval(f"torch.{expression}", {"torch": torch})))
        finally:
            torch.use_deterministic_algorithms(False)
    assert shown[0] == shown[1]


def test_it_can_be_left_as_it_is():
    ftorch.use_deterministic_algorithms(True)
    ftorch.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert not ftorch.empty(3).isnan().any()
    finally:
        ftorch.utils.deterministic.fill_uninitialized_memory = True
        ftorch.use_deterministic_algorithms(False)
