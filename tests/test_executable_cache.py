"""The folder of compiled programs: private, verified, shared, and never a reason to fail."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from ftorch._toplevel.executable_cache import SUFFIX, ExecutableCache, private_folder

_PROGRAM = """
import warnings
warnings.simplefilter("error")
import ftorch as torch
x = torch.arange(7.0)
for _ in range(3):
    y = torch.tanh(x * 2) + x.sum()
    print(y.sum().item())
"""


def _start(folder):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "FTORCH_CACHE_DIR": str(folder),
        "FTORCH_HOST_TIER": "0",
    }
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def _results(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0 and not err, err
    return out


@pytest.mark.slow
def test_processes_share_a_folder_and_replace_damaged_entries(tmp_path):
    folder = tmp_path / "programs"
    first, second = _start(folder), _start(folder)
    expected = _results(first)
    assert _results(second) == expected
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    entries = {path: path.read_bytes() for path in folder.iterdir()}
    assert entries and all(path.name.endswith(SUFFIX) for path in entries)
    for path, data in entries.items():
        path.write_bytes(data[: len(data) // 2])
    assert _results(_start(folder)) == expected
    cache = ExecutableCache(str(folder))
    whole = [path for path in entries if cache.get(path.name.removesuffix(SUFFIX)) is not None]
    assert len(whole) == len(entries)


def test_entries(tmp_path):
    cache = ExecutableCache(str(tmp_path))
    assert cache.get("a") is None
    cache.put("a", b"program")
    assert cache.get("a") == b"program"
    cache.put("a", b"another")
    assert cache.get("a") == b"another"
    (tmp_path / f"b{SUFFIX}").write_bytes((tmp_path / f"a{SUFFIX}").read_bytes())
    assert cache.get("b") is None  # another program
    (tmp_path / f"b{SUFFIX}").unlink()
    (tmp_path / f"a{SUFFIX}").write_bytes(b"other bytes than were put there, and longer")
    assert cache.get("a") is None
    (tmp_path / f"a{SUFFIX}").write_bytes(b"")
    assert cache.get("a") is None
    assert [path.name for path in tmp_path.iterdir()] == [f"a{SUFFIX}"]
    gone = ExecutableCache(str(tmp_path / "gone"))
    gone.put("a", b"program")
    assert gone.get("a") is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no owners here")
def test_whose_folder(tmp_path, monkeypatch):
    folder = str(tmp_path / "new")
    assert private_folder(folder, own=True) == folder
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    os.chmod(folder, 0o755)
    assert private_folder(folder, own=False) == folder
    assert private_folder(folder, own=True) == folder
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    os.chmod(folder, 0o777)
    with pytest.warns(UserWarning, match="others may write"):
        assert private_folder(folder, own=False) is None
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(folder).st_uid + 1)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert private_folder(folder, own=True) is None
    file = tmp_path / "file"
    file.write_text("")
    assert private_folder(str(file / "below"), own=True) is None
