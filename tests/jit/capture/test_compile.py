"""``torch.compile``: what a compiled call gives, differentiates, changes and depends on."""

import collections
import copy
import dataclasses

import pytest

import ftorch as torch
from ftorch import nn
from ftorch.eager.runtime.executor import stats

F = nn.functional


def programs(compiled):
    """The programs of a compiled function or module."""
    return getattr(compiled, "_compiled", compiled).programs


def close(a, b, tolerance=1e-5):
    if isinstance(a, torch.Tensor):
        assert a.shape == b.shape and a.dtype == b.dtype and a.requires_grad == b.requires_grad
        assert torch.allclose(a, b, tolerance, tolerance, equal_nan=True)
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b):
            close(x, y, tolerance)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        close(list(a.values()), list(b.values()), tolerance)
    elif dataclasses.is_dataclass(a):
        assert type(a) is type(b)
        close(vars(a), vars(b), tolerance)
    else:
        assert a == b


def assert_compiles(function, make, calls=3, graphs=1):
    """A compiled function does what the function does, to the same arguments, by one program."""
    compiled = torch.compile(function)
    for i in range(calls):
        mine = make()
        plain = [t.clone() for t in mine]
        torch.manual_seed(100 + i)
        found = compiled(*mine)
        torch.manual_seed(100 + i)
        close(found, function(*plain))
        close(mine, plain)
        for a, b in zip(mine, plain):
            if isinstance(a, torch.Tensor) and a.grad is not None:
                close(a.grad, b.grad)
    assert len(programs(compiled)) == graphs
    return compiled


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Output:
    loss: torch.Tensor
    parts: tuple
    name: str = "output"


def two():
    return [torch.randn(3, 4), torch.randn(3, 4)]


@pytest.mark.parametrize("function", [
    lambda x, y: x @ y.T,
    lambda x, y: (x, y),
    lambda x, y: {"a": [x + y, 3], "b": Point(x, y * 2), "c": None},
    lambda x, y: Output((x - y).sum(), (x, x * y)),
    lambda x, y: collections.OrderedDict(z=x.exp()),
    lambda x, y: x.add_(y),
    lambda x, y: (x.mul_(2).sum(), y.t().add_(1)),
    lambda x, y: (x[0], x[:, 1:].relu_(), x.view(-1)),
    lambda x, y: torch.rand(3) + torch.randn_like(x).sum() + F.dropout(y, 0.5).sum(),
    lambda x, y: torch.bernoulli(torch.full((4,), 0.5)) * x,
    lambda x, y: torch.tensor([1.0, 2.0]).sum() * torch.tensor(3.0).add_(1) + x,
    lambda x, y: x.split(2, 1),
    lambda x, y: 5,
    lambda x, y: (x + 1, torch.zeros(2), "text"),
    lambda x, y: torch.cond(x.sum() > 0, torch.sin, torch.cos, (y,)),
    lambda x, y: torch.vmap(torch.dot)(x, y),
    lambda x, y: torch.func.grad(lambda z: (z * y).sin().sum())(x),
    lambda x, y: x.to(torch.float64).sum(0, keepdim=True).half(),
])
def test_results_and_writes(function):
    assert_compiles(function, two)


def grads():
    return [torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)]


