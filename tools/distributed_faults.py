"""Kills or stops a random worker at a random step of a training, many times: does each run resume?

    python tools/distributed_faults.py [--runs 50] [--processes 2] [--steps 8] [--seed 0]

Each run starts `ftorchrun` with a small model under `DistributedDataParallel` that saves a checkpoint after every step.
When a random rank has begun a random step its process gets SIGKILL or SIGSTOP. Every run has to end in time, with the
weights of a run that nobody disturbed; the exit status says whether all did. Weights are compared to 1e-5, and it is said
how many are equal bit for bit: a process computes its first step in other programs than later ones, so that
sums may round differently.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

LIMIT = 180  # seconds of a run
WORKER = """
    import datetime, json, os, pathlib, sys
    import ftorch as torch
    import ftorch.distributed.checkpoint as dcp

    dist, folder, steps = torch.distributed, pathlib.Path(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05)
    state = {"model": model.state_dict(), "step": 0}
    if (folder / "last" / ".metadata").exists():
        dcp.load(state, checkpoint_id=folder / "last")
        model.load_state_dict(state["model"])
    for step in range(state["step"], steps):
        (folder / f"at{rank}.new").write_text(f"{step} {os.getpid()}")
        os.replace(folder / f"at{rank}.new", folder / f"at{rank}")
        torch.manual_seed(100 * step + rank)
        optimizer.zero_grad()
        wrapped(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        dcp.save({"model": model.state_dict(), "step": step + 1}, checkpoint_id=folder / "last")
    if rank == 0:
        values = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        (folder / "result").write_text(json.dumps(values.tolist()))
    dist.destroy_process_group()
"""


def run(options, fault=None) -> tuple[list[float], str, float]:
    """(the weights or nothing, what the launcher said, the seconds) of a training.

    Args:
        fault: (rank, step, signal), or None.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        script, log = folder / "train.py", folder / "log"
        script.write_text(textwrap.dedent(WORKER))
        command = [
            sys.executable, "-m", "ftorch.distributed.run", "--standalone", f"--nproc-per-node={options.processes}",
            "--max-restarts=3", str(script), str(folder), str(options.steps),
        ]
        began = time.monotonic()
        with open(log, "wb") as said:
            launcher = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        victim = None
        try:
            while launcher.poll() is None and time.monotonic() - began < LIMIT:
                if fault is not None and victim is None:
                    victim = _hit(folder, *fault)
                time.sleep(0.01)
            result = folder / "result"
            ended = launcher.poll() is not None
            done = ended and not launcher.returncode and result.exists()
            found = json.loads(result.read_text()) if done else []
            text = "" if ended else f"hangs after {LIMIT} s; what runs: {_states(launcher.pid)}\n"
            text += log.read_text(errors="replace")
            return found, text, time.monotonic() - began
        finally:
            for group in (launcher.pid, victim):
                try:
                    if group is not None:
                        os.killpg(os.getpgid(group), signal.SIGKILL)
                except OSError:
                    pass
            launcher.wait()


def _states(session) -> list[str]:
    """Id, state and command of the launcher's processes and of those that they started."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,stat=,wchan=,args="], capture_output=True, text=True)
    rows = [line.split(None, 4) for line in table.stdout.splitlines()]
    known = {str(session)}
    for pid, parent, *_ in sorted(rows, key=lambda row: int(row[0])):
        if parent in known:
            known.add(pid)
    return [" ".join(row)[:120] for row in rows if row[0] in known]


def _hit(folder, rank, step, number):
    """The process of a rank, if it has come to the step and got the signal."""
    try:
        at, process = map(int, (folder / f"at{rank}").read_text().split())
        if at < step:
            return None
        os.kill(process, number)
    except (OSError, ValueError):
        return None
    return process


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    expected, said, seconds = run(options)
    if not expected:
        sys.exit(f"the undisturbed run failed:\n{said}")
    print(f"undisturbed: {seconds:.1f} s")
    draw, bad, bits = random.Random(options.seed), 0, 0
    for i in range(options.runs):
        number = draw.choice([signal.SIGKILL, signal.SIGSTOP])
        fault = draw.randrange(options.processes), draw.randrange(options.steps), number
        found, said, seconds = run(options, fault)
        same = len(found) == len(expected) and all(
            math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) for a, b in zip(found, expected)
        )
        bad, bits = bad + (not same), bits + (found == expected)
        outcome = "same weights" if same else "other weights" if found else "failed"
        print(f"{i:3} rank {fault[0]} step {fault[1]} {number.name}: {outcome}, {seconds:.1f} s", flush=True)
        if not same:
            kept = tempfile.mkstemp(prefix="distributed_fault_", suffix=".log")[1]
            pathlib.Path(kept).write_text(said)
            print(textwrap.indent(said[:1000] + "\n...\n" + said[-2000:], "    "), f"    all of it: {kept}", sep="\n")
    print(f"{options.runs - bad} of {options.runs} resumed with the same weights, {bits} bit for bit")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
