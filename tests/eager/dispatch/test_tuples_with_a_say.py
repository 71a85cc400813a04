"""Named tuples whose class has a ``__torch_function__`` (Brevitas' quantized tensors) are values, not lists of values."""

from typing import Any, NamedTuple

import pytest
import torch as reference

import ftorch


class _Fields(NamedTuple):
    value: Any
    scale: float


class Scaled(_Fields):
    asked: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked.append((func.__name__, [t.__name__ for t in types]))
        plain = [a.value if isinstance(a, Scaled) else a for a in args]
        return func(*plain, **{k: v.value if isinstance(v, Scaled) else v for k, v in (kwargs or {}).items()})


CALLS = (
    "F.conv2d(x, w); F.conv2d(x.value, S(w, 1.)); F.relu(x); t.add(x, 1); t.ones(1) + x; t.flatten(x, 1); t.sum(x); t.max(x); "
    "F.linear(x, t.ones(3, 4)); t.nn.Linear(4, 2)(x).shape; F.max_pool2d(x, 2); F.batch_norm(x, t.zeros(2), t.ones(2)); "
    "F.interpolate(x, scale_factor=2); t.matmul(x, x); t.mean(x, [0]); t.chunk(x, 2, 1)[0]; t.where(x.value > 0, x, 0); "
    "F.embedding(S(t.tensor([0]), 1.), t.ones(2, 2)); F.layer_norm(x, (4,)); t.einsum('abcd->a', x); t.equal(x, x.value); "
    "F.softmax(x, -1); t.clamp(x, 0, .5); t.tensor_split(x, 2, 1)[0]; F.pad(x, (1, 1)); t.ones(4).add_(S(t.ones(4), 1.)); "
    "F.dropout(x, .5, False); t.add(t.ones(1), other=S(t.ones(1), 1.)); t.unsqueeze(x, 0); F.prelu(x, t.ones(1))"
).split("; ")


@pytest.mark.parametrize("call", CALLS)
def test_is_asked(call):
    def told(t):
        Scaled.asked.clear()
        scope = {"t": t, "F": t.nn.functional, "S": Scaled, "w": t.ones(3, 2, 2, 2)}
        found = eval(call, scope | {"x": Scaled(t.ones(1, 2, 4, 4), 1.0)})
        return list(found.shape) if isinstance(found, t.Tensor) else found, list(Scaled.asked)

    assert told(ftorch) == told(reference)
