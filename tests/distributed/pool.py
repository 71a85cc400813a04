"""Processes that run the same programs in ftorch and in PyTorch (gloo) and compare what comes out.

A pool is started once for a session: importing both libraries costs more than all the programs.
"""

from __future__ import annotations

import importlib
import multiprocessing
import socket
import traceback
import warnings
from datetime import timedelta

from tests import processes


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Pool:
    """``count`` processes with a default group of each library."""

    def __init__(self, count: int):
        self.count, self.starts = count, 0
        self._start()

    def _start(self) -> None:
        self.starts += 1
        assert self.starts < 4, "the processes have hung or ended too often"
        context = multiprocessing.get_context("spawn")
        count, ports = self.count, (free_port(), free_port())
        self.ends, self.processes = [], []
        for rank in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, rank, count, ports), daemon=True)
            process.start()
            processes.lasting.add(process.pid)
            self.ends.append(here)
            self.processes.append(process)
        self._collect("start")

    def run(self, program, libraries=("torch", "ftorch")) -> None:
        """Runs ``program(t, d, rank)`` in all processes with each library; results agree on each rank.

        Raises:
            AssertionError: if they do not, or a process did not answer.
        """
        if not self.ends:  # a program before left processes that do not answer
            self._start()
        try:
            for end in self.ends:
                end.send((program.__module__, program.__qualname__, libraries))
        except OSError:
            self.close()
            raise AssertionError(f"{program.__qualname__}: a process had ended before") from None
        self._collect(program.__qualname__)

    def _collect(self, name):
        failures, gone = [], False
        for rank, end in enumerate(self.ends):
            try:
                came = end.poll(1 if gone else 100)
                answer = end.recv() if came else "no answer in 100 s"
                gone = gone or not came
            except EOFError:
                answer, gone = "the process has ended", True
            if answer is not None:
                failures.append(f"rank {rank}: {answer}")
        if gone:
            self.close()
        assert not failures, f"{name}:\n" + "\n".join(failures)

    def close(self) -> None:
        for end in self.ends:
            end.close()
        self.ends = []
        for process in self.processes:
            process.join(3)
            process.kill()
            process.join(10)
        self.processes = []


def _work(end, rank, count, ports):
    processes.begin()
    processes.ends_with_parent()
    try:
        import torch as pt

        import ftorch as ft

        for t, port in ((pt, ports[0]), (ft, ports[1])):
            t.distributed.init_process_group(
                "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count,
                timeout=timedelta(seconds=40),
            )
    except BaseException:
        end.send(traceback.format_exc())
        return
    end.send(None)
    from tests.oracle import assert_same_outcome, outcome

    known = {"torch": pt, "ftorch": ft}
    warnings.simplefilter("ignore")
    while True:
        try:
            module, name, libraries = end.recv()
        except EOFError:
            break
        try:
            program = getattr(importlib.import_module(module), name)
            outcomes = [
                outcome(program, known[n], known[n].distributed, rank) for n in libraries
            ]
            if len(outcomes) == 1:
                if outcomes[0][1] is not None:
                    raise outcomes[0][1]
            else:
                assert_same_outcome(outcomes[1], outcomes[0], where=name)
                mine, theirs = outcomes[1][1], outcomes[0][1]
                if theirs is not None and "Gloo" not in str(theirs):
                    assert str(mine) == str(theirs), f"{mine!s} instead of {theirs!s}"
            end.send(None)
        except BaseException:
            end.send(traceback.format_exc())
