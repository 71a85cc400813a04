"""``torch.nn.utils``: parametrizations, the older hooks, pruning and fusion, against PyTorch."""

import copy
import importlib
import pickle

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from tests.oracle import shown

importlib.import_module("torch.nn.utils.prune")  # which PyTorch does not import by itself


def plain(value):
    """Tensors and modules of either library as values that can be compared."""
    if isinstance(value, (torch.Tensor, reference.Tensor)):
        return "tensor", str(value.dtype), tuple(value.shape), value.detach().tolist()
    if isinstance(value, (torch.nn.Module, reference.nn.Module)):
        return "module", repr(value), plain(value.state_dict())
    if isinstance(value, dict):
        return [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def result_of(function, package):
    return shown(package, function, show=plain, seed=0, ignored=FutureWarning)


def same(actual, expected):
    if isinstance(expected, (list, tuple)):
        assert type(actual) is type(expected) and len(actual) == len(expected)
        for a, e in zip(actual, expected):
            same(a, e)
    elif isinstance(expected, float):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=2e-6)
    else:
        assert actual == expected


def agree(function):
    expected = result_of(function, reference)
    same(result_of(function, torch), expected)
    return expected


def layer(package, kind="Linear", *args):
    return getattr(package.nn, kind)(*(args or (4, 3)))


def trained(package, module, steps=3):
    """Outputs, gradients and state after a few steps of SGD."""
    x = package.randn(5, *{"Linear": (4,), "Conv1d": (2, 6), "ConvTranspose2d": (2, 5, 5)}[
        package.nn.utils.parametrize.type_before_parametrizations(module).__name__
    ])
    optimizer = package.optim.SGD(module.parameters(), lr=0.1)
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        y = module(x)
        y.square().mean().backward()
        seen.append([y, *(p.grad for p in module.parameters())])
        optimizer.step()
    module.eval()
    return [seen, module(x), module]


KINDS = {"Linear": (4, 3), "Conv1d": (2, 3, 2), "ConvTranspose2d": (2, 3, 2)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["parametrizations.weight_norm", "parametrizations.spectral_norm",
                                 "weight_norm", "spectral_norm"])
def test_norms(kind, how):
    def run(package):
        function = package.nn.utils
        for part in how.split("."):
            function = getattr(function, part)
        return trained(package, function(layer(package, kind, *KINDS[kind])))

    agree(run)


@pytest.mark.parametrize("how", ["weight_norm", "spectral_norm"])
def test_removing_a_norm(how):
    def run(package):
        utils = package.nn.utils
        module = getattr(utils, how)(layer(package))
        before = repr(module)
        getattr(utils, "remove_" + how)(module)
        return [before, module, list(module._forward_pre_hooks), list(module._state_dict_hooks)]

    agree(run)
    agree(lambda p: getattr(p.nn.utils, "remove_" + how)(layer(p)))
    agree(lambda p: [getattr(p.nn.utils, how)(m) for m in [layer(p)] * 2])


@pytest.mark.parametrize("dim", [None, 0, 1, -1, 2])
def test_weight_norm_dims(dim):
    agree(lambda p: p.nn.utils.parametrizations.weight_norm(layer(p), dim=dim))
    agree(lambda p: p.norm_except_dim(p.randn(3, 4, 2), 1, -1 if dim is None else dim))


def test_an_old_weight_norm_checkpoint_loads_into_the_parametrization():
    def run(package):
        old = package.nn.utils.weight_norm(layer(package))
        new = package.nn.utils.parametrizations.weight_norm(layer(package))
        return [str(new.load_state_dict(old.state_dict())), new]

    agree(run)


