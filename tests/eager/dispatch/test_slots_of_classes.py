"""Classes of tensors that keep things in ``__slots__``, or wrap tensors: copies, parameters, comparisons."""

import copy

import pytest
import torch as reference

import ftorch


def classes(t):
    class Noted(t.Tensor):
        __slots__ = ["log"]  # the name of a method, too

        def __new__(cls, data, log=None):
            made = t.Tensor._make_subclass(cls, data, data.requires_grad)
            made.log = [1] if log is None else log
            return made

        def new_empty(self, shape):
            return type(self)(t.empty(shape))

    class Logged(t.Tensor):
        __slots__ = ["calls"]

        def __new__(cls, data, calls=None):
            made = t.Tensor._make_subclass(cls, data, require_grad=data.requires_grad)
            made.calls = calls if calls is not None else []
            return made

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls = next((a.calls for a in args if isinstance(a, cls)), None)
            if calls is not None:
                calls.append(func)
            made = t.overrides.redispatch_function(func, types, args, kwargs)
            return cls(made, calls) if isinstance(made, t.Tensor) and not isinstance(made, cls) else made

    class Wrapper(t.Tensor):
        __slots__ = ["inner"]

        @staticmethod
        def __new__(cls, inner):
            made = t.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def of(value):
                return value.inner if isinstance(value, cls) else value

            made = func(*map(of, args), **{k: of(v) for k, v in (kwargs or {}).items()})
            return cls(made) if isinstance(made, t.Tensor) and made.dtype != t.bool else made

    return Noted, Logged, Wrapper


def test_copies_have_what_slots_hold():
    def told(t):
        noted, _, wrapper = classes(t)
        x, w = noted(t.ones(2)), wrapper(t.ones(2))
        deep, shallow, w_deep = copy.deepcopy(x), copy.copy(x), copy.deepcopy(w)
        return (type(deep).__name__, deep.log, deep.log is x.log, shallow.log, shallow.log is x.log, deep.tolist(),
                type(w_deep).__name__, w_deep.inner.tolist(), w_deep.inner is w.inner)

    assert told(ftorch) == told(reference)


def test_parameters_of_classes_with_a_say():
    def told(t):
        _, logged, _ = classes(t)
        x = logged(t.ones(2))
        p = t.nn.Parameter(x)
        total = (p + x).sum()
        total.backward()
        return (type(p).__name__, isinstance(p, t.nn.Parameter), p.requires_grad, p.is_leaf, type(total).__name__,
                [getattr(f, "__name__", None) for f in p.calls][:4])

    assert told(ftorch) == told(reference)


def test_wrappers_are_compared_by_their_calls():
    def told(t):
        wrapper = classes(t)[2]
        t.testing.assert_close(wrapper(t.ones(2)), wrapper(t.ones(2)))
        with pytest.raises(AssertionError):
            t.testing.assert_close(wrapper(t.ones(2)), wrapper(t.zeros(2)))

    told(ftorch)
    told(reference)


@pytest.mark.parametrize("call", ["t.Tensor._make_subclass(Plain, w)", "w.as_subclass(Plain)", "Plain(w)"])
def test_a_wrapper_is_of_no_other_class(call):
    def told(t):
        scope = {"t": t, "Plain": type("Plain", (t.Tensor,), {}), "w": classes(t)[2](t.ones(2))}
        with pytest.raises(RuntimeError) as caught:
            eval(call, scope)
        return str(caught.value), [t._C._dispatch_isTensorSubclassLike(x) for x in (scope["w"], t.ones(2))]

    assert told(ftorch) == told(reference)
