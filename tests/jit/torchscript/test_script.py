"""`jit.script`: the same results as PyTorch's, files that PyTorch runs, and the same refusals."""

# pyright: reportUndefinedVariable=false, reportInvalidTypeArguments=false
import functools
import inspect
import io
import warnings
from typing import Dict, List, Optional, Tuple  # noqa: UP035

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import shown, unchanged

from .. import programs, settled
from ..both import MINE, mine, of_ftorch, same, saved, seeded, twins
from .test_archives import CASES, ROWS, SEQUENCE

# ruff: noqa: UP006, UP045

FUNCTIONS = {**{k: v for k, v in CASES.items() if k[0].islower()}, "helper": [(ROWS,), (ROWS, ROWS)],
             "opt": [(None,), (ROWS, 2)]}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions(name):
    theirs, own = getattr(programs, name), getattr(MINE, name)
    scripted, reference = ft.jit.script(own), pt.jit.script(theirs)
    loaded = pt.jit.load(saved(scripted, ft.jit.save))
    for args in FUNCTIONS[name]:
        expected = seeded(reference, *args)
        same(seeded(scripted, *mine(args)), expected)
        if len(args) == len(scripted.schema.parameters):
            same(seeded(loaded, *args), expected)


@pytest.mark.parametrize("name", ["ResNet", "Lstm", "Misc", "Trans"])
def test_modules(name):
    theirs, own = twins(name)
    scripted = ft.jit.script(own)
    file = saved(scripted, ft.jit.save)
    loaded, again = pt.jit.load(io.BytesIO(file.getvalue())), ft.jit.load(file)
    reference = pt.jit.script(theirs)
    for args in CASES[name][:1]:
        expected = seeded(reference, *args)
        for found in (seeded(scripted, *mine(args)), seeded(loaded, *args), seeded(again, *mine(args))):
            same(found, expected)
    assert list(scripted.state_dict()) == list(reference.state_dict())
    assert str(scripted) == str(reference)
    assert next(scripted.parameters()) is next(own.parameters())


