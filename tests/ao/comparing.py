"""Running a program of quantized tensors in both libraries, and comparing what it gives, integer by integer."""

import re

import numpy as np
import torch

import ftorch
from tests.oracle import shown


def parts(value):
    """A result as comparable values: arrays, and plain objects."""
    if isinstance(value, (tuple, list)):
        return [p for v in value for p in parts(v)]
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in (k, *parts(v))]
    if not hasattr(value, "is_quantized"):
        return [value]
    if not value.is_quantized:
        return [value.detach().numpy(), str(value.dtype)]
    found = [value.int_repr().numpy(), str(value.dtype), tuple(value.shape), str(value.qscheme())]
    if "per_tensor" in found[-1]:
        return [*found, value.q_scale(), value.q_zero_point()]
    return [*found, value.q_per_channel_scales().numpy(), value.q_per_channel_zero_points().numpy(),
            value.q_per_channel_axis()]


def shown_parts(program, library):
    """What a program gives, or the type of what it raises."""
    return shown(library, program, parts, lambda e: str(e)[:40], seed=0, ignored=None)


def _rounded(text):
    """Numbers of a text with five digits: a sum in another order differs in the last one."""
    text = re.sub(r"0x[0-9a-f]+|\s+", "", text)
    return re.sub(r"-?\d+\.\d{5,}(e-?\d+)?", lambda m: f"{float(m.group()):.4g}", text)


def assert_same(program, rtol=1e-5, atol=1e-6):
    """Asserts that a program gives the same in both libraries: integers exactly."""
    expected, found = shown_parts(program, torch), shown_parts(program, ftorch)
    assert len(expected) == len(found), (expected, found)
    for e, f in zip(expected, found):
        if isinstance(e, np.ndarray):
            assert isinstance(f, np.ndarray) and e.shape == f.shape, (e, f)
            if e.dtype.kind == "f":
                np.testing.assert_allclose(f, e, rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(f, e)
        elif isinstance(e, float):
            assert abs(f - e) <= 1e-6 * abs(e), (f, e)
        elif isinstance(e, str):
            assert _rounded(f) == _rounded(e)
        else:
            assert f == e
