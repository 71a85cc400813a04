"""`Module`: hooks, attributes, states, conversion. Each scenario runs in both libraries."""

import copy

import pytest
import torch as reference

import ftorch as torch
from tests.oracle import both, both_with_text

SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", SCENARIOS, ids=lambda f: f.__name__)
def test_same_as_in_torch(run):
    expected, actual = (list(run(package)) for package in (reference, torch))
    assert actual == expected


def numbers(tensor):
    return None if tensor is None else [round(x, 4) for x in tensor.reshape(-1).tolist()]


def error(function):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function()
    return type(caught.value).__name__, str(caught.value).replace("ftorch", "torch")


def linear(torch):
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.fill_(0.1)
    return layer


@scenario
def forward_hooks(torch):
    layer, seen = linear(torch), []
    handles = [
        layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        layer.register_forward_hook(lambda m, args, out: out + 1),
        layer.register_forward_hook(
            lambda m, args, kwargs, out: seen.append((len(args), sorted(kwargs), out.sum().item())),
            with_kwargs=True,
        ),
        layer.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True),
    ]
    yield numbers(layer(torch.ones(2, 3)))
    for handle in handles:
        handle.remove()
    yield numbers(layer(torch.ones(2, 3)))
    yield [x if isinstance(x, str) else (*x[:2], round(x[2], 4)) for x in seen]


@scenario
def full_backward_hooks(torch):
    layer, seen = linear(torch), []
    layer.register_full_backward_hook(
        lambda m, before, after: seen.append((numbers(before[0]), numbers(after[0])))
    )
    layer.register_full_backward_pre_hook(lambda m, after: (after[0] * 3,))
    x = torch.ones(2, 3, requires_grad=True)
    layer(x).sum().backward()
    yield from (seen, numbers(x.grad), numbers(layer.weight.grad))
    scale = layer.register_full_backward_hook(lambda m, before, after: (before[0] * 10,))
    x.grad = None
    layer(x).sum().backward()
    yield numbers(x.grad)
    scale.remove()
    layer(torch.ones(1, 3)).sum().backward()  # no input requires grad
    yield seen[-1]
    yield error(lambda: layer.register_backward_hook(print))


@scenario
def older_backward_hooks(torch):
    layer, seen = torch.nn.ReLU(), []
    layer.register_backward_hook(lambda m, before, after: seen.append(numbers(before[0])))
    layer(torch.ones(2, requires_grad=True)).sum().backward()
    yield seen
    yield error(lambda: layer.register_full_backward_hook(print))


@scenario
def global_hooks(torch):
    seen = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda m, args, out: seen.append(type(m).__name__)
    )
    net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    net(torch.ones(1))
    handle.remove()
    net(torch.ones(1))
    yield seen


@scenario
def hooks_that_are_always_called(torch):
    class Bad(torch.nn.Module):
        def forward(self, x):
            raise ValueError("bad")

    module, seen = Bad(), []
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    yield error(lambda: module(1))
    yield seen


@scenario
def registration_errors(torch):
    nn, module = torch.nn, torch.nn.Module()
    module.x, module.layer = 1, nn.Linear(1, 1)
    for name in ("a.b", "", 3, "x"):
        yield error(lambda name=name: module.register_parameter(name, None))
        yield error(lambda name=name: module.register_buffer(name, None))
        yield error(lambda name=name: module.add_module(name, None))
    yield error(lambda: module.register_parameter("y", torch.ones(1)))
    yield error(lambda: module.register_buffer("y", 3))
    yield error(lambda: module.add_module("y", 3))
    yield error(lambda: setattr(module, "layer", 3))
    yield error(lambda: setattr(module.layer, "weight", torch.ones(1)))
    yield error(lambda: module.nothing)
    yield error(lambda: module(1))
    yield error(lambda: nn.Module(3))
    yield error(lambda: nn.Module(a=3))


@scenario
def before_init(torch):
    def make(assign):
        class Early(torch.nn.Module):
            def __init__(self):
                assign(self)

        return Early

    for value in (torch.nn.Parameter(torch.ones(1)), torch.nn.ReLU()):
        yield error(make(lambda self, value=value: setattr(self, "p", value)))
    yield error(make(lambda self: self.register_buffer("p", None)))


@scenario
def paths(torch):
    module = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(1, 1)))
    yield type(module.get_submodule("0.0")).__name__
    yield list(module.get_parameter("0.0.weight").shape)
    for path in ("0.0.weight", "a.b"):
        yield error(lambda path=path: module.get_submodule(path))
    yield error(lambda: module.get_parameter("0.0.q"))
    yield error(lambda: module.get_buffer("0.0.weight"))


@scenario
def loading(torch):
    layer = torch.nn.Linear(1, 1)
    yield str(layer.load_state_dict(layer.state_dict()))
    yield str(layer.load_state_dict({}, strict=False))
    yield error(lambda: layer.load_state_dict({"weight": torch.ones(2, 2), "u": torch.ones(1)}))
    yield error(lambda: layer.load_state_dict(3))
    state = {k: torch.full_like(v, 2.0) for k, v in layer.state_dict().items()}
    layer.load_state_dict(state, assign=True)
    yield layer.weight.requires_grad, isinstance(layer.weight, torch.nn.Parameter)
    yield numbers(layer.weight)


@scenario
def conversion(torch):
    norm = torch.nn.BatchNorm1d(2).half()
    yield [str(v.dtype) for v in norm.state_dict().values()]
    norm.to(torch.float64)
    yield [str(v.dtype) for v in norm.state_dict().values()]
    yield error(lambda: norm.to(torch.int32))
    yield error(lambda: norm.train(3))


