"""A long run: models made and dropped, sizes that change, exceptions thrown and caught, threads; memory stays flat.

    python benchmarks/soak.py [--minutes 60] [--csv memory.csv]

Prints, ten times a run, the steps made, the process's memory, its threads, its open files and the CPU's time; fails if after a
half of the time memory still grows by more than the limit, or threads or files are left over.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import random
import signal
import sys
import threading
import time

import ftorch as torch
from ftorch.eager.runtime import background
from ftorch.eager.runtime.counters import stats

SIZES = (3, 5, 8, 13, 21)  # of batches
WIDTHS = (8, 16, 24)


def memory() -> float:
    """The process's resident memory in MB."""
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


class Session:
    """A model, its optimizer, and what is done with them."""

    def __init__(self, rng, width):
        self.rng, self.width = rng, width
        self.model = torch.nn.Sequential(
            torch.nn.Linear(width, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def loss(self):
        size = self.rng.choice(SIZES)
        x, y = torch.randn(size, self.width), torch.randint(0, 4, (size,))
        return torch.nn.functional.cross_entropy(self.model(x), y)

    def train(self):
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        if not 0 <= loss.item() < 100:
            raise AssertionError("the loss is wrong")

    def fail(self):
        """Errors of all kinds, each of which leaves everything as it was."""
        def hook(_):
            raise ValueError("of a hook")

        wrong = (
            lambda: torch.ones(3) + torch.ones(4),
            lambda: torch.zeros(10**13),
            lambda: torch.ones(3)[7],
            lambda: torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5])).item(),
            lambda: [out := self.loss(), out.register_hook(hook), out.backward()],
            lambda: torch.linalg.inv(torch.zeros(2, 2)),
        )
        try:
            self.rng.choice(wrong)()
        except (RuntimeError, IndexError, ValueError):
            return
        raise AssertionError("this should have failed")

    def interrupt(self):
        """A signal in the middle of a step, as Ctrl-C."""
        try:
            # Again if it is lost: Python drops what comes in a weak reference's callback, or a garbage collection's.
            signal.setitimer(signal.ITIMER_REAL, self.rng.uniform(1e-4, 3e-3), 0.5)
            while True:
                self.train()
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def share(self):
        """Threads that use the model at the same time."""
        found = []

        def use():
            with torch.no_grad():
                found.append(self.model(torch.ones(3, self.width)).sum().item())

        threads = [threading.Thread(target=use) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        if len(found) != 3:
            raise AssertionError("a thread hangs or has failed")


def soak(seconds: float, limit: float, rows) -> int:
    """Runs for some time; gives how many steps there were.

    Args:
        limit: how many MB memory may grow by once half of the time is over.
        rows: gets (seconds, steps, MB, threads, files, seconds of the CPU).

    Raises:
        AssertionError: if memory, threads or files grow.
    """
    def on_alarm(*_):
        raise KeyboardInterrupt

    outer = signal.signal(signal.SIGALRM, on_alarm)
    rng, steps, start = random.Random(0), 0, time.time()
    reported = settled = None
    threads = compiled = until = 0
    is_short = seconds < 600
    try:
        # A short run goes on until nothing was compiled for a while: XLA's first programs bring some 100 MB, and come when
        # the steps on the host have taken long enough, on a slow machine late.
        while (passed := time.time() - start) < seconds or (is_short and passed < min(2 * seconds, until)):
            session = Session(rng, rng.choice(WIDTHS))
            for _ in range(50):
                session.train()
                steps += 1
            session.fail(), session.fail()
            session.share()
            if rng.random() < 0.2:
                session.interrupt()
            del session
            gc.collect()
            tenth = int(10 * passed / seconds)
            if tenth != reported:
                reported = tenth
                background.wait(60)  # what is being compiled needs some 50 MB meanwhile
                row = (round(passed), steps, round(memory(), 1), threading.active_count(), files(), round(time.process_time()))
                rows(row)
                # By half of the time everything has been compiled in a long run.
                if tenth >= 5 and (settled is None or (is_short and stats.compilations > compiled)):
                    settled, threads, until = row, row[3], passed + 0.3 * seconds
                compiled = stats.compilations
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
    background.wait(60)
    if settled is not None:
        grown = memory() - settled[2]
        if grown > limit:
            raise AssertionError(f"memory has grown by {grown:.0f} MB in {steps - settled[1]} steps")
        if threading.active_count() > threads or files() > settled[4] + 2:
            raise AssertionError("threads or files are left over")
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--limit", type=float, default=60, help="MB that memory may grow by")
    parser.add_argument("--csv", help="where to write the rows")
    options = parser.parse_args()
    with open(options.csv or os.devnull, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("seconds", "steps", "MB", "threads", "files", "CPU s"))

        def rows(row):
            print("{:>6} s {:>9} steps {:>8} MB {:>3} threads {:>4} files {:>6} s of CPU".format(*row), flush=True)
            writer.writerow(row)

        print(soak(60 * options.minutes, options.limit, rows), "steps in all")


if __name__ == "__main__":
    sys.exit(main())
