"""The notebooks run from top to bottom."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells_of(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_shows_and_keeps_its_outputs(name):
    cells = cells_of(name)
    first, last = ("".join(cells[i]["source"]) for i in (0, -1))
    assert first.startswith("# ") and cells[-1]["cell_type"] == "markdown", (
        "a title, and where to go on"
    )
    assert any(other in last for other in NAMES if other != name) or "docs/" in last
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs), "a picture"
    assert not any(
        output["output_type"] == "error" or output.get("name") == "stderr" for output in outputs
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook(name, monkeypatch):
    """Every code cell runs, in one namespace."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    scope = {"__name__": "__main__"}
    code = [(cell["id"], "".join(cell["source"])) for cell in cells_of(name) if cell["cell_type"] == "code"]
    if any("XLA_FLAGS" in source for _, source in code):  # read when JAX starts: in a process of its own
        subprocess.run([sys.executable, "-c", "\n\n".join(source for _, source in code)], check=True, timeout=300)
        return
    for cell, source in code:
        exec(compile(source, f"{name}: {cell}", "exec"), scope)
