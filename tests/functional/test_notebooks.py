"""The notebooks on transforms run from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = [
    "per_sample_gradients", "jacobians_and_hessians", "how_ftorch_works", "model_ensembling",
    "neural_tangent_kernel",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_notebook(name, monkeypatch):
    """Every code cell runs, in one namespace."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]
    scope = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source, f"{name}: {cell['id']}", "exec"), scope)
