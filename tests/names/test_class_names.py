"""Users subclass these classes and set attributes: no name of ours may be in their way.

Every attribute that PyTorch's class lacks begins with ``_ftorch_``, except those that PyTorch's instances have.
"""

import importlib
import warnings

import pytest

import ftorch

torch = pytest.importorskip("torch")

# Attributes of PyTorch's instances that are the class's here, or the other way round.
OF_INSTANCES = {
    "transposed", "_flat_weights", "_flat_weights_names", "_df", "_dist_chi2", "_param",
    "concentration_reciprocal", "param_shape", "active", "_lazy_allowed", "_new", "_log_normalizer",
}
SKIPPED = {"Tensor", "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "Generator", "Variable"}


def names(cls):
    return {n for n in dir(cls) if not n.startswith("_ftorch_") and not (n[:2] == n[-2:] == "__")}


@pytest.mark.parametrize("path", [
    "nn", "optim", "optim.lr_scheduler", "distributions", "distributions.transforms",
    "distributions.constraints", "utils.data",
])
def test_classes_have_no_names_of_their_own(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = importlib.import_module(f"torch.{path}")
        ours = importlib.import_module(f"ftorch.{path}")
        found = {}
        for name in dir(theirs):
            a, b = getattr(theirs, name), getattr(ours, name, None)
            if isinstance(a, type) and isinstance(b, type) and a.__module__.startswith("torch"):
                if name not in SKIPPED and (more := names(b) - names(a) - OF_INSTANCES):
                    found[name] = sorted(more)
    assert found == {}


@pytest.mark.parametrize("path", [
    "nn", "nn.modules.pooling", "nn.modules.conv", "optim", "optim.lr_scheduler", "distributions", "distributions.transforms",
    "distributions.constraints", "utils.data", "autograd.function", "ao.quantization", "ao.nn.quantized", "fx",
])
def test_classes_derive_from_each_other_as_theirs(path):
    """``isinstance(m, nn.Softmax)`` is no question that a ``LogSoftmax`` answers with yes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (importlib.import_module(f"{root}.{path}") for root in ("torch", "ftorch"))
        classes = [
            (name, a, b) for name in dir(theirs)
            if isinstance(a := getattr(theirs, name), type) and isinstance(b := getattr(ours, name, None), type)
            and a.__module__.startswith("torch")
        ]
    wrong = {
        (name, other): issubclass(b, q)
        for name, a, b in classes for other, p, q in classes if issubclass(a, p) != issubclass(b, q)
    }
    assert len(classes) > 1 and wrong == {}


def test_tensors_have_no_names_of_their_own():
    known = {"jax", "saddmm"}  # arrays of JAX; an old name that PyTorch has as a function only
    assert names(ftorch.Tensor) - names(torch.Tensor) == known
    assert names(ftorch.nn.Parameter) - names(torch.nn.Parameter) - known == set()


def test_users_attributes_of_tensors():
    """MONAI sets ``_meta``; others words like these."""

    class Mine(ftorch.Tensor):
        pass

    x = ftorch.ones(2).as_subclass(Mine)
    x._meta, x._storage, x._geometry, x._offset = {"a": 1}, 1, 2, 3
    assert (x + 1).tolist() == [2, 2] and x._meta == {"a": 1} and x._offset == 3


def test_users_attributes_of_modules():
    """What libraries set: torchmetrics ``_persistent``, others words like these."""

    class Mine(ftorch.nn.Module):
        def __init__(self):
            super().__init__()
            self._persistent, self._owner, self._walk, self._set_module = {}, 1, 2, 3
            self.function = self.options = self.rule = None
            self.linear = ftorch.nn.Linear(2, 2)
            self.register_buffer("b", ftorch.ones(1), persistent=False)

    m = Mine()
    assert list(m.state_dict()) == ["linear.weight", "linear.bias"]
    assert len(list(m.modules())) == 2 and m.load_state_dict(m.state_dict()).missing_keys == []
