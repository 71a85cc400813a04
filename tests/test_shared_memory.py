"""Storages that several processes have: ``share_memory_``, in either library."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys

import pytest

import ftorch
from ftorch import multiprocessing
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
    sent = torch.zeros(2, 3)
    turned = sent.t()
    p = ctx.Process(target=work, args=(turned, m, shown)); p.start(); print(shown.get()); p.join()
    print(sent, sent.is_shared(), p.exitcode)
    mp.set_sharing_strategy("file_system")
    named = torch.zeros(3, dtype=torch.float64)
    p = ctx.Process(target=work, args=(named, m, shown)); p.start(); print(shown.get()); p.join()
    print(named, mp.get_sharing_strategy(), p.exitcode)
    mp.set_sharing_strategy("file_descriptor")
    q = ctx.Queue()
    whole = torch.arange(4.)
    q.put([whole, whole.view(torch.int32), whole[1:3], nn.Parameter(torch.ones(2))])
    a, b, c, d = q.get()
    a.mul_(2)
    print(whole, b, c, d, a.untyped_storage().data_ptr() == c.untyped_storage().data_ptr())
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


_KILLED = """
import time
import ftorch as torch
import ftorch.multiprocessing as mp

if __name__ == "__main__":
    mp.set_sharing_strategy({strategy!r})
    kept = [torch.ones(1000 * (i + 1)).share_memory_() for i in range(5)]
    print("shares", flush=True)
    time.sleep(300)
"""


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="segments are in no folder here")
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_a_killed_process_leaves_no_segment(strategy):
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED.format(strategy=strategy)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    def left():
        return [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{process.pid}_")]

    with process:
        assert process.stdout.readline() == "shares\n", process.stderr.read()
        assert len(left()) == (5 if strategy == "file_system" else 0)
        process.kill()
        process.communicate(timeout=60)  # the resource tracker has the other end of the error stream
    assert left() == []


def _ends_at_once(queue):
    queue.put(ftorch.full((4,), 3.0))


def test_small_tensors_outlive_their_sender():
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=_ends_at_once, args=(queue,))
    process.start()
    process.join()
    assert queue.get().tolist() == [3, 3, 3, 3]


def test_a_shared_storage_holds_one_descriptor_and_gives_it_back():
    def count():
        return len(os.listdir("/dev/fd"))

    before = count()
    kept = [ftorch.ones(1000).share_memory_() for _ in range(20)]
    assert count() == before + 20
    part = kept[3][5:]
    array = kept[4].numpy()
    del kept
    assert part.sum() == 995 and array.sum() == 1000
    del part, array
    gc.collect()
    assert count() == before


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_where_there_is_no_room_the_storage_stays(strategy, monkeypatch, tmp_path):
    def full(file, nbytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shared_memory, "_allocate", full)
    monkeypatch.setattr(shared_memory, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(shared_memory.resource_tracker, "register", lambda *_: None)
    monkeypatch.setattr(shared_memory.resource_tracker, "unregister", lambda *_: None)
    monkeypatch.setattr(shared_memory, "strategy", [strategy])
    x = ftorch.arange(3.0)
    said = r"unable to allocate shared memory\(shm\) for file <.*>: No space left on device \(28\)"
    with pytest.raises(RuntimeError, match=said):
        x.share_memory_()
    assert not x.is_shared() and x.tolist() == [0, 1, 2] and not list(tmp_path.iterdir())
