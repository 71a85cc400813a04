"""Forks while other threads are busy: every child computes what its parent would, and none hangs.

    python tools/forks.py [--forks 100] [--threads 8] [--seconds 60]

The threads run, plan, trace and compile work of many kinds and sizes, so that a fork falls into every lock that they
hold. Each child does a few of the same kinds, the new sizes included, in its main thread and in one of its own. Prints
how many children were right; where one fails, its error is, and where one hangs, the stacks of its threads.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings

import ftorch as torch

PATIENCE = 60  # s that a child may take


def elementwise(rng):
    n = rng.randrange(1, 300)
    x = torch.arange(float(n))
    assert ((x * 2 + 1).sum() - n * n).abs().item() < 1e-3 * n * n


def product(rng):
    n, k = rng.randrange(1, 90), rng.randrange(1, 90)
    found = (torch.ones(n, k) @ torch.ones(k, 3)).sum().item()
    assert found == n * k * 3, found


def large_product(rng):
    n = rng.choice((128, 256, 320))
    assert (torch.ones(n, n) @ torch.ones(n, n))[0, 0].item() == n


def convolution(rng):
    n = rng.randrange(5, 40)
    found = torch.nn.functional.conv2d(torch.ones(2, 3, n, n), torch.ones(4, 3, 3, 3))
    assert found.sum().item() == 2 * 4 * 27 * (n - 2) ** 2


def training(rng):
    width = rng.choice((8, 16, rng.randrange(4, 40)))
    model = torch.nn.Sequential(
        torch.nn.Linear(width, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.ones(5, width)), torch.zeros(5, dtype=torch.long))
        loss.backward()
        optimizer.step()
        assert math.isfinite(loss.item())


def compiled(rng):
    scale = rng.randrange(1, 1000)
    f = torch.compile(lambda x: (x * scale).sum(0).tanh())
    n = rng.randrange(2, 20)
    for _ in range(2):
        assert f(torch.zeros(n, 3)).sum().item() == 0


def random_numbers(rng):
    n = rng.choice((16, 1000, 100000))
    g = torch.Generator().manual_seed(1)
    assert abs(torch.randn(n, generator=g).mean().item()) < 1
    assert torch.randperm(n, generator=g).sum().item() == n * (n - 1) // 2


def sorting(rng):
    n = rng.randrange(10, 5000)
    values, order = torch.arange(float(n)).flip(0).sort()
    assert values[0].item() == 0 and order[0].item() == n - 1
    assert torch.arange(n).topk(3).values.tolist() == [n - 1, n - 2, n - 3]


def indexing(rng):
    n = rng.randrange(10, 500)
    x = torch.zeros(n)
    x[torch.arange(0, n, 2)] = 1
    assert x[x > 0].numel() == (n + 1) // 2
    x.index_add_(0, torch.zeros(5, dtype=torch.long), torch.ones(5))
    assert x[0].item() == 6


def transforms(rng):
    n = rng.randrange(1, 30)
    found = torch.vmap(torch.func.grad(lambda v: (v**2).sum()))(torch.ones(n, 3))
    assert found.sum().item() == 6 * n


def attention(rng):
    n = rng.randrange(2, 40)
    q = torch.ones(1, 2, n, 8)
    assert abs(torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().item() - 16 * n) < 1e-2


def recurrent(rng):
    n = rng.randrange(2, 20)
    with torch.no_grad():
        assert torch.nn.LSTM(4, 8)(torch.zeros(n, 2, 4))[0].shape == (n, 2, 8)


def algebra(rng):
    n = rng.randrange(2, 20)
    assert abs(torch.linalg.inv(torch.eye(n) * 2).sum().item() - n / 2) < 1e-4


KINDS = (elementwise, product, large_product, convolution, training, compiled, random_numbers, sorting, indexing,
         transforms, attention, recurrent, algebra)


def child(seed):
    """What a forked child does."""
    rng = random.Random(seed)
    kinds = rng.sample(KINDS, 6)
    for kind in kinds:
        kind(rng)
    errors = []

    def work():
        try:
            rng.choice(kinds)(rng)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the child's thread hangs"
    if errors:
        raise errors[0]


def fork(seed) -> str:
    """Forks; gives "ok", or what the child ended with, and where."""
    sys.stdout.flush()
    with tempfile.TemporaryFile("w+") as said:
        pid = os.fork()
        if not pid:
            try:
                signal.alarm(PATIENCE + 10)
                faulthandler.dump_traceback_later(PATIENCE, exit=True, file=said)
                child(seed)
                os._exit(0)
            except BaseException as error:
                import traceback

                traceback.print_exception(error, file=said)
                said.flush()
                os._exit(3)
        deadline = time.time() + PATIENCE + 15
        while time.time() < deadline:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                break
            time.sleep(0.01)
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "hangs"
        if status == 0:
            return "ok"
        said.seek(0)
        return f"failed: {os.waitstatus_to_exitcode(status)}\n{said.read()}"


def stress(forks: int, threads: int, seconds: float) -> dict[str, int]:
    """Forks again and again beside busy threads; gives how often each outcome came."""
    warnings.filterwarnings("ignore", message=".*fork.*")
    done, errors = threading.Event(), []

    def busy(seed):
        rng = random.Random(seed)
        while not done.is_set():
            try:
                rng.choice(KINDS)(rng)
            except BaseException as error:
                errors.append(error)
                return

    workers = [threading.Thread(target=busy, args=(n,), daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    outcomes: dict[str, int] = {}
    start = time.time()
    try:
        for n in range(forks):
            if time.time() - start > seconds:
                break
            time.sleep(random.random() * 0.05)
            outcome = fork(n)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if errors:
                break
    finally:
        done.set()
    for worker in workers:
        worker.join(PATIENCE)
    if errors:
        raise errors[0]
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forks", type=int, default=100)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    outcomes = stress(options.forks, options.threads, options.seconds)
    for outcome, count in outcomes.items():
        print(f"{count} {outcome}")
    sys.exit(set(outcomes) != {"ok"})


if __name__ == "__main__":
    main()
