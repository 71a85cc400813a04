"""Programs by family, one text file each: every statement does and says the same in both libraries.

Programs are parted by lines ``#---``; the statements of one share a scope, and one that raises does not end it.
"""

from __future__ import annotations

import pathlib

import pytest

from .test_families import differences

FILES = sorted((pathlib.Path(__file__).parent / "programs").glob("*.txt"))


def programs():
    for file in FILES:
        for number, program in enumerate(file.read_text().split("#---\n")):
            yield pytest.param(program, id=f"{file.stem}-{number}")


@pytest.mark.parametrize("program", list(programs()))
def test_statements_agree(program):
    found = differences(program)
    assert not found, "\n".join(found)
