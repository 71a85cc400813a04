"""``torch.distributed``: one process as in PyTorch, and several that compute together."""

# PyTorch's module does not say what it exports.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import time

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import said

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
        d.all_gather_single(joined, x)
        d.scatter(scattered, [t.ones(2)], src=0)
        d.barrier()
        group = d.new_group([0])
        work = d.all_reduce(x, op=d.ReduceOp.MAX, group=group, async_op=True)
        done = work.wait()
        return (
            x, parts, objects, joined, scattered, done, d.get_rank(), d.get_world_size(group),
            d.get_backend(), d.is_initialized(), d.get_process_group_ranks(group),
        )
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
        # A thread of PyTorch's takes Python's lock to let go of the reduction. Freeing the group waits for that thread with
        # the lock held, so the thread gets it now.
        time.sleep(0.05)
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
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_process(program, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert said(ft, program)[0] == said(pt, program)[0]
