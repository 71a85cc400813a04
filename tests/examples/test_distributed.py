"""The examples of several processes learn what they learn with PyTorch, over processes and over devices."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
STEPS = "60"


def started(name, folder, library, processes, **environment):
    """An example's process, as it is or with PyTorch in ftorch's place."""
    folder.mkdir(exist_ok=True)
    for file in (f"distributed_{name}.py", "common.py"):
        source = (EXAMPLES / file).read_text().replace("import ftorch as torch", f"import {library} as torch")
        source = re.sub(r"^(from|import) ftorch\b", rf"\1 {library}", source, flags=re.MULTILINE)
        (folder / file).write_text(source)
    command = [sys.executable]
    if processes:
        command += ["-m", f"{library}.distributed.run", "--standalone", "--max-restarts", "2"]
        command += ["--nproc-per-node", str(processes)]
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "XLA_FLAGS")}
    return subprocess.Popen(
        [*command, str(folder / f"distributed_{name}.py"), "--no-progress", "--steps", STEPS],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=kept | {"OMP_NUM_THREADS": "1", "CHECKPOINTS": str(folder / "saved")} | environment,
    )


def said(process):
    """(the last loss, the accuracy, all that was printed)"""
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors[-3000:]
    loss = float(re.search(r"loss of the last step: ([\d.]+)", output)[1])
    return loss, float(re.search(r"test accuracy: ([\d.]+)%", output)[1]), output


@pytest.mark.parametrize(
    ("name", "processes", "devices"), [("ddp", 2, False), ("fsdp", 2, True), ("tp_fsdp", 4, True), ("pipeline", 2, False)]
)
def test_example(tmp_path, name, processes, devices):
    theirs = started(name, tmp_path / "torch", "torch", processes)
    ours = [] if devices and processes > 2 else [started(name, tmp_path / "ftorch", "ftorch", processes)]
    ours += [started(name, tmp_path / "devices", "ftorch", 0)] if devices else []
    loss, accuracy, _ = said(theirs)
    assert accuracy > 85
    for process in ours:
        found = said(process)
        assert found[0] == pytest.approx(loss, rel=2e-3) and found[1] == pytest.approx(accuracy, abs=0.5)


def test_elastic(tmp_path):
    """A worker kills itself after fifty steps: the training ends with the numbers of one that went on."""
    ours = [
        started("elastic", tmp_path / "killed", "ftorch", 2), started("elastic", tmp_path / "whole", "ftorch", 2, KILL="0")
    ]
    killed, whole = map(said, ours)
    assert "goes on from step 40" in killed[2] and "goes on" not in whole[2]
    assert killed[0] == pytest.approx(whole[0], abs=2e-5) and killed[1] == whole[1]
