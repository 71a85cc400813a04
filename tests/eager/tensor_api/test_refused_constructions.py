"""Constructors that get what they cannot take: another layout or dtype than that of ``out``, devices, sizes that overflow."""

import numpy as np
import pytest
import torch as reference

import ftorch


@pytest.mark.parametrize("call", [
    *[f"t.{name}((3, 4), layout=t.{layout}, out=t.zeros(3, 4))" for name in ("zeros", "ones", "empty", "rand")
      for layout in ("sparse_coo", "strided", "sparse_csr")],
    "t.full((2,), 1., layout=t.sparse_coo, out=t.zeros(2))", "t.randint(3, (2,), layout=t.sparse_coo, out=t.zeros(2))",
    "t.randperm(2, layout=t.sparse_coo, out=t.zeros(2))", "t.randperm(2, dtype=t.int64, out=t.zeros(2))",
    "t.randperm(2, out=t.zeros(2))", "t.randperm(2, dtype=t.int32).dtype", "t.randperm(2).dtype",
    "t.empty(0, 4, 2305843009213693952)", "t.empty(4, 0, 2**62)", "t.empty(2**31, 2**32, 0)", "t.empty(0, 2**31, 2**32)",
    "t.empty_strided([8, 8], [2**61, 1], dtype=t.float64)", "t.empty_strided([0, 8], [2**61, 1])",
    "t.FloatTensor(device='meta')", "t.FloatTensor((2.,), device='meta')", "t.Tensor(2, device='meta')",
    "t.Tensor(t.ones(1), device='cpu')", "t.ones(1).new(t.ones(1), device='cpu')", "t.ones(1).new(device='meta')",
    "t.ones(1).new((2.,), device='meta')", "t.Tensor(2, device='cpu').shape", "t.ones(1).new(3, device='cpu').shape",
    "t.frombuffer(bytearray(4), dtype=t.int8, count=0)", "t.frombuffer(np.array([]), dtype=t.int8)",
])
def test_calls(call):
    def told(t):
        try:
            made = eval(call, {"t": t, "np": np})
        except (RuntimeError, ValueError) as error:
            return type(error).__name__, str(error)
        return str(made.shape) if isinstance(made, t.Tensor) else str(made)

    assert told(ftorch) == told(reference)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_full_of_a_complex_number(dtype):
    def told(t):
        before = t.get_default_dtype()
        t.set_default_dtype(getattr(t, dtype))
        try:
            return [str(t.full((2,), value).dtype) for value in (1j, 1., 1, True)]
        finally:
            t.set_default_dtype(before)

    assert told(ftorch) == told(reference)