@pytest.mark.parametrize("function", [
    lambda x, y: (x * y).sin(),
    lambda x, y: ((x @ y.T).relu(), x.exp(), y.detach() * 2),
    lambda x, y: x.clone().mul_(y) + F.dropout(y, 0.3),
    lambda x, y: (x * 2).chunk(2, 1),
    lambda x, y: torch.func.vjp(torch.sin, x)[0] * y,
    lambda x, y: [F.layer_norm(x, (4,)) @ y.T, {"k": F.log_softmax(y, -1)}],
    lambda x, y: (x[1:] * y[:2]).view(-1),
    lambda x, y: torch.utils.checkpoint.checkpoint(lambda z: (z * y).sin(), x, use_reentrant=False),
])
def test_gradients(function):
    """A call's results have one node; gradients arrive where they do without compiling."""
    def total(results):
        if isinstance(results, torch.Tensor):
            return (results * results).sum() if results.requires_grad else 0
        results = results.values() if isinstance(results, dict) else results
        return sum(total(r) for r in results)

    compiled = torch.compile(function)
    for i in range(3):
        torch.manual_seed(i)
        mine = grads()
        plain = [t.detach().clone().requires_grad_() for t in mine]
        torch.manual_seed(i)
        found = compiled(*mine)
        torch.manual_seed(i)
        expected = function(*plain)
        close(found, expected)
        total(found).backward()
        total(expected).backward()
        for a, b in zip(mine, plain):
            close(a.grad, b.grad)
    assert len(compiled.programs) == 1
    leaf = found
    while not isinstance(leaf, torch.Tensor):
        leaf = leaf[0]
    assert leaf.grad_fn.name() == "CompiledFunctionBackward"


def test_gradients_of_arguments_with_a_graph_and_of_few_inputs():
    compiled = torch.compile(lambda x, y: (x.exp() * y).sum())
    for _ in range(2):
        w, y = torch.ones(3, requires_grad=True), torch.arange(3.0)
        compiled(w * 2, y).backward()
        close(w.grad, 2 * torch.exp(torch.tensor(2.0)) * y)
    assert len(compiled.programs) == 1
    a, b = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
    found = torch.autograd.grad(torch.compile(torch.mul)(a, b).sum(), a)
    close(found, (b,))


def test_gradients_of_gradients():
    compiled = torch.compile(lambda x, w: (x * w).sin() * x.square())
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(compiled, (x, w))
    assert torch.autograd.gradgradcheck(compiled, (x, w))


def test_the_graph_of_a_call_can_be_used_once():
    x = torch.ones(2, requires_grad=True)
    y = torch.compile(torch.exp)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828] * 2)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_grad_modes_and_requires_grad_are_guarded():
    x, w = torch.randn(2, 3), torch.randn(3, requires_grad=True)
    compiled = torch.compile(lambda x: x * w)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert not compiled(x).requires_grad
    w.requires_grad_(False)
    assert not compiled(x).requires_grad
    w.requires_grad_(True)
    assert compiled(x).requires_grad
    inner = torch.compile(torch.no_grad()(lambda x: x * w))
    assert not inner(x).requires_grad


