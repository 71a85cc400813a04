"""Sparsifiers choose PyTorch's zeros, and schedulers set its levels."""

import pytest
import torch
import torch.ao.pruning

import ftorch
import ftorch.ao.pruning

from .comparing import assert_same


def model_of(t):
    return t.nn.Sequential(t.nn.Linear(8, 12), t.nn.ReLU(), t.nn.Sequential(t.nn.Linear(12, 7)), t.nn.Linear(7, 7))


SETTINGS = [
    {},
    {"sparsity_level": 0.8, "sparse_block_shape": (1, 1)},
    {"sparsity_level": 0.3, "sparse_block_shape": (4, 1), "norm": 1},
    {"sparsity_level": 1.0, "zeros_per_block": 2},
    {"sparsity_level": 0.0},
    {"sparsity_level": 1.0},
    {"sparsity_level": 0.5, "sparse_block_shape": (3, 3)},
    {"sparsity_level": 0.5, "zeros_per_block": 3},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_small_blocks_become_zero(settings):
    def program(t):
        model = model_of(t)
        sparsifier = t.ao.pruning.WeightNormSparsifier(**settings)
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "2.0.weight", "sparsity_level": 0.25}])
        if settings.get("zeros_per_block"):
            del sparsifier.groups[1]
        sparsifier.step()
        x = t.randn(3, 8)
        before = model(x)
        states = sparsifier.state_dict()
        sparsifier.groups = sparsifier.groups[:1]
        text = repr(sparsifier)
        sparsifier.squash_mask(("sparse_block_shape",), {"0": ("sparsity_level",)})
        kept = model[0].sparse_params
        return [before, model[0].weight, list(model.state_dict()), text, str(kept), str(states["groups"])]

    assert_same(program)


def test_bands_and_configs_of_models():
    def program(t):
        model = model_of(t)
        sparsifier = t.ao.pruning.NearlyDiagonalSparsifier(3)
        sparsifier.prepare(model, None)
        sparsifier.step()
        masks = [m.parametrizations.weight[0].mask for m in (model[0], model[2][0], model[3])]
        other = t.ao.pruning.NearlyDiagonalSparsifier()
        copy = model_of(t)
        other.prepare(copy, None)
        other.load_state_dict(sparsifier.state_dict())
        return [
            masks,
            [g["tensor_fqn"] for g in sparsifier.groups],
            copy[3].parametrizations.weight[0].mask,
            list(model.state_dict()),
        ]

    assert_same(program)


@pytest.mark.parametrize("name", ["cubic", "lambda", "lambdas"])
def test_levels(name):
    def program(t):
        model, p = model_of(t), t.ao.pruning
        sparsifier = p.WeightNormSparsifier(0.8, (1, 1))
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "3.weight", "sparsity_level": 0.4}])
        if name == "cubic":
            scheduler = p.CubicSL(sparsifier, [0.1, 0.2], init_t=1, delta_t=2, total_t=3, initially_zero=[True, False])
        else:
            scheduler = p.LambdaSL(sparsifier, [lambda e: 0.5**e] * 2 if name == "lambdas" else lambda e: e / 10)
        levels = []
        for _ in range(6):
            sparsifier.step()
            levels.append(scheduler.get_last_sl())
            scheduler.step()
        state = {k: v for k, v in scheduler.state_dict().items() if k != "sl_lambdas"}
        return [t.tensor(levels), str(sorted(state)), repr(scheduler), (model[0].weight == 0).sum()]

    assert_same(program)


def test_names_of_modules():
    def program(t):
        model, p = model_of(t), t.ao.pruning
        inner = model[2][0]
        return [p.module_to_fqn(model, inner), p.module_to_fqn(model, model), p.module_to_fqn(model, t.nn.ReLU()),
                p.fqn_to_module(model, "2.0") is inner, p.fqn_to_module(model, "2.1"),
                p.get_arg_info_from_tensor_fqn(model, "2.0.weight")["module_fqn"]]

    assert_same(program)


def test_wrong_uses():
    for library in (torch, ftorch):
        p = library.ao.pruning
        with pytest.raises(NotImplementedError):
            p.WeightNormSparsifier(norm=3)
        with pytest.raises(AssertionError):
            p.WeightNormSparsifier().prepare(model_of(library), [{"module": 1}])
        with pytest.raises(AssertionError):
            p.WeightNormSparsifier().prepare(model_of(library), ["0.weight"])
        with pytest.raises(TypeError):
            p.LambdaSL(type("Other", (), {"groups": []})(), lambda e: e)
        sparsifier = p.NearlyDiagonalSparsifier(2)
        sparsifier.prepare(model_of(library), None)
        with pytest.raises(ValueError):
            sparsifier.step()
        sparsifier = p.WeightNormSparsifier()
        sparsifier.prepare(model_of(library), None)
        scheduler = p.LambdaSL(sparsifier, lambda e: e)
        with pytest.warns(UserWarning, match="before `sparsifier.step"):
            scheduler.step()
        with pytest.warns(UserWarning, match="get_last_sl"):
            scheduler.get_sl()