def test_a_spectral_norm_checkpoint_without_v_loads():
    def run(package):
        module = package.nn.utils.spectral_norm(layer(package, "Linear", 3, 4))
        state = module.state_dict()
        state._metadata[""] = {"version": 1}
        state["weight"] = module.weight.detach()
        del state["weight_v"]
        return [str(module.load_state_dict(state)), module]

    agree(run)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("how", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivialize", [True, False])
def test_orthogonal(shape, how, trivialize):
    def run(package):
        module = layer(
            package, "Linear", *shape
        ).double()  # PyTorch's own errors in single precision are above the limits
        package.nn.utils.parametrizations.orthogonal(
            module, orthogonal_map=how, use_trivialization=trivialize
        )
        if trivialize:
            # PyTorch's base comes from LAPACK's QR: it is checked below, not compared.
            base = module.parametrizations.weight[0].base
            assert (base.mT @ base - package.eye(len(base))).abs().max() < 1e-5
            module.parametrizations.weight[0].base = package.eye(len(base), dtype=package.float64)
        module.weight.square().cumsum(0).sum().backward()
        w = module.weight.mT if shape[1] < shape[0] else module.weight
        assert (w.mT @ w - package.eye(w.shape[1])).abs().max() < 1e-5 or w.shape[0] < w.shape[1]
        return [module.weight, module.parametrizations.weight.original.grad]

    agree(run)


def symmetric(package, inverse=True):
    class Symmetric(package.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    if inverse:
        Symmetric.right_inverse = lambda self, x: x.triu()
    return Symmetric()


def rank_one(package):
    class RankOne(package.nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) @ y.unsqueeze(-2)

        def right_inverse(self, z):
            return z[:, 0], z[0]

    return RankOne()


def test_registering_assigning_caching_and_removing():
    def run(package):
        parametrize = package.nn.utils.parametrize
        module = parametrize.register_parametrization(
            layer(package, "Linear", 3, 3), "weight", symmetric(package)
        )
        seen = [repr(module), module.weight, parametrize.is_parametrized(module)]
        parametrize.register_parametrization(module, "weight", package.nn.Identity())
        module.weight = package.arange(9.0).view(3, 3)
        seen += [module, [n for n, _ in module.named_parameters()]]
        with parametrize.cached():
            seen.append(module.weight is module.weight)
        seen.append(module.weight is module.weight)
        twin = copy.deepcopy(module)
        seen.append([twin.weight, twin.parametrizations.weight is module.parametrizations.weight])
        seen.append(parametrize.type_before_parametrizations(module).__name__)
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
        parametrize.remove_parametrizations(twin, "weight")
        return [*seen, module, twin, type(module).__name__, isinstance(module.weight, package.nn.Parameter)]

    agree(run)


def test_several_originals():
    def run(package):
        parametrize = package.nn.utils.parametrize
        module = layer(package, "Linear", 3, 3)
        parametrize.register_parametrization(module, "weight", rank_one(package))
        module.weight.sum().backward()
        other = layer(package, "Linear", 3, 3)
        parametrize.transfer_parametrizations_and_params(module, other)
        shared = other.parametrizations.weight.original0 is module.parametrizations.weight.original0
        grads = [p.grad for p in module.parametrizations.weight.parameters()]
        parametrize.remove_parametrizations(module, "weight")
        return [module, other, shared, grads]

    agree(run)


def bad(package, forward, inverse=None):
    class Bad(package.nn.Module):
        pass

    Bad.forward = lambda self, x: forward(x)
    if inverse is not None:
        Bad.right_inverse = lambda self, x: inverse(x)
    return Bad()


def register(package, module, again=False):
    target = layer(package, "Linear", 3, 3)
    if again:
        package.nn.utils.parametrize.register_parametrization(target, "weight", symmetric(package))
    return package.nn.utils.parametrize.register_parametrization(target, "weight", module)


ERRORS = {
    "no tensor": lambda p: p.nn.utils.parametrize.register_parametrization(
        layer(p), "size", p.nn.Identity()),
    "shape": lambda p: register(p, bad(p, lambda x: x[0])),
    "dtype": lambda p: register(p, bad(p, lambda x: x.double())),
    "no result": lambda p: register(p, bad(p, lambda x: 1)),
    "inverse's dtype": lambda p: register(p, bad(p, lambda x: x, lambda x: x.double())),
    "inverse's type": lambda p: register(p, bad(p, lambda x: x, lambda x: 1)),
    "inverse's element": lambda p: register(p, bad(p, lambda x: x, lambda x: [x, 1])),
    "second, shape": lambda p: register(p, bad(p, lambda x: x[0]), True),
    "second, dtype": lambda p: register(p, bad(p, lambda x: x.double()), True),
    "second, inverse": lambda p: register(p, bad(p, lambda x: x, lambda x: x[0]), True),
    "assignment": lambda p: setattr(register(p, symmetric(p, False)), "weight", p.ones(3, 3)),
    "not there": lambda p: p.nn.utils.parametrize.remove_parametrizations(layer(p), "weight"),
    "several": lambda p: p.nn.utils.parametrize.remove_parametrizations(
        p.nn.utils.parametrizations.weight_norm(layer(p)), "weight", False),
    "pickle": lambda p: pickle.dumps(register(p, symmetric(p))),
    "vector": lambda p: p.nn.utils.parametrizations.orthogonal(layer(p), "bias"),
    "map": lambda p: p.nn.utils.parametrizations.orthogonal(layer(p), "weight", "exp"),
    "iterations": lambda p: p.nn.utils.parametrizations.spectral_norm(
        layer(p), n_power_iterations=0),
    "dim": lambda p: p.nn.utils.parametrizations.spectral_norm(layer(p), dim=3),
    "prune, amount": lambda p: p.nn.utils.prune.l1_unstructured(layer(p), "weight", 1.5),
    "prune, too many": lambda p: p.nn.utils.prune.l1_unstructured(layer(p), "weight", 50),
    "prune, type": lambda p: p.nn.utils.prune.l1_unstructured(layer(p), "weight", "a"),
    "prune, vector": lambda p: p.nn.utils.prune.random_structured(layer(p), "bias", 1, 0),
    "prune, dim": lambda p: p.nn.utils.prune.random_structured(layer(p), "weight", 1, 2),
    "prune, not there": lambda p: p.nn.utils.prune.remove(layer(p), "weight"),
    "prune, mask": lambda p: p.nn.utils.prune.custom_from_mask(layer(p), "weight", p.ones(2)),
    "prune, global": lambda p: p.nn.utils.prune.global_unstructured(
        [(layer(p), "weight")], p.nn.utils.prune.CustomFromMask, mask=p.ones(12)),
    "skip_init": lambda p: p.nn.utils.skip_init(p.nn.ReLU),
    "fusion": lambda p: p.nn.utils.fuse_conv_bn_eval(p.nn.Conv1d(1, 1, 1), p.nn.BatchNorm1d(1)),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    def run(package):
        function = ERRORS[case]
        result = function(package)
        raise AssertionError(f"no error, but {result}")

    kind, text = result_of(run, reference)
    assert kind != "AssertionError" or "no error" not in text
    mine = result_of(run, torch)
    if case == "prune, global":  # the message shows a class, whose module's name is the library's
        mine = (mine[0], mine[1].replace("ftorch.", "torch."))
    assert mine == (kind, text)


PRUNING = {
    "identity": ((), {}),
    "random_unstructured": ((0.3,), {}),
    "l1_unstructured": ((5,), {}),
    "random_structured": ((1, 0), {}),
    "ln_structured": ((0.5, 2, 1), {}),
}


@pytest.mark.parametrize("first", PRUNING)
@pytest.mark.parametrize("second", [None, "l1_unstructured", "ln_structured"])
def test_pruning(first, second):
    def run(package):
        prune = package.nn.utils.prune
        module = layer(package)
        for name in filter(None, (first, second)):
            args, kwargs = PRUNING[name]
            getattr(prune, name)(module, "weight", *args, **kwargs)
        seen = [repr(module), prune.is_pruned(module), *trained(package, module)]
        prune.remove(module, "weight")
        return [*seen, module, prune.is_pruned(module)]

    agree(run)


def test_global_pruning():
    def run(package):
        prune = package.nn.utils.prune
        model = package.nn.Sequential(layer(package), layer(package, "Linear", 3, 2))
        chosen = [(m, "weight") for m in model]
        scores = {(model[0], "weight"): package.rand(3, 4)}
        for options in ({}, {"importance_scores": scores}):
            prune.global_unstructured(chosen, prune.L1Unstructured, amount=4, **options)
        kept = prune.L1Unstructured(2).prune(package.arange(-3.0, 3.0))
        return [model, kept]

    agree(run)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_fusion_of_convolutions(bias, affine, transpose):
    def run(package):
        kind = "ConvTranspose2d" if transpose else "Conv2d"
        conv = getattr(package.nn, kind)(2, 3, 2, bias=bias).eval()
        bn = package.nn.BatchNorm2d(3, affine=affine)
        bn(package.randn(4, 3, 5, 5))
        fused = package.nn.utils.fuse_conv_bn_eval(conv, bn.eval(), transpose)
        x = package.randn(2, 2, 4, 4)
        assert (fused(x) - bn(conv(x))).abs().max() < 1e-5
        return fused

    agree(run)


def test_fusion_of_linear_layers_and_skipped_initialisation():
    def run(package):
        bn = package.nn.BatchNorm1d(3)
        bn(package.randn(4, 3))
        made = package.nn.utils.skip_init(package.nn.Linear, 2, 3, dtype=package.float64)
        return [
            package.nn.utils.fuse_linear_bn_eval(layer(package).eval(), bn.eval()),
            repr(made), str(made.weight.dtype), str(made.weight.device),
        ]

    agree(run)


def test_weights_in_channels_last():
    def run(package):
        model = package.nn.Sequential(package.nn.Conv2d(2, 3, 3), package.nn.Conv3d(2, 3, 3))
        utils = package.nn.utils
        utils.convert_conv2d_weight_memory_format(model, package.channels_last)
        utils.convert_conv3d_weight_memory_format(model, package.channels_last_3d)
        return [m.weight.stride() for m in model], model

    agree(run)
