"""Programs by room and family, one text file each: every statement does and says the same in both libraries.

Programs are parted by lines ``#---``; the statements of one share a scope, and one that raises does not end it.
"""

from __future__ import annotations

import pathlib

import pytest
import torch as reference

from .test_families import differences

FILES = sorted((pathlib.Path(__file__).parent / "programs").rglob("*.txt"))


def programs():
    for file in FILES:
        for number, program in enumerate(file.read_text().split("#---\n")):
            yield pytest.param(program, id=f"{file.stem}-{number}")


@pytest.fixture(autouse=True)
def _validated(monkeypatch):
    """PyTorch's compiler switches the checks of distributions off for the whole process."""
    monkeypatch.setattr(reference.distributions.Distribution, "_validate_args", True)


@pytest.mark.parametrize("program", list(programs()))
def test_statements_agree(program):
    found = differences(program)
    assert not found, "\n".join(found)
