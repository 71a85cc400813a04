"""Programs of an accelerator against PyTorch on the CPU: on a GPU where there is one, else on the emulated one."""

import pickle
import subprocess
import sys
import warnings

import pytest
import torch

from .programs import PROGRAMS
from .results import difference, plain


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("accelerator") / "results"
    run = subprocess.run([sys.executable, "-m", "tests.accelerator", str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return pickle.loads(path.read_bytes())


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(found, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = plain(PROGRAMS[name](torch, "cpu"))
    assert not isinstance(found[name], str), found[name]
    assert difference(found[name], expected) is None, difference(found[name], expected)
