"""Traces of what has to do with gradients: `autograd.Function`, left to Python with its own backward, and branches on them."""

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


def _asks_for_gradients(t):
    """Functions that do something else where gradients are recorded, as a user's do."""

    class Layers(t.nn.Module):
        def __init__(self, is_frozen):
            super().__init__()
            self.first, self.second = t.nn.Linear(2, 2), t.nn.Linear(2, 2)
            with t.no_grad():
                for p in self.parameters():
                    p.copy_(t.linspace(-1, 1, p.numel()).reshape(p.shape))
            self.first.requires_grad_(not is_frozen)

        def forward(self, x):
            y = self.first(x)
            y = y + 1 if y.requires_grad else y - 1
            return self.second(y) if self.first.weight.requires_grad else y / 2

    def required(x):
        y = x * 2
        return y + 1 if y.requires_grad else y - 1

    def leaf(x):
        y = x.detach().requires_grad_()
        z = y * 3
        return (z + 1 if z.is_leaf else z - 1) * (2 if y.is_leaf else 3)

    def node(x):
        y = t.relu(x)
        return y + 1 if y.grad_fn is None else y.clone() - 1

    def mode(x):
        with t.no_grad():
            y = x * 3
            y = y + 1 if t.is_grad_enabled() or y.requires_grad else y - 1
        return y * x if t.is_grad_enabled() else y / x

    def enabled(x):
        with t.enable_grad():
            y = t.sin(x)
            return y + 1 if y.requires_grad else y - 1

    def written(x):
        y = x * 1
        y[0].mul_(3)
        y = y + 1 if y.requires_grad else y - 1
        z = (y * 1).detach_()
        return z * 2 if z.requires_grad else z / 2

    return {"required": required, "leaf": leaf, "node": node, "mode": mode, "enabled": enabled, "written": written,
            "layers": Layers(False), "frozen": Layers(True)}


@pytest.mark.parametrize("name", ["required", "leaf", "node", "mode", "enabled", "written", "layers", "frozen"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("is_enabled", [False, True])
def test_a_function_that_asks_for_gradients_is_traced_as_it_is_called(name, requires_grad, is_enabled):
    def look(t):
        f = _asks_for_gradients(t)[name]
        with t.set_grad_enabled(is_enabled):
            traced = t.jit.trace(f, t.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=requires_grad), check_trace=False)
        x = t.tensor([[0.3, -1.0], [2.5, -3.0]], requires_grad=True)
        out = traced(x)
        kinds = [n.kind() for n in traced.inlined_graph.nodes() if n.kind().startswith("aten::")]
        if out.requires_grad:
            out.sum().backward()
        leaves = [x, *(f.parameters() if isinstance(f, t.nn.Module) else ())]
        return kinds, out.detach().numpy().round(4).tolist(), out.requires_grad, [
            None if p.grad is None else p.grad.numpy().round(4).tolist() for p in leaves]

    assert look(LIBRARIES[1]) == look(LIBRARIES[0])


@pytest.mark.filterwarnings("ignore")  # of PyTorch: that results differ, too
@pytest.mark.parametrize("name", ["required", "node", "mode"])
def test_checks_of_traces_run_without_gradients(name):
    def look(t):
        x = t.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
        with pytest.raises(t.jit.TracingCheckError, match="Graphs differed"):
            t.jit.trace(_asks_for_gradients(t)[name], x)
        with t.no_grad():
            return t.jit.trace(_asks_for_gradients(t)[name], x)(x).tolist()

    assert look(LIBRARIES[1]) == look(LIBRARIES[0])


@pytest.mark.filterwarnings("ignore")  # of PyTorch: that it asks for a number of elements
def test_a_backward_pass_in_a_trace_leaves_the_program_as_it_is():
    def look(t):
        def f(x):
            y = x * 2
            y.register_hook(lambda g: g * 3)
            y.sum().backward()
            return y + 1

        x = t.tensor([1.0, 2.0], requires_grad=True)
        traced = t.jit.trace(f, x, check_trace=False)
        return traced(t.tensor([3.0, 4.0])).tolist(), x.grad.tolist()

    assert look(LIBRARIES[1]) == look(LIBRARIES[0])
