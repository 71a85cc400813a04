"""ftorch as an environment's torch: `ftorch._alias`.

PyTorch is installed where the tests run, so the environments are folders in front of it on the module search
path; installing into the environment itself must be refused.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from ftorch import _alias

REPOSITORY = str(pathlib.Path(_alias.__file__).parents[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site-packages")
    _alias.install(folder)
    return folder


def run(site, code, *arguments, **environment):
    """Runs a program in the environment; gives what it prints."""
    script = site.parent / f"program{len(list(site.parent.iterdir()))}.py"
    script.write_text(code)
    paths = os.pathsep.join([str(site), REPOSITORY])
    done = subprocess.run(
        [sys.executable, *arguments, str(script)], capture_output=True, text=True, cwd=site.parent,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installing_and_removing_leaves_nothing(tmp_path):
    (tmp_path / "other.py").write_text("")
    assert _alias.status(tmp_path) == f"there is no torch in {tmp_path}"
    first = _alias.install(tmp_path)
    assert first == _alias.status(tmp_path) == _alias.install(tmp_path)
    assert first.startswith("torch is ftorch (version 2.13.0+ftorch")
    assert sorted(p.name.partition("-")[0] for p in tmp_path.iterdir()) == [
        "functorch", "other.py", "torch", "torch",
    ]
    _alias.remove(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["other.py"]


def test_refuses_where_pytorch_is(tmp_path):
    with pytest.raises(RuntimeError, match="is installed in this environment"):
        _alias.install()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("mine = 1")
    with pytest.raises(RuntimeError, match="is installed"):
        _alias.install(tmp_path)
    _alias.remove(tmp_path)
    assert (tmp_path / "torch" / "__init__.py").read_text() == "mine = 1"


MODULES = """
import importlib, importlib.metadata, importlib.util, pickle, sys
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import StepLR
import ftorch, ftorch.nn.functional, ftorch.utils.data
assert ftorch is torch and ftorch.nn.functional is F and torch.nn.functional is F
assert torch.__name__ == "torch" and nn.__name__ == "torch.nn" == nn.__spec__.name
assert nn.Linear.__module__ == "torch.nn.modules.linear", nn.Linear.__module__
assert repr(torch.Tensor) == "<class 'torch.Tensor'>"
assert torch.torch is torch
names = [n for n in sys.modules if n.partition(".")[0] == "ftorch"]
assert all(sys.modules[n] is sys.modules[n[1:]] for n in names), names
assert importlib.metadata.version("torch").startswith("2.13.0+ftorch")
assert importlib.util.find_spec("torch").name == "torch"
assert importlib.util.find_spec("torch.fft").name == "torch.fft"
assert importlib.util.find_spec("torch.no_such") is None
assert importlib.reload(nn.modules.linear) is nn.modules.linear and importlib.reload(torch) is torch
layer = pickle.loads(pickle.dumps(nn.ReLU()))
assert type(layer) is nn.ReLU
assert b"ftorch" not in pickle.dumps(layer)
assert type(pickle.loads(b"cftorch.nn.modules.activation\\nReLU\\n.")) is type
import functorch
from functorch.compile import aot_function
from functorch.experimental import control_flow
assert functorch.__name__ == "functorch" and functorch.make_fx is torch.fx.experimental.proxy_tensor.make_fx
import ftorch.functorch
assert ftorch.functorch is functorch
import torch.quantization  # whose parts import one another
assert callable(torch.quantization.quantize) and torch.ao.quantization.quantize is torch.quantization.quantize
traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
assert [n.op for n in traced.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
try:
    import torch.no_such
except ModuleNotFoundError as error:
    assert error.name == "torch.no_such", error.name
else:
    raise AssertionError
print("done")
"""


@pytest.mark.slow
def test_modules_have_both_names(site):
    assert run(site, MODULES) == "done\n"


@pytest.mark.slow
def test_modules_of_one_process(site, tmp_path):
    """The same, where the process asks for it, by itself or through the command."""
    assert run(tmp_path, "import ftorch; ftorch.install_as_torch()\n" + MODULES) == "done\n"
    assert run(tmp_path, MODULES, "-m", "ftorch") == "done\n"
    assert run(site, "import ftorch\nimport ftorch.nn\n" + MODULES) == "done\n"


def test_one_process_refuses_another_torch(tmp_path):
    (tmp_path / "torch.py").write_text("")
    run(tmp_path, "import torch, ftorch\ntry:\n    ftorch.install_as_torch()\n"
                  "except RuntimeError:\n    pass\nelse:\n    raise AssertionError\n")


PROCESSES = """
import multiprocessing, sys
{start}
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def work(layer, x):
    return type(layer) is nn.Linear and layer(x).detach()

if __name__ == "__main__":
    for batch in DataLoader(TensorDataset(torch.arange(4.0)), num_workers=1, batch_size=2):
        print(batch)
    layer = nn.Linear(2, 1)
    nn.init.ones_(layer.weight), nn.init.zeros_(layer.bias)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work, (layer, torch.tensor([3.0, 4.0]))).item())
"""


@pytest.mark.slow
@pytest.mark.parametrize("start", ["", "import ftorch; ftorch.install_as_torch()"])
def test_processes_that_are_started(site, tmp_path, start):
    printed = run(tmp_path if start else site, PROCESSES.format(start=start))
    assert printed == "[tensor([0., 1.])]\n[tensor([2., 3.])]\n7.0\n"


@pytest.mark.slow
def test_pytest_and_notebooks_find_it(site):
    """pytest's import of test modules, and code that is executed from text."""
    (site.parent / "test_program.py").write_text(
        "import torch, pickle\n"
        "def test_torch():\n"
        "    assert torch.__version__.startswith('2.13.0+ftorch')\n"
        "    scope = {}\n"
        "    exec('from torch import *\\nfrom torch.nn import *\\nx = zeros(2)', scope)\n"
        "    assert type(scope['x']) is torch.Tensor\n"
    )
    paths = os.pathsep.join([str(site), REPOSITORY])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_program.py"],
        cwd=site.parent, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )
    assert "1 passed" in done.stdout, done.stdout


def test_is_own():
    assert _alias.is_own("ftorch.nn.modules.linear") and _alias.is_own("ftorch.nn", "nn")
    assert not _alias.is_own("ftorch.nnx", "nn") and not _alias.is_own("ftorchx") and not _alias.is_own(None)
    assert not _alias.is_own("torch.nn")  # PyTorch's, here


def test_requires_ftorch_only_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [])  # of this interpreter, in which it is installed
    _alias.install(tmp_path)
    (metadata,) = tmp_path.glob("torch-*/METADATA")
    assert "Requires-Dist" not in metadata.read_text()
    info = tmp_path / "ftorch-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ftorch\nVersion: 0.1.0\n")
    _alias.install(tmp_path)
    (metadata,) = tmp_path.glob("torch-*/METADATA")
    assert "Requires-Dist: ftorch" in metadata.read_text()
