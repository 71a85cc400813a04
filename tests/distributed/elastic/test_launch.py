"""The launcher: workers that are killed come back, and what fails is said."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import torch as pt

SCRIPT = """
    import os, signal, sys
    import ftorch as torch

    dist = torch.distributed
    dist.init_process_group("gloo")
    rank, checkpoint = dist.get_rank(), sys.argv[1]
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    start = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        start = state["step"]
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    for step in range(start, 6):
        if step == 3 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        wrapped(torch.ones(2, 3) * (rank + step)).square().mean().backward()
        optimizer.step()
        if rank == 0:
            torch.save({"model": model.state_dict(), "step": step + 1}, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()
    # In one write: the workers share the pipe.
    import sys
    sys.stdout.write(f"weights {rank} {dist.get_world_size()} {model.weight.detach().tolist()}\\n")
    sys.stdout.flush()
    dist.destroy_process_group()
"""


def launch(tmp_path, script, *options, args=()):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(script))
    return subprocess.run(
        [sys.executable, "-m", "ftorch.distributed.run", "--standalone", *options, str(path), *args],
        capture_output=True, text=True, timeout=200, env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )


def uninterrupted():
    """The weights of one PyTorch process that averages both ranks' gradients."""
    pt.manual_seed(0)
    model = pt.nn.Linear(3, 1)
    optimizer = pt.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        optimizer.zero_grad()
        sum(model(pt.ones(2, 3) * (rank + step)).square().mean() / 2 for rank in range(2)).backward()
        optimizer.step()
    return model.weight.detach()


def test_a_killed_worker_comes_back(tmp_path):
    """Training goes on from the last checkpoint, with the weights of a run without failure."""
    done = launch(
        tmp_path, SCRIPT, "--nproc-per-node", "2", "--max-restarts", "2", args=[str(tmp_path / "last.pt")]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("weights"))
    assert [line.split()[1:3] for line in lines] == [["0", "2"], ["1", "2"]]
    for line in lines:
        found = pt.tensor(eval(line.split(maxsplit=3)[3]))
        pt.testing.assert_close(found, uninterrupted())


FAILING = """
    import os
    from ftorch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        import pathlib, sys, time
        said = pathlib.Path(sys.argv[1])
        print("output of", os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"], flush=True)
        if os.environ["RANK"] == "1":
            while not said.exists():  # the other one has said it
                time.sleep(0.05)
            raise ValueError("this one fails")
        said.touch()
        time.sleep(60)

    main()
"""


def test_a_failure_is_said(tmp_path):
    """The others are stopped at once; the error names the rank and its traceback; logs are kept."""
    logs = tmp_path / "logs"
    done = launch(
        tmp_path, FAILING, "--nproc-per-node", "2", "--log-dir", str(logs), "--redirects", "3",
        args=[str(tmp_path / "said")],
    )
    assert done.returncode == 1
    assert "ChildFailedError" in done.stderr and "ValueError: this one fails" in done.stderr
    assert "rank      : 1 (local_rank: 1)" in done.stderr
    (run,) = logs.iterdir()
    assert (run / "attempt_0" / "0" / "stdout.log").read_text() == "output of 0 0 2\n"
    assert "ValueError" in (run / "attempt_0" / "1" / "stderr.log").read_text()


STOPPED = """
    import os, signal, sys
    if os.environ["RANK"] == "0" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGSTOP)
    sys.stdout.write(f"ended {os.environ['RANK']}\\n")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="states of processes are read from /proc")
def test_a_worker_that_stops_behind_the_others_comes_back(tmp_path):
    """No group's timeout covers it: nobody waits for it any more."""
    done = launch(tmp_path, STOPPED, "--nproc-per-node", "2", "--max-restarts", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.split("\n"))[-3:] == ["ended 0", "ended 1", "ended 1"], done.stdout
    assert "is stopped" in done.stderr
