"""Walks through the code are no longer than `docs/walks.md` says."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ftorch.eager import native

ROOT = Path(__file__).parents[2]


def _moves(text, column, of_cell):
    """{walk: its moves} of a table."""
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    return {row[1].strip(): int(re.findall(r"\d+", row[column])[of_cell]) for row in rows}


@pytest.mark.slow
@pytest.mark.skipif(not native.available, reason="the table's last column is with the extension module")
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions of Python enter other functions")
def test_walks_are_no_longer_than_the_page_says():
    done = subprocess.run([sys.executable, ROOT / "tools" / "walks.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = _moves((ROOT / "docs" / "walks.md").read_text(), -2, 1)
    found = _moves(done.stdout, 3, 0)
    assert found.keys() == said.keys() and len(found) == 6
    assert {name: n for name, n in found.items() if n > 1.1 * said[name] + 2} == {}


@pytest.mark.slow
def test_pictures_show_the_files_of_the_walks():
    done = subprocess.run([sys.executable, ROOT / "tools" / "walks.py", "--files"], capture_output=True, text=True,
                          env={**os.environ, "FTORCH_NATIVE": "0"})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    pictures = runpy.run_path(str(ROOT / "tools" / "walks.py"))["PICTURES"]
    page = (ROOT / "docs" / "walks.md").read_text()
    assert len(pictures) == 5
    for name, picture in pictures.items():
        drawn = set(re.findall(r">([\w/]+\.py)<", (ROOT / "docs" / "images" / picture).read_text()))
        assert f"(images/{picture})" in page
        # Which files a first compilation passes depends on what is in JAX's cache, too.
        assert len(drawn ^ set(found[name])) <= len(drawn) // 10, f"{name}: draw again, as the page says"
