"""Traces of ``autograd.Function``: the call is left to Python, with its own backward."""

import io

import pytest

from tests.oracle import LIBRARIES


def _classes(t):
    class Scaled(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, number):
            return x + number

        @staticmethod
        def backward(ctx, grad):
            return grad * 7, None

    class Swapped(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return y.clone(), x.clone()

        @staticmethod
        def backward(ctx, a, b):
            return b * 2, a * 3

    class Inner(t.nn.Module):
        def forward(self, x):
            return Scaled.apply(x * 2, 1)

    class Outer(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.inner = t.nn.Parameter(t.tensor([2.0, 3.0])), Inner()

        def forward(self, x):
            first, second = Swapped.apply(x * self.weight, x)
            return self.inner(first) + Scaled.apply(second, 3)

    return Scaled, Swapped, Outer


PROGRAMS = {
    "one": lambda scaled, swapped, outer: lambda x: scaled.apply(x, 3) * 2,
    "two": lambda scaled, swapped, outer: lambda x: swapped.apply(x, x * 2),
    "both": lambda scaled, swapped, outer: lambda x: scaled.apply(swapped.apply(x, x * 2)[0], 2.5),
    "module": lambda scaled, swapped, outer: outer(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_backward_of_a_traced_function_is_its_own(name):
    def program(t):
        traced = t.jit.trace(PROGRAMS[name](*_classes(t)), (t.zeros(2),))
        x = t.tensor([1.0, 2.0], requires_grad=True)
        result = traced(x)
        parts = result if isinstance(result, tuple) else (result,)
        sum(p.sum() for p in parts).backward()
        grads = [p.grad.tolist() for p in traced.parameters()] if isinstance(traced, t.nn.Module) else []
        kinds = [n.kind() for n in traced.inlined_graph.nodes() if "Constant" not in n.kind() and "GetAttr" not in n.kind()]
        return [p.tolist() for p in parts], x.grad.tolist(), grads, kinds

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


def test_code_shows_the_call_and_what_is_fixed():
    codes = [t.jit.trace(PROGRAMS["one"](*_classes(t)), (t.zeros(2),)).code for t in LIBRARIES]
    assert codes[1] == codes[0]


def test_a_call_that_is_left_to_python_is_frozen_but_not_saved():
    def program(t):
        traced = t.jit.trace(PROGRAMS["module"](*_classes(t)), (t.zeros(2),)).eval()
        frozen = t.jit.freeze(traced)(t.ones(2)).tolist()
        try:
            t.jit.save(traced, io.BytesIO())
        except RuntimeError as error:
            return frozen, "Could not export Python function call 'Swapped'" in str(error)
        return frozen, None

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs and ours[1]


def _compiled(t):
    unit = t.jit.CompilationUnit("""
def added(d: Dict[str, Tensor]) -> Tensor:
    return d["a"] + d["b"]

def nested(d: Dict[str, List[Tensor]], e: Tuple[Tensor, List[Tensor]]) -> Tensor:
    return d["x"][0] * 3 + e[1][0]

def made(d: Dict[str, Tensor]) -> Dict[str, Tensor]:
    return {"r": d["a"] * 2}
""")
    return unit.added, unit.nested, unit.made


CALLS = {
    "dict": lambda added, nested, made: lambda x: added({"a": x + 1, "b": x * 2}),
    "nested": lambda added, nested, made: lambda x: nested({"x": [x + 1]}, (x, [x * 5])),
    "given on": lambda added, nested, made: lambda x: added({**made({"a": x}), "a": x, "b": x}) + made({"a": x})["r"],
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_functions_are_called_with_dictionaries(name):
    def program(t):
        traced = t.jit.trace(CALLS[name](*_compiled(t)), (t.ones(2),))
        return traced(t.tensor([4.0, 5.0])).tolist()

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
