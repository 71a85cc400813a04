"""The notebooks on transforms run from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = ["per_sample_gradients", "jacobians_and_hessians", "how_ftorch_works"]


@pytest.mark.parametrize("name", NAMES)
def test_notebook(name):
    """Every code cell runs, in one namespace."""
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]
    scope = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source, f"{name}: {cell['id']}", "exec"), scope)
