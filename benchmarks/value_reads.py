"""Programs that look at small values all the time, against PyTorch.

    python benchmarks/value_reads.py [--rounds 40] [--cases NAME ...] [--cpu] [--profile]

Both libraries run in one process and take turns, round by round, on the same values; results are compared. Each line
is the median over the rounds of the time of one run of the program, PyTorch's, and the median of the rounds' ratios.
``--cpu`` counts the process's CPU time, one thread for PyTorch, for machines on which others work, too. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

import ftorch


class Case(NamedTuple):
    """A program.

    Attributes:
        make: (library) -> function of no arguments that gives a number to compare.
        runs: how often it runs in a round.
        settle: seconds before each turn: threads of the other library go on spinning some 10 ms after theirs.
    """

    make: Callable
    runs: int = 20
    tolerance: float = 2e-3
    settle: float = 0.0


CASES: dict[str, Case] = {}


def case(name, runs=20, **options):
    def register(make):
        CASES[name] = Case(make, runs, **options)
        return make

    return register


# --- programs that took long by what they look at ---------------------------------------------


@case("caught shape error", 20)
def _(lib):
    x, numbers = lib.ones(3, 4), iter(range(5, 1 << 30))

    def run():
        y = lib.ones(next(numbers) % 997 + 5, 4)
        try:
            x @ y
        except RuntimeError:
            return 1.0
        return 0.0

    return run


@case("op on from_numpy and back", 100)
def _(lib):
    array = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    return lambda: float((lib.from_numpy(array) * 2 + 1).numpy()[1, 1])


@case("x[i].item()", 10)
def _(lib):
    x = lib.arange(100.0)
    return lambda: sum(x[i].item() for i in range(100))


@case("beam search", 4)
def _(lib):
    lib.manual_seed(0)
    embedding, head = lib.nn.Embedding(50, 32), lib.nn.Linear(32, 50)
    beams, length = 4, 8

    def run():
        with lib.no_grad():
            state, scores = lib.zeros(1, 32), lib.zeros(1)
            tokens = [[0]]
            for _ in range(length):
                last = lib.tensor([t[-1] for t in tokens])
                state = (state + embedding(last)).tanh()
                found = scores[:, None] + head(state).log_softmax(-1)
                scores, places = found.flatten().topk(beams)
                rows = places // 50
                tokens = [tokens[r] + [t] for r, t in zip(rows.tolist(), (places % 50).tolist())]
                state = state[rows]
            return scores[0].item()

    return run


@case("policy sampled each step", 4)
def _(lib):
    lib.manual_seed(0)
    policy = lib.nn.Sequential(lib.nn.Linear(4, 32), lib.nn.Tanh(), lib.nn.Linear(32, 3))

    def run():
        lib.manual_seed(1)
        state, total = [0.1, -0.2, 0.3, 0.0], 0.0
        for _ in range(10):
            with lib.no_grad():
                distribution = lib.distributions.Categorical(logits=policy(lib.tensor(state)))
                action = distribution.sample()
            move = action.item() - 1
            state = [0.9 * s + 0.1 * move for s in state]
            total += move
        return total

    return run


@case("log_prob of samples", 10)
def _(lib):
    mean, scale = lib.tensor([0.0, 1.0, 2.0]), lib.tensor([1.0, 0.5, 2.0])

    def run():
        lib.manual_seed(2)
        normal = lib.distributions.Normal(mean, scale)
        return normal.log_prob(normal.sample((8,))).sum().item()

    return run


@case("while x < 50", 10)
def _(lib):
    def run():
        x = lib.tensor(1.0)
        while x < 50:
            x = x * 1.1
        return x.item()

    return run


@case("tensor([1., 2., 3.])", 200)
def _(lib):
    def run():
        lib.tensor([1.0, 2.0, 3.0])
        return 0.0

    return run


@case("LBFGS", 2, tolerance=1e-2)
def _(lib):
    start = np.array([-1.0, 1.5], np.float32)

    def run():
        x = lib.tensor(start, requires_grad=True)
        optimizer = lib.optim.LBFGS([x], lr=0.5, max_iter=5)

        def closure():
            optimizer.zero_grad()
            loss = (1 - x[0]) ** 2 + 5 * (x[1] - x[0] ** 2) ** 2
            loss.backward()
            return loss

        for _ in range(3):
            loss = optimizer.step(closure)
        return loss.item()

    return run


@case("clip_grad_norm_", 10)
def _(lib):
    lib.manual_seed(0)
    model = lib.nn.Sequential(*[lib.nn.Linear(16, 16) for _ in range(6)])
    grads = [np.random.default_rng(0).standard_normal(tuple(p.shape)).astype(np.float32) for p in model.parameters()]
    grads = [lib.tensor(g) for g in grads]

    def run():
        for p, g in zip(model.parameters(), grads):
            p.grad = g.clone()
        return lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()

    return run


@case("autograd.functional.jacobian", 4)
def _(lib):
    weight = lib.linspace(-1, 1, 12).reshape(3, 4)
    x = lib.tensor([0.1, 0.2, 0.3, 0.4])
    return lambda: lib.autograd.functional.jacobian(lambda v: (weight @ v).sin(), x).sum().item()


@case("Linear(2000, 2000)", 1, settle=0.02)
def _(lib):
    def run():
        lib.manual_seed(3)
        return lib.nn.Linear(2000, 2000).weight[3, 5].item()

    return run


# --- ten more ---------------------------------------------------------------------------------


@case("early stopping", 2)
def _(lib):
    lib.manual_seed(0)
    x = lib.linspace(-1, 1, 64).reshape(32, 2)
    y = x.sum(1, keepdim=True)
    weights = [np.random.default_rng(1).standard_normal(s).astype(np.float32) for s in ((2, 8), (8, 1))]

    def run():
        first, second = (lib.tensor(w, requires_grad=True) for w in weights)
        best = math.inf
        for _ in range(10):
            loss = (((x @ first).tanh() @ second - y) ** 2).mean()
            loss.backward()
            with lib.no_grad():
                for w in (first, second):
                    w -= 0.05 * w.grad
                    w.grad = None
            if loss < best:
                best = loss.item()
        return best

    return run


@case("bisection", 4)
def _(lib):
    def run():
        low, high = lib.tensor(0.0), lib.tensor(3.0)
        for _ in range(20):
            middle = (low + high) / 2
            if (middle.exp() - 5.0).item() > 0:
                high = middle
            else:
                low = middle
        return low.item()

    return run


@case("confusion matrix", 4)
def _(lib):
    rng = np.random.default_rng(0)
    predicted, actual = (lib.tensor(rng.integers(0, 4, 40)) for _ in range(2))

    def run():
        matrix = lib.zeros(4, 4, dtype=lib.int64)
        for p, a in zip(predicted, actual):
            matrix[a, p] += 1
        return float(matrix.trace().item())

    return run


@case("assert allclose, isfinite", 20)
def _(lib):
    x = lib.linspace(0, 1, 100)

    def run():
        y = x.exp()
        assert lib.isfinite(y).all()
        assert lib.allclose(y.log(), x, atol=1e-5)
        return 1.0

    return run


@case("print of a small tensor", 4)
def _(lib):
    x = lib.linspace(0, 1, 9).reshape(3, 3)
    return lambda: float(len(repr(x * 2)))


@case("tolist and back", 20)
def _(lib):
    x = lib.arange(32.0).reshape(4, 8)
    return lambda: float(sum(lib.tensor([[v + 1 for v in row] for row in x.tolist()]).sum(1).tolist()))


@case("greedy accuracy by batch", 10)
def _(lib):
    rng = np.random.default_rng(0)
    logits, labels = lib.tensor(rng.standard_normal((32, 10), np.float32)), lib.tensor(rng.integers(0, 10, 32))

    def run():
        right = 0
        for at in range(0, 32, 8):
            right += (logits[at : at + 8].argmax(1) == labels[at : at + 8]).sum().item()
        return float(right)

    return run


@case("k-means until settled", 2)
def _(lib):
    rng = np.random.default_rng(0)
    points = lib.tensor(rng.standard_normal((60, 2), np.float32))

    def run():
        centers = points[:3].clone()
        for _ in range(6):
            near = lib.cdist(points, centers).argmin(1)
            moved = lib.stack([points[near == k].mean(0) for k in range(3)])
            if (moved - centers).abs().max().item() < 1e-6:
                break
            centers = moved
        return centers.sum().item()

    return run


@case("gradient of a scalar", 10)
def _(lib):
    def run():
        x = lib.tensor(2.0, requires_grad=True)
        y = x**3 + x.sin()
        return lib.autograd.grad(y, x)[0].item()

    return run


@case("epsilon-greedy bandit", 4)
def _(lib):
    def run():
        lib.manual_seed(5)
        values, counts, total = lib.zeros(5), lib.zeros(5), 0.0
        for _ in range(12):
            arm = lib.randint(5, (1,)).item() if lib.rand(1).item() < 0.3 else values.argmax().item()
            reward = lib.randn(()).item() + arm
            counts[arm] += 1
            values[arm] += (reward - values[arm]) / counts[arm]
            total += reward
        return total

    return run


# --- measuring --------------------------------------------------------------------------------


def measure(one: Case, rounds: int, clock=time.perf_counter):
    """({library: seconds of a run in each round}, greatest relative difference of results)."""
    sides = {"ftorch": one.make(ftorch), "torch": one.make(torch)}
    times: dict[str, list[float]] = {name: [] for name in sides}
    worst, warm = 0.0, max(8, rounds // 4)
    for turn in range(warm + rounds):
        results = {}
        for name in ("ftorch", "torch") if turn % 2 else ("torch", "ftorch"):
            run = sides[name]
            if one.settle:
                time.sleep(one.settle)
            start = clock()
            for _ in range(one.runs):
                results[name] = run()
            if turn >= warm:
                times[name].append((clock() - start) / one.runs)
        ours, theirs = results["ftorch"], results["torch"]
        worst = max(worst, abs(ours - theirs) / max(1e-6, abs(theirs)))
    return times, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    parser.add_argument("--cpu", action="store_true", help="CPU time of the process")
    parser.add_argument("--profile", action="store_true", help="of ftorch's runs, by cProfile, instead of times")
    options = parser.parse_args()
    if options.profile:
        for name in options.cases:
            profile(CASES[name])
        return
    clock = time.process_time if options.cpu else time.perf_counter
    if options.cpu:
        torch.set_num_threads(1)
    ratios = []
    print(f"{'case':30}{'ftorch us':>11}{'PyTorch us':>12}{'ratio':>8}{'differs':>10}")
    for name in options.cases:
        one = CASES[name]
        times, worst = measure(one, options.rounds, clock)
        ours, theirs = (statistics.median(times[side]) for side in ("ftorch", "torch"))
        ratio = statistics.median(a / b for a, b in zip(times["ftorch"], times["torch"]))
        ratios.append(ratio)
        note = "" if worst <= one.tolerance else "  VALUES DIFFER"
        print(f"{name:30}{ours * 1e6:11.1f}{theirs * 1e6:12.1f}{ratio:8.2f}{worst:10.1e}{note}", flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}")


def profile(one: Case, runs: int = 10):
    """Prints where ftorch's time goes."""
    import cProfile
    import pstats

    run = one.make(ftorch)
    for _ in range(10 * one.runs):
        run()
    profiler = cProfile.Profile(time.thread_time)
    with profiler:
        for _ in range(runs * one.runs):
            run()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(22)


if __name__ == "__main__":
    main()
