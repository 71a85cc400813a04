"""``torch.distributed``: one process as in PyTorch, and several that compute together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap

import pytest
import torch as pt

import ftorch as ft

from ..oracle import said

pt.distributed.HashStore  # noqa: B018 - the oracle has its package loaded


def alone(t):
    """A group of one process, from beginning to end."""
    d = t.distributed
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
    try:
        x = t.arange(4.0)
        parts, objects = [t.zeros(4)], [None]
        joined, scattered = t.zeros(4), t.zeros(2)
        d.all_reduce(x)
        d.all_gather(parts, x)
        d.all_gather_object(objects, {"a": 1})
        d.broadcast_object_list(objects, src=0)
        d.broadcast(x, 0)
        d.reduce(x, 0)
        d.all_gather_into_tensor(joined, x)
        d.scatter(scattered, [t.ones(2)], src=0)
        d.barrier()
        group = d.new_group([0])
        work = d.all_reduce(x, op=d.ReduceOp.MAX, group=group, async_op=True)
        done = work.wait()
        return (
            x, parts, objects, joined, scattered, done, d.get_rank(), d.get_world_size(group),
            d.get_backend(), d.is_initialized(), d.get_process_group_ranks(group),
        )  # fmt: skip
    finally:
        d.destroy_process_group()


def wrapped(t):
    """DistributedDataParallel in a group of one."""
    d = t.distributed
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
    try:
        t.manual_seed(0)
        model = t.nn.parallel.DistributedDataParallel(t.nn.Linear(2, 2))
        with model.no_sync():
            model(t.ones(3, 2)).sum().backward()
        model(t.ones(3, 2)).sum().backward()
        return model, list(model.state_dict()), model.module.weight.grad
    finally:
        d.destroy_process_group()


def parallel(t):
    t.manual_seed(0)
    model = t.nn.DataParallel(t.nn.Linear(2, 1))
    return model, list(model.state_dict()), model(t.ones(1, 2)).shape


PROGRAMS = [
    alone, wrapped, parallel,
    lambda t: t.distributed.is_available(), lambda t: t.distributed.is_initialized(),
    lambda t: t.distributed.get_rank(), lambda t: t.distributed.all_reduce(t.ones(1)),
    lambda t: t.distributed.barrier(), lambda t: t.distributed.destroy_process_group(),
    lambda t: t.distributed.init_process_group("gloo"),
    lambda t: t.nn.parallel.DistributedDataParallel(t.nn.Linear(1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_process(program, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert said(ft, program)[0] == said(pt, program)[0]


WORKER = """
    import ftorch as torch

    dist = torch.distributed
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()

    x = torch.arange(3.0) + rank
    dist.all_reduce(x)
    assert x.tolist() == [1.0, 3.0, 5.0], x
    y = torch.tensor([rank], dtype=torch.bfloat16)
    dist.broadcast(y, src=1)
    assert y.item() == 1
    parts = [torch.zeros(1) for _ in range(count)]
    dist.all_gather(parts, torch.tensor([float(rank)]))
    assert [p.item() for p in parts] == [0.0, 1.0]
    names = [None, None]
    dist.all_gather_object(names, f"rank {rank}")
    assert names == ["rank 0", "rank 1"]
    out = torch.zeros(2)
    dist.reduce_scatter_tensor(out, torch.arange(4.0))
    assert out.tolist() == [4.0 * rank, 4.0 * rank + 2]
    swapped = torch.zeros(2)
    dist.all_to_all_single(swapped, torch.tensor([10.0 * rank, 10.0 * rank + 1]))
    assert swapped.tolist() == [float(rank), 10.0 + rank]
    if rank == 0:
        dist.send(torch.tensor([7.0]), 1)
    else:
        dist.recv(y := torch.zeros(1), 0)
        assert y.item() == 7

    torch.manual_seed(rank)  # parameters begin as those of rank 0
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    data = torch.arange(12.0).view(4, 3)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(data), batch_size=2,
        sampler=torch.utils.data.DistributedSampler(range(4), shuffle=False),
    )
    for (batch,) in loader:
        model(batch).square().mean().backward()
    alone = torch.nn.Linear(3, 2)
    alone.load_state_dict(model.module.state_dict())
    alone(data).square().mean().backward()
    assert torch.allclose(model.module.weight.grad, alone.weight.grad)
    dist.barrier()
    dist.destroy_process_group()
    print("rank", rank, "is fine")
"""


def test_two_processes(tmp_path):
    """Collectives, messages, and gradients averaged over two halves of a batch."""
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    settings = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    workers = [
        subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True,
                         stderr=subprocess.STDOUT,
                         env=os.environ | settings | {"RANK": str(rank)})
        for rank in range(2)
    ]  # fmt: skip
    try:
        for rank, worker in enumerate(workers):
            output, _ = worker.communicate(timeout=120)
            assert f"rank {rank} is fine" in output, output
    finally:
        for worker in workers:
            worker.kill()
