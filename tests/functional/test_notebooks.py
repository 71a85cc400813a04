"""The notebooks run from top to bottom."""

from __future__ import annotations

import json
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
    for cell in cells_of(name):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source, f"{name}: {cell['id']}", "exec"), scope)