@scenario
def shared_modules(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    net.add_module("again", net[0])
    yield [name for name, _ in net.named_parameters()]
    yield [name for name, _ in net.named_parameters(remove_duplicate=False)]
    yield [name for name, _ in net.named_modules()]
    yield list(net.state_dict())
    copied = copy.deepcopy(net)
    yield copied[0] is copied.again


@scenario
def gradients(torch):
    layer = linear(torch)
    layer(torch.ones(1, 3)).sum().backward()
    yield numbers(layer.weight.grad)
    layer.zero_grad(set_to_none=False)
    yield numbers(layer.weight.grad)
    layer.zero_grad()
    yield layer.weight.grad
    yield [p.requires_grad for p in layer.requires_grad_(False).parameters()]


@scenario
def buffers(torch):
    module = torch.nn.Module()
    module.a = torch.nn.Buffer(torch.ones(1))
    module.b = torch.nn.Buffer(torch.ones(1), persistent=False)
    module.register_buffer("c", None)
    yield list(dict(module.named_buffers())), list(module.state_dict())
    module.a = torch.zeros(1)
    yield numbers(module.state_dict()["a"])
    yield error(lambda: setattr(module, "a", 3))
    del module.b
    yield list(dict(module.named_buffers()))


@scenario
def containers(torch):
    nn = torch.nn
    yield repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()]))
    yield repr(nn.ModuleDict({"a": nn.ReLU()}))
    yield repr(nn.ParameterList([torch.ones(2, 3)]))
    yield repr(nn.ParameterDict({"a": torch.ones(2)})).replace("ftorch.nn", "torch.nn")
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    yield repr(net[1:]), repr(net * 2), repr(net + net), repr(net.pop(0)), len(net)
    yield repr(net.insert(0, nn.GELU())), repr(net.append(nn.ELU())), repr(net[-1])
    del net[1]
    yield list(net.state_dict()), [name for name, _ in net.named_children()]
    for bad in (lambda: net[7], lambda: net * 0, lambda: net + 3, lambda: nn.ModuleList(3)):
        yield error(bad)


@scenario
def lazy_modules(torch):
    layer = torch.nn.LazyLinear(2)
    yield repr(layer), repr(layer.weight), layer.has_uninitialized_params()
    yield error(lambda: torch.nn.LazyLinear(2).weight.shape)
    layer(torch.ones(1, 5))
    yield type(layer).__name__, repr(layer), list(layer.weight.shape)
    loaded = torch.nn.LazyLinear(2)
    loaded.load_state_dict(layer.state_dict())
    yield list(loaded.weight.shape), numbers(loaded.weight) == numbers(layer.weight)


@scenario
def parameters(torch):
    p = torch.nn.Parameter(torch.ones(2))
    for value in (p * 1, p.data, p.detach(), copy.deepcopy(p)):
        yield type(value).__name__, isinstance(value, torch.nn.Parameter)
    yield p.requires_grad, copy.deepcopy(p).requires_grad


def test_batch_norm_of_no_channels():
    def program(m):
        x = m.zeros(0, requires_grad=True)
        y = m.nn.functional.batch_norm(x, m.zeros(0), m.zeros(0), training=True)
        y.sum().backward()
        return y, x.grad

    both(program)


def test_names_of_positions():
    """``_get_abs_string_index``, which lists of modules of libraries (pyro's) call."""
    found = []
    for nn in (torch.nn, reference.nn):
        for held in (nn.ModuleList([nn.ReLU()] * 3), nn.ParameterList([nn.Linear(1, 1).bias] * 3)):
            for index in (0, -1, True, 3, -4, "a"):
                try:
                    found.append(held._get_abs_string_index(index))
                except (IndexError, TypeError) as error:
                    found.append((type(error), str(error)))
    assert found[: len(found) // 2] == found[len(found) // 2 :]


@pytest.mark.parametrize("t", (reference, torch), ids=("torch", "ftorch"))
def test_tensors_within_a_parameter_are_converted(t):
    class Pair(t.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            return t.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

        def __init__(self, a, b):
            self.a, self.b = a, b

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Pair(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            pick = lambda name: t.utils._pytree.tree_map_only(Pair, lambda x: getattr(x, name), args)  # noqa: E731
            return Pair(func(*pick("a"), **(kwargs or {})), func(*pick("b"), **(kwargs or {})))

    layer = t.nn.Linear(2, 3)
    layer.weight = parameter = t.nn.Parameter(Pair(t.ones(3, 2), t.zeros(3, 2)))
    layer.double()
    assert layer.weight is parameter and type(parameter) is Pair and parameter.requires_grad
    assert [str(x.dtype) for x in (parameter, parameter.a, parameter.b, layer.bias)] == ["torch.float64"] * 4
    layer.to("meta")
    assert parameter.a.is_meta and parameter.b.is_meta and layer.weight is parameter


def test_parameters_become_others_on_meta():
    """Conversions to and from the meta device make parameters anew, and refuse to exchange their data."""
    def program(m):
        layer = m.nn.Linear(2, 2)
        weight = layer.weight
        weight.grad = m.ones(2, 2)
        layer.to("meta")
        return layer.weight is weight, weight.device.type, layer.weight.grad.device.type, layer.weight.type()

    both(program)
    both_with_text(lambda m: setattr(m.ones(1), "data", m.ones(1, device="meta")))
    both_with_text(lambda m: m.ones(1).type("torch.meta.FloatTensor"))


def test_clipping_values_without_gradients_raises():
    both_with_text(lambda m: m.nn.utils.clip_grad_value_(m.nn.Linear(2, 2).parameters(), 1.0))
