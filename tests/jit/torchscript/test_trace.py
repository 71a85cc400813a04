"""`jit.trace`: what it records, what its files are to PyTorch, and what it refuses."""

import io
import warnings

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import both_with_text

from ..both import mine, same, saved, seeded, twins
from .test_archives import IDS, ROWS, SEQUENCE, X


def functions(t):
    F = t.nn.functional

    def shapes(x):
        y = x.view(x.size(0), -1, 2).permute(0, 2, 1).contiguous() * 2 + 1
        z = y.sum(dim=(1, 2), keepdim=True) / 3 - t.ones(x.shape[0], 1, 1)
        w = t.cat([y.reshape(x.shape[0], -1), z.squeeze(-1)], dim=1).to(t.float64).to(t.float32)
        v = w[:, 1:3].clone()
        v[:, 0] = 1
        v[1] += 2
        return v, w[..., None, -1], 1 / w, 2 ** w.float(), w > 1, x[x.argmax(0)], x[x > 0]

    def networks(a):
        b = a.flip(0)
        c = t.zeros_like(a).add_(b, alpha=2)
        d = t.stack([a, b], 1).chunk(2, dim=1)[0].squeeze(1)
        e = t.einsum("ij,kj->ik", a, b)
        f = t.where(a > 0, a, b).clamp(min=-0.5).abs()
        h, i = t.topk(a, 2, dim=1)
        j = F.layer_norm(a, (4,)) + F.gelu(b) + F.leaky_relu(a, 0.2) + F.pad(b, (1, 0))[:, :-1]
        return (c, d, e, f, a.matmul(b.t()) @ b, h, i, j, a.half().float(), t.arange(4) * a,
                F.normalize(a, dim=1), a.std(1), F.mse_loss(a, b), F.one_hot(i, 4), a.norm(dim=1),
                F.softmax(a, dim=-1).max(1).values, F.cross_entropy(a, t.zeros(len(a), dtype=t.long)),
                F.interpolate(a[None], 8), F.hardswish(a), F.log_softmax(a, 1), a.T, a - 1, 1 - a,
                F.scaled_dot_product_attention(a[None], b[None], a[None]))

    return {"shapes": shapes, "networks": networks}


@pytest.mark.parametrize("name", ["shapes", "networks"])
@pytest.mark.filterwarnings("ignore")
def test_functions_for_other_batches_and_in_pytorch(name):
    theirs, own = functions(pt)[name], functions(ft)[name]
    traced = ft.jit.trace(own, mine(ROWS), check_trace=False)
    loaded = pt.jit.load(saved(traced, ft.jit.save))
    rows = pt.linspace(-1, 3, 20).reshape(5, 4)
    for args in [(ROWS,)] if name == "networks" else [(ROWS,), (rows,)]:
        expected = theirs(*args)
        same(traced(*mine(args)), expected)
        same(loaded(*args), expected)


@pytest.mark.parametrize(("name", "train", "args"), [
    ("ResNet", False, (X,)), ("ResNet", True, (X,)), ("Trans", False, (SEQUENCE,)),
])
def test_modules_for_other_batches_and_in_pytorch(name, train, args):
    theirs, own = twins(name, train)
    traced = ft.jit.trace(own, mine(args), check_trace=not train)
    assert isinstance(traced, ft.jit.TopLevelTracedModule)
    own.load_state_dict({k: mine(v) for k, v in theirs.state_dict().items()})
    loaded = pt.jit.load(saved(traced, ft.jit.save))
    for given in (tuple(pt.cat([a, a, a]) for a in args),):
        expected = seeded(theirs, *given)
        same(seeded(traced, *mine(given)), expected)
        same(seeded(loaded, *given), expected)
    again = ft.jit.load(saved(traced, ft.jit.save))
    assert list(again.state_dict()) == list(theirs.state_dict())
    assert next(traced.parameters()) is next(own.parameters())


def test_submodules_are_methods_of_their_own():
    own = ft.nn.Sequential(ft.nn.Linear(4, 4), ft.nn.ReLU())
    traced = ft.jit.trace(own, ft.zeros(2, 4))
    assert "self.weight" in traced[0].code and "relu" in traced[1].code
    assert "torch.relu" not in traced.code
    shared = ft.jit.trace(ft.nn.Sequential(own[0], own[0]), ft.zeros(2, 4))
    same(shared(ft.ones(1, 4)), own[0](own[0](ft.ones(1, 4))))


