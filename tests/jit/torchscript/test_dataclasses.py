"""Scripts that use data classes."""

import runpy
from dataclasses import dataclass

import pytest

import ftorch


@dataclass
class Point:
    x: float
    y: float
    name: str = "p"

    def norm(self) -> float:
        return (self.x**2 + self.y**2) ** 0.5


@dataclass(order=True)
class Version:
    major: int
    minor: int = 0


@dataclass(init=False)
class Selected:
    start: int
    count: int

    def __init__(self, start: int, count: int):
        self.start = start
        self.count = count + 1


@dataclass
class Batch:
    x: ftorch.Tensor
    scale: float = 2.0


def norm(x: float):
    p = Point(x, 4.0)
    return p.norm(), p.name


def compared(a: int):
    return Version(a) < Version(1, 2), Version(a, 2) == Version(1, 2), Version(a) >= Version(1)


def selected(a: int):
    s = Selected(a, 2)
    return s.start * s.count


@pytest.mark.parametrize(("function", "argument"), [(norm, 3.0), (compared, 1), (compared, 0), (selected, 5)])
def test_scripts_of_data_classes(function, argument):
    assert ftorch.jit.script(function)(argument) == function(argument)  # PyTorch 2.13 wants a source of __repr__


def scaled(x: ftorch.Tensor):
    b = Batch(x)
    return b.x * b.scale


def test_fields_that_are_tensors():
    assert ftorch.jit.script(scaled)(ftorch.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("library", ["torch", "ftorch"])
def test_modules_whose_names_are_no_identifiers(library, tmp_path):
    """As `runpy` and consoles call theirs."""
    (tmp_path / "program.py").write_text(f"""
from dataclasses import dataclass
import {library} as torch

@torch.jit.script
@dataclass
class Pair:
    x: int
    y: int = 3

    def sum(self) -> int:
        return self.x + self.y

@torch.jit.script
def shifted(x: torch.Tensor):
    return x + Pair(2).sum()

found = shifted(torch.ones(2)).tolist()
""")
    assert runpy.run_path(str(tmp_path / "program.py"))["found"] == [6.0, 6.0]
