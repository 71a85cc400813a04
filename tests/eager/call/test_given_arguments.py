"""``__torch_function__`` sees arguments as they were written: by position or by keyword."""

import functools

import pytest
import torch as reference

import ftorch

_CALLS = """
F.linear(x, w, b); F.linear(x, w, bias=b); F.linear(x, w, None); F.linear(x, weight=w)
F.conv1d(t.ones(1, 4, 8), t.ones(2, 4, 3).as_subclass(W), t.ones(2), 1, 1)
t.add(x, w[:2], alpha=2); t.sum(w, 1, True); t.sum(w, dim=1, keepdim=True); w.sum(1, True); w.sum(dim=1)
t.addmm(b, x, w.t(), beta=1, alpha=2); F.softmax(w, -1); w.softmax(-1); F.gelu(w, approximate="tanh")
t.clamp(w, 0); t.clamp(w, min=0); t.clamp(w, 0, None); t.clamp(w, 0, max=3); w.clamp(0); w.clamp(min=0); t.Tensor.clamp(w, 0)
t.cat([w, w], 1); t.cat((w, w), dim=1); t.stack([w, w], 1); t.split(w, 2, 1); w.chunk(2, 1); w.max(1, keepdim=True)
t.std(w, 1); t.std(w, dim=1, correction=0); list(map(t.exp, [w])); functools.partial(F.linear, bias=b)(x, w)
t.full_like(w, 2); t.rand_like(w, dtype=t.float64)
t.nn.Linear(8, 4, bias=False)(w); t.nn.Conv2d(4, 2, 3)(t.ones(1, 4, 8, 8).as_subclass(W)); w.mean((0, 1)); w.repeat(2, 1)
"""


def _seen(library, calls):
    seen = []

    class W(library.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((getattr(func, "__name__", ""), len(args), tuple(kwargs or ())))
            with library._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    names = {
        "functools": functools, "t": library,
        "F": library.nn.functional,
        "W": W,
        "w": library.ones(4, 8).as_subclass(W),
        "b": library.ones(4),
        "x": library.ones(2, 8),
    }
    for _ in range(2):  # the first call of a function makes it
        exec(calls, names)
    return seen


@pytest.mark.parametrize("calls", _CALLS.strip().splitlines())
def test_arguments_come_as_they_were_given(calls):
    assert _seen(ftorch, calls) == _seen(reference, calls)


@pytest.mark.parametrize("call", ["F.linear(x, w, b)", "F.linear(x, w, bias=b)"])
def test_they_still_do_when_a_call_has_been_made_often(call):
    """The interpreter makes calls that it has made often by another instruction; torchao reads ``args[2]`` for the bias."""
    expected = (3, ()) if "bias" not in call else (2, ("bias",))
    for library in (reference, ftorch):
        seen = []

        class W(library.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return library.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

            def __init__(self, inner):
                self.inner = inner

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, seen=seen, library=library):
                kwargs = kwargs or {}
                if func is library.nn.functional.linear:
                    seen.append((len(args), tuple(kwargs)))
                    args = [a.inner if isinstance(a, cls) else a for a in args]
                with library._C.DisableTorchFunctionSubclass():
                    return func(*args, **kwargs)

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return cls(func(args[0].inner, *args[1:], **(kwargs or {})))

        names = {"F": library.nn.functional}
        exec(f"def often(x, w, b):\n    return {call}", names)
        weight = library.nn.Parameter(W(library.ones(4, 8)), requires_grad=False)
        bias = library.nn.Parameter(library.ones(4))
        for _ in range(100):
            names["often"](library.ones(2, 8), weight, bias)
        assert set(seen) == {expected}, library


def test_a_subclass_need_not_call_the_hook_of_classes():
    """As torchao's: its ``__init_subclass__`` does not call `Tensor`'s."""

    class Base(ftorch.Tensor):
        def __init_subclass__(cls, **kwargs):
            pass

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*(a.inner if isinstance(a, Base) else a for a in args), **(kwargs or {}))

    class Own(Base):
        @staticmethod
        def __new__(cls, inner):
            return ftorch.Tensor._make_wrapper_subclass(cls, inner.shape)

        def __init__(self, inner):
            self.inner = inner

    assert (Own(ftorch.ones(2)) + 1).tolist() == [2.0, 2.0]
    assert isinstance(ftorch.Tensor, ftorch._C._TensorMeta)
