"""Parameters of public functions have PyTorch's names, which callers may use."""

import functools
import importlib
import inspect

import pytest
import torch  # noqa: F401 - the modules below are its own

_NAMES = [
    "ao.nn.intrinsic.BNReLU2d.__init__", "ao.nn.intrinsic.ConvBnReLU2d.__init__", "ao.nn.intrinsic.ConvReLU1d.__init__",
    "ao.nn.intrinsic.LinearBn1d.__init__", "ao.nn.intrinsic.LinearLeakyReLU.__init__", "ao.nn.intrinsic.LinearTanh.__init__",
    "autograd.function.FunctionMeta.__init__", "autograd.function.once_differentiable",
    "multiprocessing.spawn.ProcessException",
    "nn.Sequential.extend", "overrides.resolve_name", "package.find_file_dependencies.find_files_source_depends_on",
    "utils.tensorboard.summary.hparams", "utils.tensorboard.summary.image_boxes", "utils.tensorboard.summary.mesh",
    "utils.tensorboard.summary.scalar", "utils.tensorboard.summary.text", "xpu.device_of.__init__",
]


def _parameters(root, name):
    parts = name.split(".")
    for i in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join([root, *parts[:i]]))
        except ModuleNotFoundError:
            continue
        return list(inspect.signature(functools.reduce(getattr, parts[i:], value)).parameters)
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", _NAMES)
def test_parameters_have_the_names(name):
    assert _parameters("ftorch", name) == _parameters("torch", name)


def test_hyperparameters_by_name():
    from ftorch.utils.tensorboard.summary import hparams

    assert len(hparams({"lr": 0.1}, metric_dict={"loss": 0.0}, hparam_domain_discrete={"lr": [0.1, 0.2]})) == 3


def test_meshes_have_their_text():
    import ftorch
    from ftorch.utils.tensorboard.summary import mesh

    metadata = mesh("t", ftorch.zeros(1, 3, 3), None, None, None, "name", "text").value[0].metadata
    assert (metadata.display_name, metadata.summary_description) == ("name", "text")
