"""Guards that are dropped on request, and the default backend, as in PyTorch."""

import contextlib

import pytest
import torch as reference

import ftorch as torch

SCALE = 2
FILTERS = [
    "skip_all_guards_unsafe", "skip_guard_on_globals_unsafe", "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe", "keep_tensor_guards_unsafe",
    "keep_portable_guards_unsafe",
]


def results(library, name):
    """What a compiled module gives after a global, its own number and a layer's were changed."""
    global SCALE
    nn = library.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor, self.act = 3, nn.LeakyReLU(0.5)

        def forward(self, x):
            return self.act(x) * self.factor * SCALE

    net = Net()
    options = {"guard_filter_fn": getattr(library.compiler, name)} if name else None
    backend = "eager" if library is reference else "inductor"
    reference._dynamo.reset()
    compiled = library.compile(net, backend=backend, options=options)
    x, found = library.tensor([-1.0, 1.0]), []
    for change in (None, "global", "module", "layer"):
        SCALE = 5 if change == "global" else 2
        net.factor = 7 if change == "module" else 3
        net.act.negative_slope = 0.25 if change == "layer" else 0.5
        found.append(compiled(x).tolist())
    SCALE = 2
    return found


@pytest.mark.parametrize("name", [None, *FILTERS])
def test_filters_drop_what_pytorchs_drop(name):
    assert results(torch, name) == results(reference, name)


def test_filters_see_every_guard():
    seen = []

    def choose(entries):
        seen.extend(entries)
        return [True] * len(entries)

    model = torch.nn.Linear(2, 2)
    torch.compile(lambda x: model(x) * SCALE, options={"guard_filter_fn": choose})(torch.ones(2))
    kinds = {e.guard_type for e in seen}
    assert {"TENSOR_MATCH", "EQUALS_MATCH", "ID_MATCH"} <= kinds
    assert any(e.is_global and e.value == SCALE for e in seen if e.has_value)
    with pytest.raises(AssertionError, match="one value for each guard"):
        torch.compile(lambda x: x * SCALE, options={"guard_filter_fn": lambda e: []})(torch.ones(1))


def test_the_default_backend():
    calls = []

    def backend(gm, inputs):
        calls.append(len(inputs))
        return gm.forward

    for library in (torch, reference):
        compiler = library.compiler
        assert compiler.get_default_backend() == "inductor"
        try:
            compiler.set_default_backend(backend)
            assert compiler.get_default_backend() is backend
            assert library.compile(lambda x: x + 1)(library.ones(1)).tolist() == [2.0]
            compiler.set_default_backend("eager")
            assert compiler.get_default_backend() == "eager"
            with pytest.raises(TypeError, match="backend must be a string or callable, got <class 'int'>"):
                compiler.set_default_backend(3)
        finally:
            compiler.set_default_backend(None)
        assert compiler.get_default_backend() == "inductor"
    assert len(calls) == 2


def test_values_of_a_class_that_instances_come_to_have():
    class Scaled:
        factor = 3

        def __call__(self, x):
            return x * self.factor

    scaled = Scaled()
    compiled = torch.compile(lambda x: scaled(x))
    assert compiled(torch.ones(1)).item() == 3
    scaled.factor = 5
    assert compiled(torch.ones(1)).item() == 5


def test_iterators_go_on_and_context_managers_are_entered_by_each_call():
    seen, numbers = [], iter([1, 2, 3])

    @contextlib.contextmanager
    def entered():
        seen.append("in")
        yield 3
        seen.append("out")

    def function(x):
        with entered() as factor:
            return x * factor

    compiled = torch.compile(function)
    for n in range(1, 4):
        assert compiled(torch.ones(1)).item() == 3 and seen == ["in", "out"] * n
    added = torch.compile(lambda x: x + next(numbers))
    assert [added(torch.ones(1)).item() for _ in range(3)] == [2, 3, 4]


def test_a_generator_as_argument():
    compiled = torch.compile(lambda values: sum(values))
    for _ in range(2):
        assert compiled(torch.ones(1) * i for i in range(3)).item() == 3
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(sum, fullgraph=True)(torch.ones(1) * i for i in range(3))
    assert not torch.compiler.is_compiling()


def test_disabled_functions_are_not_compiling():
    asked = torch.compiler.disable(lambda x: (torch.compiler.is_compiling(), x * 2))
    compiled = torch.compile(lambda x: asked(x + 1))
    assert [compiled(torch.ones(1))[0] for _ in range(2)] == [False, False]