def test_methods_attributes_and_python():
    theirs, own = twins("M1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, about annotations in __init__
        reference, scripted = pt.jit.script(theirs), ft.jit.script(own)
        other = pt.jit.script(twins("M2")[0])
    for _ in range(2):
        same(scripted(mine(ROWS)), reference(ROWS))
        same(scripted.extra(mine(ROWS), 2), reference.extra(ROWS, 2))
    assert scripted.count == reference.count == 2 and scripted.scale == 2.0
    with pytest.raises(AttributeError):
        scripted.unused
    nested = ft.jit.script(twins("M2")[1])
    same(nested(mine(ROWS), mine([ROWS, ROWS])), other(ROWS, [ROWS, ROWS]))


LAYERS = {
    "AvgPool2d": ((2,), (2, 3, 8, 8)), "MaxPool1d": ((2,), (2, 3, 8)), "GroupNorm": ((2, 4), (3, 4, 5)),
    "InstanceNorm1d": ((4,), (3, 4, 5)), "LocalResponseNorm": ((2,), (3, 4, 5, 5)),
    "Conv1d": ((4, 3, 3), (2, 4, 8)), "ConvTranspose1d": ((4, 3, 3, 2), (2, 4, 5)),
    "ELU": ((), (3, 4)), "GELU": ((), (3, 4)), "SiLU": ((), (3, 4)), "Softmax": ((1,), (3, 4)),
    "PReLU": ((), (3, 4)), "Threshold": ((0.1, 2.0), (3, 4)), "Flatten": ((), (3, 4, 5)),
    "Upsample": ((None, 2), (1, 2, 4, 4)), "ReflectionPad2d": ((1,), (1, 2, 4, 4)),
    "Unfold": ((2,), (1, 2, 4, 4)), "GRU": ((4, 3), (5, 2, 4)), "LSTMCell": ((4, 3), (2, 4)),
    "Bilinear": ((4, 4, 2), (3, 4), (3, 4)), "SmoothL1Loss": ((), (3, 4), (3, 4)),
    "TransformerDecoderLayer": ((8, 2, 16), (3, 2, 8), (4, 2, 8)),
}


@pytest.mark.parametrize("name", list(LAYERS))
def test_layers(name):
    arguments, *shapes = LAYERS[name]
    theirs, own = getattr(pt.nn, name)(*arguments).eval(), getattr(ft.nn, name)(*arguments).eval()
    own.load_state_dict({k: mine(v) for k, v in theirs.state_dict().items()})
    args = tuple(pt.linspace(-1, 1, pt.Size(s).numel()).reshape(s).sin() for s in shapes)
    scripted = ft.jit.script(own)
    expected = theirs(*args)
    same(scripted(*mine(args)), expected)
    same(pt.jit.load(saved(scripted, ft.jit.save))(*args), expected)


def test_frozen_modules():
    for scripted in (ft.jit.script(twins("Trans")[1]), ft.jit.trace(twins("Trans")[1], mine(SEQUENCE))):
        frozen = ft.jit.freeze(scripted)
        assert not list(frozen.parameters()) and not list(frozen.children())
        expected = twins("Trans")[0](SEQUENCE)
        same(frozen(mine(SEQUENCE)), expected)
        same(pt.jit.load(saved(frozen, ft.jit.save))(SEQUENCE), expected)
    same(ft.jit.optimize_for_inference(scripted)(mine(SEQUENCE)), expected)
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        ft.jit.freeze(scripted.train())
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input"):
        ft.jit.freeze(twins("helper")[1])


def test_frozen_attributes_are_kept_if_asked_for():
    class Net(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.version = ft.nn.Linear(2, 2), 3

        def forward(self, x):
            return self.lin(x) * self.version

        @ft.jit.export
        def twice(self, x):
            return self.lin(x) * 2

    frozen = ft.jit.freeze(ft.jit.script(Net().eval()), ["version", "twice"])
    x = ft.ones(1, 2)
    assert frozen.version == 3
    same(frozen(x) * 2, frozen.twice(x) * 3)


# --- refusals ---------------------------------------------------------------------------

OUTSIDE = 3


def undefined(x):
    return x + not_there  # noqa: F821


def closed_over(x):
    return x * OUTSIDE


def tries(x):
    try:
        return x
    except ValueError:
        return x


def variable(*xs):
    return xs


def untyped(x: List):
    return x


def untyped_dict(x: Dict):
    return x


def filtered(x):
    return [i for i in range(3) if i]


def anonymous(x):
    return (lambda y: y)(x)


def raises(x: int) -> int:
    if x > 1:
        raise ValueError(f"too large: {x}")
    assert x > 0, "not positive"
    return x


def refusal(t, function):
    """What scripting a function gives: the first line of what is raised."""
    return shown(t, lambda t: t.jit.script(function)(), unchanged, lambda e: str(e).strip().split("\n")[0])


@pytest.mark.parametrize("function", [
    undefined, closed_over, tries, variable, untyped, untyped_dict, filtered, anonymous,
])
def test_refused(function):
    assert refusal(ft, function) == refusal(pt, function)


def test_exceptions_of_programs():
    scripted, reference = ft.jit.script(raises), pt.jit.script(raises)
    assert scripted(1) == reference(1)
    for value, text in ((5, "too large: 5"), (0, "not positive")):
        with pytest.raises(ft.jit.Error, match=text):
            scripted(value)
        with pytest.raises(pt.jit.Error, match=text):
            reference(value)


def optional(x: int, y: Optional[Tuple[int, str]] = None, z: float = 2.0) -> float:
    return x + z if y is None else float(y[0])


@pytest.mark.parametrize(("args", "kwargs"), [
    ((1,), {}), ((1, (2, "a")), {}), ((1,), {"z": 3.0}), ((1,), {"z": 3}), (("a",), {}), ((), {}),
    ((1, (2, 3)), {}), ((1, None, 2.0), {}), ((1,), {"w": 1}), ((1.5,), {}),
])
def test_calls_are_checked(args, kwargs):
    found = []
    for t in (ft, pt):
        scripted = t.jit.script(optional)
        try:
            found.append(scripted(*args, **kwargs))
        except Exception as error:
            found.append((type(error).__name__, str(error).split(" '?' (")[0].split(". Decl")[0]))
    assert found[0] == found[1]


def test_compilation_units_and_small_functions():
    text = "def f(x: Tensor, n: int) -> Tensor:\n  return x * n\ndef g(x):\n  return x + 1\n"
    same(ft.jit.CompilationUnit(text).f(ft.ones(2), 3), pt.jit.CompilationUnit(text).f(pt.ones(2), 3))
    assert ft.jit.isinstance([1], List[int]) and not ft.jit.isinstance(["a"], List[int])
    assert ft.jit.annotate(int, 3) == 3 and not ft.jit.is_scripting()
    assert ft.jit.wait(ft.jit.fork(lambda a: a + 1, 2)) == 3
    assert ft.jit.script(ft.jit.script(raises)) is not None
    before = ft.jit.set_fusion_strategy([("STATIC", 3)])
    assert ft.jit.set_fusion_strategy(before) == [("STATIC", 3)]
    with ft.jit.optimized_execution(False), ft.jit.strict_fusion():
        assert not ft.jit.onednn_fusion_enabled()


def test_dropped_methods_and_left_ones():
    class Net(ft.nn.Module):
        def forward(self, x):
            if x.sum() > 100:
                return self.gone(x)
            return self.left(x)

        @ft.jit.unused
        def gone(self, x):
            return x

        @ft.jit.ignore
        def left(self, x):
            return ft.from_numpy(x.numpy() + 1)

    scripted = ft.jit.script(Net())
    assert scripted(ft.zeros(1)).item() == 1
    with pytest.raises(ft.jit.Error):
        scripted(ft.full((1,), 200.0))
    with pytest.raises(RuntimeError, match="Could not export Python function call 'left'"):
        ft.jit.save(scripted, io.BytesIO())


def test_graphs():
    scripted = ft.jit.script(MINE.helper)
    reference = pt.jit.script(programs.helper)
    assert [n.kind() for n in scripted.graph.nodes()] == [n.kind() for n in reference.graph.nodes()]
    module = ft.jit.script(twins("Trans")[1])
    assert module.graph.findNode("prim::CallMethod") is not None
    inlined = module.inlined_graph
    assert inlined.findNode("prim::CallMethod") is None
    assert len(inlined.findAllNodes("aten::layer_norm")) == 2
    traced = ft.jit.trace(lambda x: ft.relu(x) * 2, ft.ones(2))
    reference = pt.jit.trace(lambda x: pt.relu(x) * 2, pt.ones(2))
    kinds = [[n.kind() for n in t.graph.nodes()] for t in (traced, reference)]
    assert kinds[0] == kinds[1]


def test_copies_and_hooks():
    import copy

    scripted = ft.jit.script(ft.nn.Sequential(ft.nn.Linear(2, 2)))
    twin = copy.deepcopy(scripted)
    twin[0].weight.data.zero_()
    assert scripted[0].weight.abs().sum() > 0 and twin[0].weight.abs().sum() == 0
    for name in ("register_forward_hook", "register_full_backward_hook", "requires_grad_", "get_submodule"):
        with pytest.raises(RuntimeError, match=f"^{name} is not supported on ScriptModules$"):
            getattr(scripted, name)(None)
    traced = ft.jit.trace(ft.nn.Sequential(ft.nn.Linear(2, 2)), ft.ones(1, 2))
    handle = traced.register_forward_hook(lambda module, args, out: out * 0)
    assert traced(ft.ones(1, 2)).abs().sum() == 0
    handle.remove()
    replaced = {name: p * 0 for name, p in scripted.named_parameters()}
    with pytest.raises(RuntimeError, match="stateless API can't be used with Jitted modules"):
        ft.func.functional_call(scripted, replaced, (ft.ones(1, 2),))


def test_errors_inside_of_programs():
    """Their types are PyTorch's, their texts name the program's line."""

    def programs(t):
        @t.jit.script
        def fails(x, k: int, names: Dict[str, int]):
            if k == 0:
                raise ValueError("no zero")
            if k == 1:
                return x + names["none"]
            if k == 2:
                assert k > 3, "too small"
            return x[k]

        return fails

    for k, text in enumerate(("builtins.ValueError: no zero", "KeyError: none", "too small", "")):
        raised = []
        for t in (ft, pt):
            with pytest.raises(Exception) as caught:  # noqa: PT011
                programs(t)(t.ones(2, 2), k, {})
            raised.append(caught.value)
            assert "in the TorchScript interpreter" in str(caught.value)
            assert "<--- HERE" in str(caught.value) and text in str(caught.value)
        assert isinstance(raised[0], ft.jit.Error) == isinstance(raised[1], pt.jit.Error)
        assert isinstance(raised[0], RuntimeError) == isinstance(raised[1], RuntimeError)


def test_asserted_conditions():
    """``torch._assert``, which tracing keeps: of numbers and of tensors, also in what PyTorch reads."""

    def programs(torch):
        def checked(x, n: int):
            torch._assert(x.shape[0] == n, f"{x.shape[0]} rows")
            torch._assert(message="not positive", condition=x.sum() > 0)
            return x * 2

        return torch.jit.script(checked)

    own = programs(ft)
    for t, program in ((ft, own), (pt, programs(pt)), (pt, pt.jit.load(saved(own, ft.jit.save)))):
        assert program(t.ones(3), 3).tolist() == [2, 2, 2]
        for args, text in (
            ((t.ones(2), 3), "AssertionError: 2 rows"),
            ((-t.ones(2), 2), "AssertionError: not positive"),
        ):
            with pytest.raises(t.jit.Error, match=text):
                program(*args)


class _NoProgram:
    def __init__(self, a=None, *, b=1):
        self.a = b


class _NoProgramEither:
    def __init__(self):
        self.a = 1

    def f(self):
        return undefined_name(self)  # noqa: F821


@pytest.mark.parametrize("value", [inspect.signature(lambda a, b=2: None), _NoProgram(), _NoProgramEither()])
def test_attributes_of_classes_that_are_no_programs(value):
    """They are no attributes of the program; only one that uses them is refused."""
    for t in (ft, pt):
        for held in (value, [value], {"a": value}):
            module = t.nn.Linear(2, 2)
            module.held = held
            assert t.jit.script(t.nn.Sequential(module))(t.ones(1, 2)).shape == (1, 2), t


def test_settled_conditions():
    """A branch that types or constants exclude is not compiled, whatever else the condition asks."""
    own, x = of_ftorch("settled"), [1.0, 2.0]
    for name, more in (("any_of", ()), ("all_of", ()), ("other_class", ()), ("none", ()),
                       ("asked_at_run_time", ()), ("asked_at_run_time", (3,))):
        scripted, expected = ft.jit.script(getattr(own, name)), pt.jit.script(getattr(settled, name))
        same(scripted(ft.tensor(x), *more), expected(pt.tensor(x), *more))
    ours, theirs = ft.jit.script(own.Items()), pt.jit.script(settled.Items())
    for i in (0, 1):
        same(ours(ft.tensor(x), i), theirs(pt.tensor(x), i))
    for t, module in ((ft, own), (pt, settled)):
        with pytest.raises(RuntimeError, match="python value of type 'bool' cannot be used as a value"):
            t.jit.script(module.by_global)


def test_callables_that_are_no_functions():
    """Partial functions and objects with a `__call__` are left to Python, each with its own arguments (`geoopt`)."""

    def made(t, power):
        function = functools.partial(t.pow, exponent=power)

        def raised(x):
            return function(x) + 1

        return t.jit.script(raised)

    for power in (2, 3):
        ours, theirs = made(ft, power), made(pt, power)
        same(ours(ft.tensor([2.0, 3.0])), theirs(pt.tensor([2.0, 3.0])))
    for t in (ft, pt):
        square, cube = functools.partial(t.pow, exponent=2), functools.partial(t.pow, exponent=3)

        def both(x):
            return square(x) + cube(x)  # noqa: B023

        assert t.jit.script(both)(t.tensor([2.0])).tolist() == [12.0], t
        with pytest.raises(RuntimeError, match="Could not export Python function call"):
            t.jit.save(t.jit.script(both), io.BytesIO())