def test_recurrent_networks():
    def make(t):
        class Net(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.emb = t.nn.Embedding(20, 8)
                self.lstm = t.nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
                self.gru = t.nn.GRU(12, 5)

            def forward(self, x):
                y, (h, _) = self.lstm(self.emb(x))
                return self.gru(y)[0], h

        return Net()

    theirs, own = make(pt).eval(), make(ft).eval()
    own.load_state_dict({k: mine(v) for k, v in theirs.state_dict().items()})
    traced = ft.jit.trace(own, mine(IDS))
    loaded = pt.jit.load(saved(traced, ft.jit.save))
    same(traced(mine(IDS)), theirs(IDS))
    same(loaded(IDS), theirs(IDS))


def test_nested_arguments_and_several_methods():
    class Both(ft.nn.Module):
        def forward(self, x, pair, named):
            return x + pair[0], (pair[1] * 2, named["k"])

        def other(self, x):
            return x * 3

    x = ft.ones(2)
    traced = ft.jit.trace_module(Both(), {"forward": (x, (x, x), {"k": x}), "other": x})
    y = ft.full((3,), 2.0)
    same(traced(y, (y, y), {"k": y}), (y * 2, (y * 2, y)))
    same(traced.other(y), y * 3)
    loaded = pt.jit.load(saved(traced, ft.jit.save))
    same(loaded.other(pt.ones(1)), pt.full((1,), 3.0))


def test_warnings_about_frozen_values():
    def look(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.warns(ft.jit.TracerWarning, match="Converting a tensor to a Python boolean might"):
        traced = ft.jit.trace(look, ft.ones(2), check_trace=False)
    same(traced(-ft.ones(2)), -2 * ft.ones(2))
    for function, text in [
        (lambda x: x * float(x[0]), "a Python float"), (lambda x: x * x[0].item(), "a Python number"),
        (lambda x: x + sum(a for a in x), "Iterating over a tensor"),
        (lambda x: x * len(x), "Using len to get tensor shape"),
        (lambda x: x + x.tolist()[0], "a Python list"),
    ]:
        with pytest.warns(ft.jit.TracerWarning, match=text):
            ft.jit.trace(function, ft.ones(2), check_trace=False)


def test_the_check_finds_what_changes():
    with pytest.warns(ft.jit.TracerWarning, match="Output nr 1. of the traced function does not"):
        ft.jit.trace(lambda x: x + ft.tensor([float(next(numbers))]), ft.ones(1))
    state = [0]

    def grows(x):
        state[0] += 1
        for _ in range(state[0]):
            x = x + 1
        return x

    with pytest.raises(ft.jit.TracingCheckError, match="Graphs differed across invocations!"):
        ft.jit.trace(grows, ft.ones(1))


numbers = iter(range(100))


def run(t, program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(t)
        except Exception as error:
            return type(error).__name__, str(error)


@pytest.mark.parametrize("program", [
    lambda t: t.jit.trace(lambda x: {"a": x}, t.ones(1)),
    lambda t: t.jit.trace(lambda x: [x], t.ones(1))(t.zeros(2))[0].tolist(),
    lambda t: t.jit.trace(lambda x: None, t.ones(1)), lambda t: t.jit.trace(lambda x: "a", t.ones(1)),
    lambda t: t.jit.trace_module(t.nn.ReLU(), [t.ones(1)]), lambda t: t.jit.trace_module(3, {}),
])
def test_refused(program):
    assert run(ft, program) == run(pt, program)


def test_dictionaries_where_they_are_allowed():
    traced = ft.jit.trace(lambda x: {"a": x, "b": x + 1}, ft.ones(1), strict=False)
    loaded = pt.jit.load(saved(traced, ft.jit.save))
    same(loaded(pt.zeros(1)), {"a": pt.zeros(1), "b": pt.ones(1)})


def test_is_tracing_and_tracing_twice():
    seen = []
    traced = ft.jit.trace(lambda x: (seen.append(ft.jit.is_tracing()), x + 1)[1], ft.ones(1))
    assert seen[0] and not ft.jit.is_tracing()
    with pytest.warns(UserWarning, match="The input to trace is already a ScriptModule"):
        assert ft.jit.trace(traced, ft.ones(1)) is traced


def test_constants_must_not_want_gradients():
    weight = ft.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        ft.jit.trace(lambda x: x * weight, ft.ones(1))


def test_gradients_flow_through_traces():
    own = ft.nn.Linear(3, 2)
    traced = ft.jit.trace(own, ft.zeros(1, 3))
    traced(ft.ones(4, 3)).sum().backward()
    assert own.weight.grad is not None and float(own.weight.grad.sum()) == 24


def test_extra_files_and_paths(tmp_path):
    traced = ft.jit.trace(ft.nn.ReLU(), ft.zeros(1))
    path = tmp_path / "relu.pt"
    traced.save(path, _extra_files={"note": "hi"})
    wanted = {"note": ""}
    loaded = pt.jit.load(str(path), _extra_files=wanted)
    assert wanted["note"] in ("hi", b"hi") and loaded(-pt.ones(1)).item() == 0
    assert pt.jit.load(io.BytesIO(traced.save_to_buffer()))(pt.ones(1)).item() == 1


def test_more_inputs_to_check_with():
    module, x = ft.nn.Linear(2, 2), ft.ones(1, 2)
    for inputs in ([(ft.zeros(3, 2),)], [(x,), (x * 2,)]):
        assert ft.jit.trace(module, (x,), check_inputs=inputs)(x).equal(module(x))
        given = [{"forward": i} for i in inputs]
        traced = ft.jit.trace_module(module, {"forward": (x,)}, check_inputs=given)
        assert traced(x).equal(module(x))


def _calls(torch, programs):
    """Traces that call what is compiled; a compiled function that calls a trace."""
    example = torch.arange(6.0).view(2, 3)
    signed = torch.jit.script(programs.signed)
    chosen = torch.jit.script_if_tracing(programs.signed)
    double = torch.jit.trace(_double, example)
    yield torch.jit.trace(lambda x: signed(x, 1) + signed(x, 3), example)
    yield torch.jit.trace(lambda x: chosen(x, 1) * 2, example)
    yield torch.jit.trace(programs.Around(), example)
    yield torch.jit.trace(lambda x: double(x) + 1, example)


def _double(x):
    return x * 2


def test_compiled_functions_and_modules_keep_their_control_flow():
    from .. import typed
    from ..both import of_ftorch

    programs = zip(_calls(ft, of_ftorch("typed")), _calls(pt, typed))
    for own, theirs in programs:
        loaded = pt.jit.load(saved(own, ft.jit.save))
        for x in (pt.arange(6.0).view(2, 3), -pt.arange(6.0).view(2, 3)):
            same(own(mine(x)), theirs(x))
            same(loaded(x), theirs(x))


def test_checks_of_random_functions():
    for torch in (ft, pt):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            torch.jit.trace(lambda x: x + torch.rand(3), torch.zeros(3))
        texts = [str(w.message) for w in found]
        assert any("Trace had nondeterministic nodes" in t for t in texts)
        assert any("Output nr 1. of the traced function does not match" in t for t in texts)


def test_names_of_traces():
    for torch in (ft, pt):
        assert torch.jit.trace(lambda x: x + 1, torch.zeros(2)).name == "_lambda"
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        traced = torch.jit.trace(model, torch.zeros(1, 2))
        assert str(traced) == str(pt.jit.trace(pt.nn.Sequential(pt.nn.Linear(2, 2), pt.nn.ReLU()), pt.zeros(1, 2)))
        assert type(getattr(traced, "0")).__name__ == "TracedModule"
        with pytest.raises(AttributeError, match="Please use trace_module"):
            torch.jit.trace(model.children, torch.zeros(1))


@pytest.mark.parametrize("name", ["Recurrent", "Containers", "Lists", "Steps", "Layers"])
def test_results_of_compiled_modules_are_taken_apart(name):
    from .. import programs
    from ..both import MINE

    theirs, own, x = programs.Flat(getattr(programs, name)()), MINE.Flat(getattr(MINE, name)()), pt.ones(2, 1, 3)
    own.load_state_dict(mine(dict(theirs.state_dict())))
    own, theirs = ft.jit.trace(own, mine(x)), pt.jit.trace(theirs, x)
    assert str(own.inner.forward.schema.returns[0].type) == str(theirs.inner.forward.schema.returns[0].type)
    loaded = pt.jit.load(saved(own, ft.jit.save))
    for other in (x, pt.arange(9.0).view(3, 1, 3)):
        same(own(mine(other)), theirs(other))
        same(loaded(other), theirs(other))


@pytest.mark.parametrize("name", ["nothing", "truth", "numbers", "place"])
def test_results_that_traces_have_no_values_for(name):
    from .. import programs
    from ..both import MINE

    def traced(t):
        function = t.jit.script(getattr(MINE if t is ft else programs, name))
        return t.jit.trace(lambda x: (function(x), x + 1)[1], t.ones(2))

    both_with_text(traced)


def test_empty_tuples_are_arguments():
    def traced(t):
        for given in (((),), ((t.ones(1), ()),), ({"a": ()}, t.ones(2))):
            function = t.jit.trace(lambda *args: t.ones(2) if len(args) < 2 else args[1] + 1, given)
            yield function(*given).tolist(), str(function.graph).count("Tuple")

    assert list(traced(ft)) == list(traced(pt))


@pytest.mark.parametrize("name, body", [
    ("padded", "nn.functional.pad(x, [0, y.shape[-1] - x.shape[-1]])"),
    ("linear", "torch.nn.functional.hardtanh(x) + y[:, :2].sum()"),
    ("called", "torch.relu(x).sum() + x.abs()"),
])
def test_functions_that_are_compiled_during_a_trace(name, body, tmp_path):
    """While a trace runs other functions stand in the places of those that the source names."""
    path = tmp_path / "compiled_late.py"
    path.write_text(f"def late(x: torch.Tensor, y: torch.Tensor):\n    return {body}\n")
    found = []
    for library in (ft, pt):
        names = {"torch": library, "nn": library.nn, "__name__": f"compiled_{name}"}
        exec(compile(path.read_text(), str(path), "exec"), names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            late = library.jit.script_if_tracing(names["late"])
            traced = library.jit.trace(lambda x, y: late(x, y) * 2, (library.ones(2, 3), library.ones(2, 5)))  # noqa: B023
        found.append((traced.code, traced(library.full((1, 3), 3.0), library.ones(1, 4)).tolist()))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
def test_sizes_of_reshape_that_were_read():
    def reshaped(x):
        return x.reshape(x.shape[0], 2, -1)

    for t in (pt, ft):
        traced = t.jit.trace(reshaped, (t.ones(2, 4, 6),))
        assert tuple(traced(t.ones(3, 4, 6)).shape) == (3, 2, 12)
        assert "reshape" in traced.code


@pytest.mark.filterwarnings("ignore")
def test_arguments_are_the_tensors_that_were_given():
    """What the function reaches in another way is the argument, too; of a tensor given twice the second is another."""

    def told(t):
        x, weight, nothing, found = t.ones(3), t.full((3,), 2.0), t.zeros(()), []
        parameter = t.nn.Parameter(t.ones(2))

        def program(*given):
            found.append([a is b for a, b in zip(given, arguments)])
            return given[0] * weight + x + sum(g.sum() for g in given[2:])

        for arguments in ((x,), (x, weight), (x, weight, nothing), (x, x), (weight, x[1:], parameter)):
            traced = t.jit.trace(program, arguments, check_trace=False)
            found.append(traced(*[t.full_like(a, 5.0 + i) for i, a in enumerate(arguments)]).tolist())
        return found

    assert told(ft) == told(pt)


def test_checks_call_functions_with_tensors_that_require_grad_as_the_given_do():
    def seen(t):
        x, flags = t.ones(3, requires_grad=True), []

        def function(a):
            flags.append((a.requires_grad, a is x, a.is_leaf))
            return a * 2

        t.jit.trace(function, (x,))
        return flags

    assert seen(ft) == seen(pt)
