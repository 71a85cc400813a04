"""Collectives and training steps of two processes against PyTorch's gloo, in turns.

    python -m benchmarks.distributed [--quick] [--only REGEX] [--memory]

Both libraries run in the same processes, one after the other for each size, so that what else the
machine does weighs on both. Printed: medians in milliseconds and their ratio. With ``--memory``: what a training step by
`fully_shard` keeps of parameters, gradients and Adam's moments on each of one and of two processes, and by how much the
processes' memory grows at most, each library in processes of its own.
"""

from __future__ import annotations

import argparse
import importlib
import re
import resource
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
        return lambda: d.all_gather_single(out, x)
    out = t.zeros(n // 2)
    return lambda: d.reduce_scatter_single(out, x)


def _mlp(t):
    layers = [t.nn.Linear(512, 512), t.nn.ReLU()] * 1
    model = t.nn.Sequential(
        t.nn.Linear(256, 512), t.nn.ReLU(), *layers, t.nn.Linear(512, 512), t.nn.ReLU(), t.nn.Linear(512, 10)
    )
    return model, t.randn(64, 256), t.randint(0, 10, (64,))


def _gpt(t):
    """Two layers of 64 numbers, four heads, 96 tokens of which 64 are seen."""
    class Gpt(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = t.nn.Embedding(96, 64), t.nn.Embedding(64, 64)
            layer = t.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True, norm_first=True)
            self.layers = t.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = t.nn.Linear(64, 96)

        def forward(self, x):
            n = x.shape[1]
            mask = t.nn.Transformer.generate_square_subsequent_mask(n)
            y = self.tokens(x) + self.places(t.arange(n))
            return self.head(self.layers(y, mask=mask, is_causal=True)).flatten(0, 1)

    return Gpt(), t.randint(0, 96, (8, 64)), t.randint(0, 96, (512,))


def _step(t, kind, make):
    t.manual_seed(0)
    model, x, y = make(t)
    if kind == "ddp":
        model = t.nn.parallel.DistributedDataParallel(model)
    else:
        importlib.import_module(f"{t.__name__}.distributed.fsdp").fully_shard(model)
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _memory(rank, name, count, port, results):
    """Puts (bytes kept, by how many bytes the process' memory grew at most) of a rank."""
    t = importlib.import_module(name)
    t.set_num_threads(1)
    t.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    shard = importlib.import_module(f"{name}.distributed.fsdp").fully_shard
    t.ones(3).sum().item()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    t.manual_seed(0)
    model = t.nn.Sequential(*(t.nn.Linear(1024, 1024) for _ in range(8)))
    for layer in model:
        shard(layer)
    shard(model)
    optimizer = t.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(t.randn(16, 1024)).square().mean().backward()
        optimizer.step()
    kept = 0
    for p in model.parameters():
        state = optimizer.state[p]
        for x in (p, p.grad, state["exp_avg"], state["exp_avg_sq"]):
            local = x.to_local()
            kept += local.numel() * local.element_size()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    results.put((rank, kept, grown))
    t.distributed.barrier()
    t.distributed.destroy_process_group()


def memory():
    """Prints what `fully_shard` keeps and how far memory grows, with one process and with two."""
    context = get_context("spawn")
    print("fully_shard, 8 layers of 1024 x 1024, Adam: MiB kept by a rank / growth of its memory at most")
    for name in ("torch", "ftorch"):
        for count in (1, 2):
            results, port = context.Queue(), _port()
            workers = [context.Process(target=_memory, args=(r, name, count, port, results)) for r in range(count)]
            for worker in workers:
                worker.start()
            found = sorted(results.get() for _ in workers)
            for worker in workers:
                worker.join()
            shown = ", ".join(f"{kept / 2**20:.1f} / {grown / 2**20:.0f}" for _, kept, grown in found)
            print(f"{name:8}{count} process(es): {shown}", flush=True)


def _work(rank, ports, quick, only, results):
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
    steps = {f"{kind} step, {make.__name__[1:]}": (kind, make) for make in (_mlp, _gpt) for kind in ("ddp", "fsdp")}
    cases |= {name: [_step(t, *how) for t in libraries] for name, how in steps.items() if re.search(only, name)}
    for name, calls in cases.items():
        if not re.search(only, name):
            continue
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
    parser.add_argument("--only", default="", help="cases whose names have this regular expression")
    parser.add_argument("--memory", action="store_true", help="memory instead of times")
    options = parser.parse_args()
    if options.memory:
        memory()
        return
    context = get_context("spawn")
    results, ports = context.Queue(), (_port(), _port())
    workers = [context.Process(target=_work, args=(r, ports, options.quick, options.only, results)) for r in range(2)]
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
