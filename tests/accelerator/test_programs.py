"""Programs of an accelerator against PyTorch on the CPU: on a GPU where there is one, else on the emulated one."""

import pickle
import subprocess
import sys

import pytest

from .programs import PROGRAMS
from .results import difference


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """{program: its result} of ftorch and of PyTorch, each in a process of its own: programs change settings."""
    folder, found = tmp_path_factory.mktemp("accelerator"), []
    for library in ("ftorch", "torch"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.accelerator", library, str(folder / library)],
            capture_output=True, text=True, check=False,
        )
        assert run.returncode == 0, run.stderr
        found.append(pickle.loads((folder / library).read_bytes()))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(results, name):
    got, expected = (found[name] for found in results)
    assert not isinstance(expected, str), expected
    assert not isinstance(got, str), got
    assert difference(got, expected) is None, difference(got, expected)