class Net(nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.flag = True

    def forward(self, x, *, bias=0.0):
        self.calls += 1
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        if self.flag:
            x = self.drop(x)
        return self.head(x) * self.scale + bias


def test_modules():
    """Parameters, buffers, train and eval, plain attributes, keyword arguments; by `compile` as a
    function and as a method."""
    torch.manual_seed(0)
    plain = Net()
    wrapped, inplace = copy.deepcopy(plain), copy.deepcopy(plain)
    compiled = torch.compile(wrapped)
    inplace.compile()
    assert compiled.dynamo_ctx(lambda x: x * 2)(torch.ones(2)).tolist() == [2, 2]
    assert compiled.head is wrapped.head and list(compiled.state_dict())[0].startswith("_orig_mod.")

    def step(net, train, **options):
        net.train(train)
        torch.manual_seed(1)
        x = torch.randn(4, 1, 6, 6)
        out = net(x, **options)
        out.sum().backward()
        return out.detach()

    for train, options in [(True, {}), (True, {}), (False, {}), (False, {"bias": 1.0}), (True, {})]:
        expected = step(plain, train, **options)
        for net in (compiled, inplace):
            close(step(net, train, **options), expected)
    assert len(programs(compiled)) == 3
    close(dict(wrapped.state_dict()), dict(plain.state_dict()), 1e-4)
    for a, b in zip(wrapped.parameters(), plain.parameters()):
        close(a.grad, b.grad, 1e-4)
    assert wrapped.calls == 5
    for net in (plain, wrapped):
        net.flag, net.eval().scale = False, 3.0
    close(compiled(torch.ones(1, 1, 6, 6)), plain(torch.ones(1, 1, 6, 6)))
    with torch.no_grad():
        plain.load_state_dict({k: v + 1 for k, v in plain.state_dict().items()})
        wrapped.load_state_dict(plain.state_dict())
    close(compiled(torch.ones(1, 1, 6, 6)), plain(torch.ones(1, 1, 6, 6)))
    assert isinstance(copy.deepcopy(compiled), type(compiled))


def test_parameters_that_are_replaced():
    net = nn.Linear(2, 2)
    compiled = torch.compile(net)
    x = torch.ones(1, 2)
    compiled(x)
    net.weight = nn.Parameter(torch.full((2, 2), 5.0))
    close(compiled(x), net(x))
    net.weight.data = torch.full((2, 2), 7.0)
    close(compiled(x), net(x))
    compiled(x).sum().backward()
    assert net.weight.grad is not None
    assert len(programs(compiled)) == 1


# --- Python state ---------------------------------------------------------------------

SETTING = 2.0
TABLE = {"scale": 1.0, "shift": torch.ones(2)}


class Config:
    rate = 1.0


class Holder:
    def __init__(self):
        self.factor, self.last, self.log = 1.0, None, []


def test_globals_closures_attributes_and_containers_are_guarded():
    global SETTING
    factor, holder, config = 1.0, Holder(), Config()

    def helper(x):
        return x * TABLE["scale"] + TABLE["shift"] * SETTING

    def function(x):
        return helper(x) * factor + holder.factor - config.rate

    compiled = torch.compile(function)
    x = torch.ones(2)

    def same():
        for _ in range(2):
            close(compiled(x), function(x))

    same()
    before = SETTING
    try:
        SETTING = 3.0
        same()
        TABLE["scale"] = 4.0
        same()
        TABLE["shift"] = torch.zeros(2)
        same()
        factor = 2.0
        same()
        holder.factor = 0.5
        same()
        Config.rate = 0.25
        same()
    finally:
        SETTING, Config.rate, TABLE["scale"] = before, 1.0, 1.0
    assert len(compiled.programs) == 6  # another tensor in the table needs none of its own


def test_what_a_function_puts_into_objects():
    holder = Holder()

    def function(x):
        if holder.last is None:
            holder.last = torch.zeros(2)
        holder.last = holder.last + x
        return holder.last * 2

    compiled = torch.compile(function)
    x = torch.ones(2)
    for i in range(1, 5):
        assert compiled(x).tolist() == [2.0 * i] * 2
        assert holder.last.tolist() == [float(i)] * 2
    assert len(compiled.programs) == 2


def test_side_effects_that_a_program_cannot_repeat_happen_in_each_call(capsys):
    holder, seen, count = Holder(), [], 0

    def function(x):
        nonlocal count
        count += 1
        holder.log.append(x.sum())
        return x * count

    compiled = torch.compile(function)
    for i in range(1, 4):
        assert compiled(torch.ones(2)).tolist() == [float(i)] * 2
    assert count == 3 and [t.item() for t in holder.log] == [2.0] * 3

    def printing(x):
        print("called")
        return x + 1

    compiled = torch.compile(printing)
    for _ in range(3):
        assert compiled(torch.zeros(1)).item() == 1
    assert capsys.readouterr().out == "called\n" * 3

    def drawing(x):
        import random

        return x + random.random()

    compiled = torch.compile(drawing)
    assert compiled(torch.zeros(1)).item() != compiled(torch.zeros(1)).item()
    compiled = torch.compile(lambda x: (seen.append(1), x + 1)[1])
    compiled(torch.ones(1)), compiled(torch.ones(1))
    assert len(seen) == 2


def test_looks_at_values():
    """The value of an argument, of a result, of a parameter: each call decides anew."""
    w = torch.ones(1)

    def function(x):
        if x.sum() > 0:
            return x + w
        return (x * x).max().item() - x

    compiled = torch.compile(function)
    for value in (1.0, -1.0, 2.0, -3.0):
        close(compiled(torch.full((2,), value)), function(torch.full((2,), value)))
    gate = torch.tensor(True)
    compiled = torch.compile(lambda x: x + 1 if gate else x - 1)
    assert compiled(torch.zeros(1)).item() == 1
    gate.fill_(False)
    assert compiled(torch.zeros(1)).item() == -1


def test_errors_of_the_function_are_its_own():
    def function(x, n):
        y = x * 2
        x.add_(1)
        if n:
            raise KeyError("mine")
        return y @ torch.ones(3)

    compiled = torch.compile(function)
    x = torch.zeros(2, 3)
    compiled(x, 0)
    with pytest.raises(KeyError, match="mine"):
        compiled(x, 1)
    assert x.tolist() == [[2.0] * 3] * 2  # what was done before, was done
    with pytest.raises(RuntimeError, match="size mismatch|shapes"):
        compiled(torch.zeros(2, 4), 0)
    compiled(x, 0)
    assert x.tolist() == [[3.0] * 3] * 2


def test_module_hooks():
    net, seen = nn.Linear(2, 2), []
    compiled = torch.compile(net)
    x = torch.ones(1, 2)
    first = compiled(x)
    handle = net.register_forward_hook(lambda m, a, out: out * 2)
    close(compiled(x), first * 2)
    handle.remove()
    close(compiled(x), first)
    handle = net.register_forward_hook(lambda m, a, out: seen.append(out))
    for _ in range(3):
        compiled(x)
    handle.remove()
    assert len(seen) == 3
    net.weight.register_hook(lambda g: g * 10)
    compiled(x).sum().backward()
    assert net.weight.grad.tolist() == [[10.0, 10.0]] * 2


def test_autocast():
    net = nn.Linear(4, 4)

    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            return net(x).relu(), x @ x.T

    assert_compiles(lambda x, y: function(x), two)
    compiled = torch.compile(net)
    x = torch.randn(2, 4)
    assert compiled(x).dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(2):
            out = compiled(x)
            assert out.dtype is torch.bfloat16
            close(out, net(x))
        out.sum().backward()
    assert compiled(x).dtype is torch.float32
    assert net.weight.grad.dtype is torch.float32


def test_nested_and_decorated():
    @torch.compile
    def inner(x):
        return x.sin()

    @torch.compile(fullgraph=True, mode="reduce-overhead")
    def outer(x, n):
        return inner(x) + n

    x = torch.ones(2)
    close(outer(x, 1), x.sin() + 1)
    close(outer(x, 1), x.sin() + 1)
    assert len(outer.programs) == 1 and not inner.programs

    class Thing:
        @torch.compile
        def method(self, x):
            return x * self.n

    thing, other = Thing(), Thing()
    thing.n, other.n = 2, 3
    for _ in range(2):
        assert thing.method(x).tolist() == [2.0] * 2 and other.method(x).tolist() == [3.0] * 2


def test_arguments_that_share_memory():
    def function(x, y):
        x.mul_(2)
        return x + y

    compiled = torch.compile(function)
    for _ in range(2):
        base = torch.arange(6.0)
        plain = base.clone()
        close(compiled(base, base), function(plain, plain))
        close(compiled(base[:4], base[2:]), function(plain[:4], plain[2:]))
        close(base, plain)
        close(compiled(base[:3], base.view(2, 3)[1].clone()), function(plain[:3], plain[3:].clone()))
        close(base, plain)


def test_views_of_batches_are_one_program():
    data = torch.arange(40.0).view(10, 4)
    compiled = torch.compile(lambda x, y: x * 2 + y)
    for i in range(8):
        close(compiled(data[i], data[i + 1]), data[i] * 2 + data[i + 1])
        close(compiled(data[i, :-1], data[i, 1:]), data[i, :-1] * 2 + data[i, 1:])
    assert len(compiled.programs) == 2  # wherever they lie


def test_numpy_memory():
    import numpy as np

    array = np.zeros(2, np.float32)
    shared = torch.from_numpy(array)
    compiled = torch.compile(lambda x: shared + x)
    for i in range(3):
        array[:] = i
        assert compiled(torch.ones(2)).tolist() == [i + 1.0] * 2

    def fill(x):
        shared.fill_(7)
        return x + 1

    compiled = torch.compile(fill)
    for _ in range(2):
        array[:] = 0
        compiled(torch.ones(1))
        assert array.tolist() == [7, 7]


def test_constants_made_inside_are_new_each_time():
    def function(x):
        total = torch.tensor(0.0)
        for row in x:
            total += row.sum()
        return total, torch.tensor([1.0])

    compiled = torch.compile(function)
    for _ in range(3):
        total, constant = compiled(torch.ones(2, 2))
        assert total.item() == 4 and constant.tolist() == [1]
        constant.add_(1)
    assert len(compiled.programs) == 1


def test_generators():
    """The stream goes on as it does without compiling, and seeds set inside are set each time."""
    def function(x):
        a = torch.randn(3)
        unused = torch.rand(2)  # noqa: F841
        return a + x * torch.empty(3).uniform_()

    compiled = torch.compile(function)
    for run in (compiled, function):
        torch.manual_seed(5)
        found = [run(torch.ones(3)) for _ in range(3)]
        if run is compiled:
            mine = found
    close(mine, found)
    own = torch.Generator().manual_seed(1)
    compiled = torch.compile(lambda: torch.rand(2, generator=own))
    mine = [compiled() for _ in range(3)]
    own.manual_seed(1)
    close(mine, [torch.rand(2, generator=own) for _ in range(3)])

    def seeding(x):
        torch.manual_seed(3)
        return x + torch.rand(2)

    compiled = torch.compile(seeding)
    close([compiled(torch.zeros(2)) for _ in range(3)], [seeding(torch.zeros(2))] * 3)


def test_steady_calls_compile_nothing():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    compiled = torch.compile(net)
    x = torch.randn(2, 4, requires_grad=True)
    (x * 1).sum().item()
    for _ in range(4):
        compiled(x).sum().backward()
    stats.reset()
    for _ in range(3):
        compiled(x).sum().backward()
    assert stats.compilations == 0


def _views_of_arguments(t, function, make, compiled):
    """What three calls give: values, places in memory, and the gradients that flow through views and rest."""
    run, found = t.compile(function) if compiled else function, []
    for _ in range(3):
        z = make(t)
        results = run(z)
        sum((r.abs() * (i + 1)).sum() for i, r in enumerate(results)).backward()
        found.append([
            (tuple(r.shape), r.stride(), r.storage_offset(), r._base is z, r.detach().resolve_conj().tolist())
            for r in results
        ] + [z.grad.resolve_conj().tolist()])
    return found


@pytest.mark.parametrize("function, make", [
    (lambda z: (z[:2], z * 2), lambda t: t.ones(6, requires_grad=True)),
    (lambda z: (z.t()[1:], z * 2), lambda t: t.ones(3, 4, requires_grad=True)),
    (lambda z: (z * 3, z[1].conj()), lambda t: t.full((3, 4), 3 + 4j, requires_grad=True)),
    (lambda z: (z.reshape(2, 6), z[2:, ::2], z + z), lambda t: t.ones(3, 4, requires_grad=True)),
])
def test_results_that_are_views_of_an_argument_that_requires_grad(function, make):
    import torch as pt

    expected = _views_of_arguments(pt, function, make, compiled=False)
    assert _views_of_arguments(torch, function, make, compiled=True) == expected
