"""What JAX imports and looks for when it first compiles in a capture is no part of the function."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import ftorch as torch

def f(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

compiled = torch.compile(f, fullgraph=True)
for _ in range(3):
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin())
"""


@pytest.mark.parametrize("folder", ["JAX_COMPILATION_CACHE_DIR", "FTORCH_CACHE_DIR"])
def test_first_compilations_in_a_capture_do_not_end_it(folder, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    subprocess.run([sys.executable, "-c", _SCRIPT], env=environment | {folder: str(tmp_path)}, check=True)
