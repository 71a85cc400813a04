"""Collectives and training steps of two processes against PyTorch's gloo, in turns.

    python -m benchmarks.distributed [--quick]

Both libraries run in the same processes, one after the other for each size, so that what else the
machine does weighs on both. Printed: medians in milliseconds and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from datetime import timedelta
from multiprocessing import get_context
from socket import socket

SIZES = (4, 64 << 10, 1 << 20, 16 << 20, 64 << 20)


def _port():
    with socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _time(d, call, rounds):
    times = []
    for _ in range(rounds):
        d.barrier()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def _collectives(t, name, size):
    d, n = t.distributed, max(2, size // 4)
    x = t.ones(n if name != "reduce_scatter" else n // 2 * 2)
    if name == "all_reduce":
        return lambda: d.all_reduce(x, op=d.ReduceOp.MAX)
    if name == "all_gather":
        out = t.zeros(2 * n)
        return lambda: d.all_gather_into_tensor(out, x)
    out = t.zeros(n // 2)
    return lambda: d.reduce_scatter_tensor(out, x)


def _step(t, kind):
    t.manual_seed(0)
    layers = [t.nn.Linear(512, 512), t.nn.ReLU()] * 1
    model = t.nn.Sequential(
        t.nn.Linear(256, 512), t.nn.ReLU(), *layers, t.nn.Linear(512, 512), t.nn.ReLU(), t.nn.Linear(512, 10)
    )
    if kind == "ddp":
        model = t.nn.parallel.DistributedDataParallel(model)
    else:
        __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"]).fully_shard(model)
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = t.randn(64, 256), t.randint(0, 10, (64,))

    def step():
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _work(rank, ports, quick, results):
    import torch as pt

    import ftorch as ft

    libraries = (pt, ft)
    pt.set_num_threads(1)
    for t, port in zip(libraries, ports):
        t.distributed.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
            timeout=timedelta(minutes=5),
        )
    cases = {
        f"{name} {size} B": [_collectives(t, name, size) for t in libraries]
        for name in ("all_reduce", "all_gather", "reduce_scatter")
        for size in (SIZES[:3] if quick else SIZES)
    }
    cases |= {f"{kind} step, MLP": [_step(t, kind) for t in libraries] for kind in ("ddp", "fsdp")}
    for name, calls in cases.items():
        large = any(f" {s} B" in name for s in SIZES[3:])
        rounds, times = (3 if large else 20), ([], [])
        for t, call in zip(libraries, calls):
            _time(t.distributed, call, 3)
        for _ in range(3):
            for t, call, found in zip(libraries, calls, times):
                found += _time(t.distributed, call, rounds)
        if rank == 0:
            theirs, mine = (statistics.median(f) * 1e3 for f in times)
            results.put((name, mine, theirs))
    if rank == 0:
        results.put(None)
    for t in libraries:
        t.distributed.barrier()
        t.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the three smallest sizes")
    quick = parser.parse_args().quick
    context = get_context("spawn")
    results, ports = context.Queue(), (_port(), _port())
    workers = [context.Process(target=_work, args=(r, ports, quick, results)) for r in range(2)]
    for worker in workers:
        worker.start()
    print(f"{'':28}{'ftorch':>10}{'PyTorch':>10}{'ratio':>8}   (ms)")
    while (found := results.get()) is not None:
        name, mine, theirs = found
        print(f"{name:28}{mine:10.3f}{theirs:10.3f}{mine / theirs:8.2f}", flush=True)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
