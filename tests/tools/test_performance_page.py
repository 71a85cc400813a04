"""``tools/performance.py`` reads the tables that the benchmarks print, and draws what it read."""

import importlib.util
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "tools/performance.py"


@pytest.fixture(scope="module")
def performance():
    spec = importlib.util.spec_from_file_location("performance_page", _PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_of_a_table(performance):
    printed = "\n".join([
        "Cases of many kinds",
        f"{'':34}{'ftorch':>12}{'PyTorch':>12}{'ratio':>8}{'goal':>6}",
        f"{'add 4x4, chain of 40':34}{2.1:>9.1f} us{1.3:>9.1f} us{1.62:>8.2f}{3.0:>6.1f}",
        f"{'tanh':34}{2.1:>9.1f} us{4.2:>9.1f} us{0.5:>8.2f}{1.0:>6.1f}",
        "a remark between",
        "geometric mean 0.90",
    ])
    assert performance.rows_of(printed) == [("add 4x4, chain of 40", 1.62), ("tanh", 0.5)]


def test_rows_with_two_ratios(performance):
    printed = f"{'':24}{'torch.func':>12}{'ratios':>16}\n{'hessian':24}{'1.00ms':>12}{0.6:10.2f}{0.27:6.2f}"
    assert performance.rows_of(printed) == [("hessian, eager", 0.6), ("hessian, compiled", 0.27)]


def test_the_page(performance, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(performance, "IMAGES", tmp_path / "images")
    monkeypatch.setattr(performance, "PAGE", tmp_path / "performance.md")
    rows = [("add", 1.6), ("tanh", 0.4)]
    performance.render({"eager": {"date": "2026-01-01", "machine": "2 cores", "rows": rows}})
    page = (tmp_path / "performance.md").read_text()
    assert "geometric mean **0.80**, from 0.40 to 1.60" in page
    for image in ("performance.svg", "performance_eager.svg"):
        assert f"images/{image}" in page
        assert "<svg" in (tmp_path / "images" / image).read_text()
