"""PyTorch's files and helpers for phones."""

import warnings

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.jit.mobile import _load_for_lite_interpreter
from ftorch.utils import mobile_optimizer


class Net(pt.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = pt.nn.Linear(3, 4), pt.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


@pytest.fixture
def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pt.jit.script(Net().eval())


def test_files_of_pytorch_run_as_torchscript(scripted, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted._save_for_lite_interpreter(str(tmp_path / "net.ptl"))
    model = _load_for_lite_interpreter(tmp_path / "net.ptl")
    x = np.random.RandomState(0).randn(2, 3).astype(np.float32)
    expected = scripted(pt.tensor(x)).detach().numpy()
    assert model.find_method("forward") and not model.find_method("absent")
    for found in (model(ft.tensor(x)), model.run_method("forward", ft.tensor(x))):
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    for path, word in ((tmp_path / "absent.ptl", "does not exist"), (tmp_path, "is a directory")):
        with pytest.raises(ValueError, match=word):
            _load_for_lite_interpreter(str(path))


def test_optimizing_gives_the_same_and_errors_are_pytorchs(scripted, tmp_path):
    from torch.utils import mobile_optimizer as other

    pt.jit.save(scripted, str(tmp_path / "net.pt"))
    mine = ft.jit.load(tmp_path / "net.pt")
    x = np.ones((2, 3), np.float32)
    found = mobile_optimizer.optimize_for_mobile(mine)(ft.tensor(x))
    np.testing.assert_allclose(found.numpy(), scripted(pt.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6)
    for arguments in ({"preserved_methods": ["absent"]}, {"backend": "TPU"}):
        said = []
        for module, model in ((mobile_optimizer, mine), (other, scripted)):
            with pytest.raises((AttributeError, TypeError)) as caught:
                module.optimize_for_mobile(model, **arguments)
            said.append((caught.type, str(caught.value)))
        assert said[0] == said[1]
    with pytest.raises(TypeError, match="ScriptModule is expected"):
        mobile_optimizer.optimize_for_mobile(ft.nn.ReLU())
    names = {lint["name"] for lint in mobile_optimizer.generate_mobile_module_lints(mine)}
    assert {"BUNDLED_INPUT", "REQUIRES_GRAD"} <= names
