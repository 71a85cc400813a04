"""Sparsifiers of activations, data and rows choose what PyTorch's choose, and the pruned models give the same."""

import importlib

import pytest
import torch

import ftorch

from .comparing import assert_same


def module_of(t, name):
    return importlib.import_module(f"{t.__name__}.ao.pruning._experimental.{name}")


@pytest.mark.parametrize("features", [None, [0, 3]])
def test_activations(features):
    def program(t):
        sparsifier_of = module_of(t, "activation_sparsifier.activation_sparsifier").ActivationSparsifier
        model = t.nn.Sequential(t.nn.Linear(4, 5), t.nn.ReLU(), t.nn.Linear(5, 2))
        dim = None if features is None else 1
        sparsifier = sparsifier_of(model, t.add, lambda x: x.mean(0), features=features, feature_dim=dim, level=0.1)
        sparsifier.register_layer(model[0], mask_fn=lambda x, level: (x.abs() > level).float())
        sparsifier.register_layer(model[2], mask_fn=lambda x, level: (x > level).float(), level=0.3)
        for _ in range(3):
            model(t.randn(6, 4))
        sparsifier.step()
        found = [sparsifier.get_mask(layer=model[0]), sparsifier.get_mask("2")]
        text = repr(sparsifier)
        sparsifier.squash_mask()
        after = model(t.randn(6, 4))
        copy = t.nn.Sequential(t.nn.Linear(4, 5), t.nn.ReLU(), t.nn.Linear(5, 2))
        other = sparsifier_of(copy)
        other.load_state_dict(sparsifier.state_dict())
        return [found, text, after, copy(t.randn(6, 4)), sorted(sparsifier.state_dict()["data_groups"]["0"])]

    assert_same(program)


@pytest.mark.parametrize("settings", [
    {}, {"sparsity_level": 0.8, "sparse_block_shape": (1, 1)}, {"norm": "L2", "sparse_block_shape": (2, 3)},
    {"zeros_per_block": 2}, {"sparse_block_shape": (3, 3), "zeros_per_block": 4, "sparsity_level": 0.7},
    {"sparsity_level": 0.0}, {"sparsity_level": 1.0},
])
def test_data(settings):
    def program(t):
        module = module_of(t, "data_sparsifier")
        sparsifier = module.DataNormSparsifier([("a", t.randn(7, 9)), ("b", t.nn.Parameter(t.randn(12)))], **settings)
        bag = t.nn.EmbeddingBag(6, 8)
        sparsifier.add_data("c", bag, sparsity_level=0.25)
        sparsifier.step()
        masks = [sparsifier.get_mask(name) for name in "abc"]
        other = module.DataNormSparsifier()
        other.load_state_dict(sparsifier.state_dict())
        text = repr(sparsifier)
        values = [sparsifier.get_data("a"), other.get_data("b", return_original=False)]
        sparsifier.squash_mask()
        return [masks, text, values, sparsifier.get_data("c", return_original=False), bag.weight]

    assert_same(program)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("select", [True, False])
def test_sparse_quantized_embeddings(first, select):
    def program(t):
        class Model(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.bag = t.nn.EmbeddingBag(10, 12)
                self.inner = t.nn.Sequential(t.nn.Embedding(8, 8), t.nn.Linear(8, 3))

        model = Model()
        module_of(t, "data_sparsifier.quantization_utils").post_training_sparse_quantize(
            model, module_of(t, "data_sparsifier").DataNormSparsifier, sparsify_first=first,
            select_embeddings=[model.bag] if select else None, sparse_block_shape=(1, 4), sparsity_level=0.6,
        )
        inner = model.inner[0].weight
        # PyTorch's unpacked weights share their scales with the layer, which ends here.
        parts = [w.dequantize() if w.is_quantized else w.detach() for w in (model.bag.weight(), inner if select else inner())]
        return [parts, model.bag.weight().int_repr(), repr(model)]

    assert_same(program)


def test_schedules():
    def program(t):
        class Halved(module_of(t, "data_scheduler").BaseDataScheduler):
            def get_schedule_param(self):
                return {name: value * 0.5**self.last_epoch for name, value in self.base_param.items()}

        sparsifier = module_of(t, "data_sparsifier").DataNormSparsifier([("a", t.randn(8, 8))], 0.8)
        scheduler, found = Halved(sparsifier, "sparsity_level"), []
        for _ in range(3):
            sparsifier.step()
            found += [str(scheduler.get_last_param()), sparsifier.get_mask("a")]
            scheduler.step()
        return [found, repr(scheduler), sorted(scheduler.state_dict())]

    assert_same(program)


def linears(t, bias=True):
    nn = t.nn
    return nn.Sequential(nn.Linear(6, 9, bias=bias), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 7, bias=bias), nn.Tanh(),
                         nn.Linear(7, 3)), t.randn(4, 6)


