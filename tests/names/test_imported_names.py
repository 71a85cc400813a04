"""What PyTorch's modules import from each other is there in the same modules: programs import it from them."""

import dataclasses
import importlib
import pkgutil

import pytest
import torch

import ftorch

# name: where it is defined
_PLACES = {
    "Distribution": "distributions.distribution", "Module": "nn.modules.module", "Optimizer": "optim.optimizer",
    "Parameter": "nn.parameter", "Tensor": None, "broadcast_all": "distributions.utils", "constant_": "nn.init",
    "lazy_property": "distributions.utils", "logits_to_probs": "distributions.utils", "probs_to_logits": "distributions.utils",
    "xavier_normal_": "nn.init", "xavier_uniform_": "nn.init",
}


def _is_missing(module, name, own):
    """Whether PyTorch's module has a name that is not ours, or another thing in our module."""
    place = _PLACES[name]
    at = "" if place is None else f".{place}"
    expected = getattr(importlib.import_module("torch" + at), name)
    if getattr(module, name, None) is not expected:
        return False
    return getattr(own, name, None) is not getattr(importlib.import_module("ftorch" + at), name)


@pytest.mark.parametrize(("module", "names"), [
    ("functional", "Tensor"), ("nn.functional", "Tensor"),
    ("nn.parallel.data_parallel", "gather parallel_apply replicate scatter_kwargs"),
    ("utils.data.dataset", "Generator randperm"), ("utils.data.distributed", "Dataset"),
    ("utils.data.dataloader", "ExceptionWrapper"),
])
def test_names_of_single_modules(module, names):
    for t in ("torch", "ftorch"):
        found = importlib.import_module(f"{t}.{module}")
        assert all(hasattr(found, name) for name in names.split())


def test_tensors_in_outputs():
    @dataclasses.dataclass
    class Output:
        a: object
        b: object

    found = []
    for t in (torch, ftorch):
        x = [t.tensor(i) for i in range(5)]
        tensors = t.nn.parallel.distributed._find_tensors([x[0], {"k": (x[1], 3), "l": [x[2]]}, Output(x[3], None), "s", x[4]])
        found.append([int(tensor) for tensor in tensors])
    assert found[0] == found[1] == [0, 1, 2, 3, 4]


def test_modules_have_what_they_import():
    missing, seen = [], 0
    for package in (torch.distributions, torch.nn.modules, torch.optim):
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if found.name.rpartition(".")[2].startswith("_"):
                continue
            module = importlib.import_module(found.name)
            try:
                own = importlib.import_module("f" + found.name)
            except ModuleNotFoundError:  # `linear_cross_entropy`, whose class is in `loss`
                continue
            seen += 1
            missing += [f"{found.name}.{name}" for name in _PLACES if _is_missing(module, name, own)]
    assert seen > 70
    assert not missing
