"""Objects that are no tensors and have a ``__torch_function__``, as the index of a tensor, in one, or as what is assigned."""

import pytest
import torch

import ftorch


def _seen(t):
    seen = []

    class Says:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, [k.__name__ for k in types], [type(a).__name__ for a in args]))
            return len(seen)

    class Declines:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x, says, no = t.ones(3, 3), Says(), Declines()
    calls = [lambda k=k: x.__setitem__(k, says) for k in (
        0, -1, 7, True, None, ..., slice(None), (0, 1), x > 0, t.tensor([0, 1]), [0, 1], (t.tensor([0]), 0))]
    calls += [lambda k=k: x.__setitem__(k, x) for k in (says, (says, 0), (0, says), [says], (no, says))]
    calls += [lambda k=k: x[k] for k in (says, (says, 0), (0, says), [says], no, (0, no))]
    calls += [lambda v=v: x.__setitem__(0, v) for v in (no, object())]
    found = []
    for call in calls:
        try:
            found.append(call())
        except TypeError as e:
            found.append(str(e).partition("handlers returned")[0].replace("ftorch", "torch"))
    with t._C.DisableTorchFunctionSubclass(), pytest.raises(TypeError, match="can't assign a Says"):
        x[0] = says
    return found, seen, x.tolist()


def test_what_is_no_tensor_is_asked_about_items():
    assert _seen(ftorch) == _seen(torch)
