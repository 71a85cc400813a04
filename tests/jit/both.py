"""`programs` for both libraries, and comparing what they compile to."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
import tempfile
from pathlib import Path

import torch as pt

import ftorch as ft
from tests.oracle import assert_same

_FOLDER = tempfile.mkdtemp(prefix="ftorch-programs-")


def of_ftorch(name="programs"):
    """A module of this folder with ftorch in the place of PyTorch. It has a file: sources are read."""
    source = (Path(__file__).parent / f"{name}.py").read_text()
    source = re.sub("^import torch$", "import ftorch as torch", source, flags=re.MULTILINE)
    source = source.replace("import torch.nn", "import ftorch.nn").replace("from torch", "from ftorch")
    path = Path(_FOLDER) / f"{name}_of_ftorch.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"{name}_of_ftorch", path)
    module = sys.modules[f"{name}_of_ftorch"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mine(value):
    """ftorch's tensors for PyTorch's."""
    if isinstance(value, pt.Tensor):
        return ft.from_numpy(value.detach().numpy().copy())
    if isinstance(value, (list, tuple)):
        return type(value)(map(mine, value))
    if isinstance(value, dict):
        return {k: mine(v) for k, v in value.items()}
    return value


def saved(program, save) -> io.BytesIO:
    """The file that a program is saved to."""
    buffer = io.BytesIO()
    save(program, buffer)
    return io.BytesIO(buffer.getvalue())


def same(found, expected, where=""):
    """Raises AssertionError unless results agree; dictionaries by their items."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            same(found[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for i, (a, b) in enumerate(zip(found, expected)):
            same(a, b, f"{where}[{i}]")
    elif isinstance(expected, (pt.Tensor, ft.Tensor)):
        tolerance = (2e-4, 2e-5) if expected.is_floating_point() else None
        assert_same(found, expected, where=where, tolerance=tolerance)
    else:
        assert found == expected, where


def seeded(function, *args):
    """A call with both generators at the same place."""
    pt.manual_seed(0)
    ft.manual_seed(0)
    return function(*args)


def twins(name, train=False):
    """(PyTorch's, ftorch's) object of a name in `programs`; modules have the same parameters."""
    from . import programs

    theirs, own = getattr(programs, name), getattr(MINE, name)
    if isinstance(theirs, type):
        pt.manual_seed(0)
        theirs, own = theirs(), own()
        own.load_state_dict({k: mine(v) for k, v in theirs.state_dict().items()})
        theirs.train(train)
        own.train(train)
    return theirs, own


MINE = of_ftorch()
