"""Sizes that no machine has: RuntimeErrors in PyTorch's words, where the call is made."""

from __future__ import annotations

import pytest
import torch as reference

import ftorch

_CALLS = {
    "zeros": lambda lib: lib.zeros(10**13),
    "empty": lambda lib: lib.empty(10**13),
    "full": lambda lib: lib.full((10**13,), 3.0),
    "randn": lambda lib: lib.randn(10**6, 10**6),
    "rand": lambda lib: lib.rand(10**6, 10**6),
    "randint": lambda lib: lib.randint(0, 5, (10**12,)),
    "randperm": lambda lib: lib.randperm(10**13),
    "arange": lambda lib: lib.arange(10**13),
    "eye": lambda lib: lib.eye(10**6),
    "contiguous": lambda lib: lib.ones(10**7).expand(10**6, 10**7).contiguous(),
    "broadcast": lambda lib: lib.ones(10**6)[:, None] + lib.ones(10**6),
    "matmul": lambda lib: lib.zeros(10**6, 1) @ lib.zeros(1, 10**7),
    "repeat": lambda lib: lib.zeros(3).repeat(10**12),
    "resize_": lambda lib: lib.zeros(1).resize_(10**13),
    "storage": lambda lib: lib.UntypedStorage(10**14),
    "linear": lambda lib: lib.nn.Linear(10**6, 10**7),
    "new_zeros": lambda lib: lib.zeros(1).new_zeros(10**13),
    "zeros_like": lambda lib: lib.zeros_like(lib.zeros(1).expand(10**13)),
    "overflow": lambda lib: lib.zeros(10**10, 10**10),
    "just overflow": lambda lib: lib.zeros(1 << 61),
    "nearly overflow": lambda lib: lib.zeros(10**18),
}


@pytest.mark.parametrize("name", _CALLS)
def test_the_error_is_that_of_pytorch(name):
    messages = []
    for lib in (reference, ftorch):
        with pytest.raises(RuntimeError) as error:
            _CALLS[name](lib)
        messages.append(str(error.value).splitlines()[0])
    assert messages[0] == messages[1]


def test_meta_tensors_have_no_memory():
    t = ftorch.zeros(10**13, device="meta")
    assert t.numel() == 10**13
    assert (t + t).shape == (10**13,)
