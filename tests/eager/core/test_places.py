"""Where files are: errors and captures do not hang on the names of folders."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ftorch
from ftorch.eager.core import places

PACKAGE = Path(ftorch.__file__).parent


def test_folders():
    assert places.PACKAGE == os.path.join(PACKAGE, "") and places.ENGINE == os.path.join(PACKAGE, "eager", "")
    assert all(os.path.exists(os.path.join(folder, "__init__.py")) for folder in places.JAX)
    assert places.own_file("eager/call/op.py").startswith(places.ENGINE)
    with pytest.raises(FileNotFoundError):
        places.own_file("eager/nowhere.py")


def test_exceptions_below_a_folder_named_jax(tmp_path):
    """An installation in ``.../jax/site`` raises what one elsewhere does."""
    program = (
        "import ftorch as torch, pathlib\n"
        "from ftorch.eager.core.errors import translate_error\n"
        "assert '/jax/' in torch.__file__\n"
        "class Own(KeyError): pass\n"
        "exec(compile('def f(): raise Own(\"mine\")', torch.__file__, 'exec'))\n"
        "try:\n    f()\nexcept Own as error:\n    print(type(translate_error(error)).__name__)\n"
        "try:\n    torch.ones(2)[5]\nexcept Exception as error:\n    print(type(error).__name__)\n"
    )
    site = tmp_path / "jax" / "site"
    site.mkdir(parents=True)
    (site / "ftorch").symlink_to(PACKAGE)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(site)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Own", "IndexError"]


# Files that find a neighbour: scripts that run without the package, data beside a test.
ALLOWED = {"eager/core/places.py", "utils/data/_utils/processes.py", "utils/data/_utils/server.py", "_alias.py"}


def test_files_are_known_in_one_place():
    """No module counts folders upwards from its own file."""
    found = {
        str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")
        if any(word in path.read_text() for word in ("dirname(__file__", "abspath(__file__", "Path(__file__", 'h("<ftorch '))
    }
    assert found <= ALLOWED
