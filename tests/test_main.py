"""``python -m ftorch``, the start of the package, and what is imported when."""

import os
import subprocess
import sys

import pytest

import ftorch
from ftorch._toplevel.startup import prune


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True,
        env={**os.environ, **environment},
    )


def test_runs_a_script_written_for_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport torch\nimport torch.nn as nn\nfrom torch.nn import functional as F\n"
        "from torch.optim.lr_scheduler import StepLR\nimport torch.utils.checkpoint\n"
        "assert nn.Linear is torch.nn.Linear and nn.__spec__.name == 'torch.nn'\n"
        "print(__name__, sys.argv[1:], torch.__name__, torch.ones(2).sum().item())\n"
    )
    done = run("-m", "ftorch", str(script), "a", "-b")
    assert done.stdout == "__main__ ['a', '-b'] torch 2.0\n", done.stderr


def test_missing_submodules_raise_import_errors(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch.no_such_module\n")
    done = run("-m", "ftorch", str(script))
    assert "ModuleNotFoundError: No module named 'torch.no_such_module'" in done.stderr


def test_code_and_usage():
    assert run("-m", "ftorch", "-c", "import torch; print(torch.__name__)").stdout == "torch\n"
    assert run("-m", "ftorch").returncode == 2


def test_importing_leaves_the_heavy_packages_alone():
    code = (
        "import sys, ftorch; print([m for m in ('torch', 'optax', 'ftorch.nn', 'ftorch.optim', "
        "'ftorch.utils.data', 'ftorch.jit') if m in sys.modules])"
    )
    assert run("-c", code).stdout == "[]\n"


@pytest.mark.slow
def test_programs_are_kept_from_one_process_to_the_next(tmp_path):
    code = "import ftorch; print(ftorch.compile(lambda x: x.exp().sum())(ftorch.ones(3)).item())"
    outside = {"FTORCH_CACHE_DIR": str(tmp_path / "cache"), "JAX_COMPILATION_CACHE_DIR": ""}
    outside = {k: v for k, v in outside.items() if v}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | outside
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert any((tmp_path / "cache").iterdir())
    environment["FTORCH_CACHE_DIR"] = "0"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_cache_is_bounded(tmp_path):
    for i in range(10):
        path = tmp_path / str(i)
        path.write_bytes(b"x" * 100)
        os.utime(path, (i, i))
    prune(str(tmp_path), 500, os.getpid() + 1)
    assert len(list(tmp_path.iterdir())) == 10
    prune(str(tmp_path), 500, os.getpid())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["6", "7", "8", "9"]


def test_all_names_exist():
    assert [name for name in ftorch.__all__ if not hasattr(ftorch, name)] == []