def convolutions(t, bias=True, padding=0):
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, bias=bias), nn.Conv2d(6, 8, 3, padding=padding), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 10, 3, bias=bias, padding=padding), nn.AvgPool2d(2), nn.GELU(), nn.Conv2d(10, 6, 1),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 5),
    ), t.randn(2, 1, 24, 24)


def recurrent(t, norm=False, layers=1):
    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = t.nn.LSTM(4, 8, num_layers=layers)
            if norm:
                self.norm = t.nn.LayerNorm(8)
            self.linear = t.nn.Linear(8, 3)

        def forward(self, x):
            y, state = self.lstm(x)
            return self.linear(self.norm(y) if norm else y)

    return Model(), t.randn(5, 2, 4)


MODELS = {
    "linears": linears, "no-bias": lambda t: linears(t, False), "convolutions": convolutions,
    "padded": lambda t: convolutions(t, padding=1), "padded-no-bias": lambda t: convolutions(t, False, 1),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("settings", [{}, {"prune_bias": False}])
@pytest.mark.parametrize("pruner", ["SaliencyPruner", "FPGMPruner"])
def test_rows_go(name, settings, pruner):
    def program(t):
        model, x = MODELS[name](t)
        module = module_of(t, "pruner")
        sparsifier = module.FPGMPruner(0.4) if pruner == "FPGMPruner" else module.SaliencyPruner({"sparsity_level": 0.4})
        fqns = [path + ".weight" for path, m in model.named_modules() if type(m) in (t.nn.Linear, t.nn.Conv2d)][:-1]
        sparsifier.prepare(model, [{"tensor_fqn": fqn, **settings} for fqn in fqns])
        before = model(x)
        sparsifier.step()
        masked = model(x)
        pruned = sparsifier.prune()
        return [before, masked, repr(pruned), pruned(x), dict(pruned.named_parameters())]

    assert_same(program, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_rows_go(norm, layers):
    def program(t):
        model, x = recurrent(t, norm, layers)
        sparsifier = module_of(t, "pruner").LSTMSaliencyPruner({"sparsity_level": 0.5})
        names = [f"lstm.weight_{kind}_l{i}" for i in range(layers) for kind in ("ih", "hh")]
        sparsifier.prepare(model, [{"tensor_fqn": name} for name in names])
        sparsifier.step()
        pruned = sparsifier.prune()
        return [pruned(x), repr(pruned), dict(pruned.named_parameters())]

    assert_same(program)


def test_wrong_uses():
    for t in (torch, ftorch):
        pruner, data = module_of(t, "pruner"), module_of(t, "data_sparsifier")
        with pytest.raises(NotImplementedError):
            pruner.FPGMPruner(dist=3)
        sparsifier = pruner.SaliencyPruner({"sparsity_level": 0.5})
        model = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Softmax(1), t.nn.Linear(4, 2))
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
        with pytest.raises(Exception, match="still contains FakeStructuredSparsity"):
            sparsifier.prune()
        sparsifier = data.DataNormSparsifier([("a", t.randn(2, 4))])
        with pytest.raises(ValueError, match="does not exist"):
            sparsifier.get_data("b")
        with pytest.warns(UserWarning, match="Replacing existing data"), pytest.raises(AssertionError, match="shape"):
            sparsifier.add_data("a", t.randn(3, 4))
        with pytest.raises(AssertionError, match="not supported"):
            sparsifier.add_data("c", [1.0])
        with pytest.raises(ValueError, match="more than"):
            data.DataNormSparsifier([("a", t.randn(2, 4))], zeros_per_block=9).step()
        sparsifier = module_of(t, "activation_sparsifier.activation_sparsifier").ActivationSparsifier(model)
        with pytest.raises(AssertionError, match="must be callable"):
            sparsifier.register_layer(model[0])
        with pytest.raises(ValueError, match="not found"):
            sparsifier.get_mask("0")
