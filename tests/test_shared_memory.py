"""Storages that several processes have: ``share_memory_``, in either library."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

import ftorch
from ftorch.eager.memory import shared_memory

PROGRAM = """
import sys
import {library} as torch
import {library}.multiprocessing as mp
import {library}.nn as nn

def work(x, m, shown):
    x.add_(1); x[0] = 7; shown.put(x.is_shared())
    o = torch.optim.SGD(m.parameters(), lr=1.)
    for _ in range(3):
        o.zero_grad(); m(torch.ones(1, 2)).sum().backward(); o.step()

if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    s = torch.zeros(3).share_memory_()
    part = s[1:]
    print(s.is_shared(), part.is_shared(), torch.ones(2).is_shared(), s.untyped_storage().is_shared())
    shown = ctx.Queue()
    m = nn.Linear(2, 2)
    nn.init.ones_(m.weight)  # whose steps are exact
    m.share_memory()
    before = m.weight.detach().clone()
    p = ctx.Process(target=work, args=(s, m, shown)); p.start(); print(shown.get()); p.join()
    print(s, s + 1, part, p.exitcode)
    print(before - m.weight.detach(), m.bias.is_shared(), p.exitcode)
    n = s.numpy(); n[1] = 3; s.mul_(2); print(s, n)
    print(torch.zeros(2, 3).t().share_memory_().stride(), torch.arange(3).share_memory_() + 1)
    try:
        mp.set_sharing_strategy("zzz")
    except AssertionError as error:
        print(str(error)[:34])
"""


def _said(library, folder):
    file = folder / f"{library}_program.py"
    file.write_text(PROGRAM.format(library=library))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_processes_have_shared_storages(tmp_path):
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    assert _said("ftorch", tmp_path) == _said("torch", tmp_path)
    if os.path.isdir("/dev/shm"):
        left = {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("torch_")}
        assert not left


def test_where_there_is_no_room_the_storage_stays(monkeypatch, tmp_path):
    def full(file, nbytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shared_memory, "_allocate", full)
    monkeypatch.setattr(shared_memory, "_FOLDER", tmp_path)
    x = ftorch.arange(3.0)
    said = r"unable to allocate shared memory\(shm\) for file <.*>: No space left on device \(28\)"
    with pytest.raises(RuntimeError, match=said):
        x.share_memory_()
    assert not x.is_shared() and x.tolist() == [0, 1, 2] and not list(tmp_path.iterdir())
