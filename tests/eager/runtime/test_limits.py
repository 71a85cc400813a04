"""Training under a limit of memory, and saved by another thread while it goes on."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import ftorch as torch

_PROGRAM = """
import resource, sys
import ftorch as torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(64, 64), torch.randint(0, 4, (64,))

def step(rows):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
    optimizer.step()

for _ in range(4):
    step(slice(64))
limited, failed = len(sys.argv) > 1, 0
if limited:
    with open("/proc/self/statm") as numbers:
        now = int(numbers.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (3 << 30), resource.RLIM_INFINITY))
for n in range(12):
    if limited and n % 3 == 1:
        try:
            step(torch.arange(20_000_000) % 64)  # 5 GB
        except RuntimeError as error:
            failed += "you tried to allocate" in str(error)
    step(slice(64 - n))
print(failed, torch.cat([p.detach().flatten() for p in model.parameters()]).tolist())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of the process is read as Linux says it")
def test_too_large_batches_are_caught_under_a_limit_and_training_goes_on():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    failed, found = [], []
    for arguments in ([], ["limited"]):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, timeout=300, env=environment
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        count, weights = done.stdout.split(" ", 1)
        failed.append(int(count))
        found.append(json.loads(weights))
    assert failed == [0, 4]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)  # a step more or less would be 1e-3


def test_checkpoints_written_while_training_goes_on():
    """Each parameter's value is one that it had between two steps, as in PyTorch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(8, 16)
    known: dict[str, set] = {name: set() for name, _ in model.named_parameters()}
    ended, saved, errors = threading.Event(), [], []

    def save():
        try:
            while not ended.wait(2e-3):
                file = io.BytesIO()
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
                saved.append(file)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    def note():
        for name, p in model.named_parameters():
            known[name].add(p.detach().numpy().tobytes())

    note()
    thread = threading.Thread(target=save)
    thread.start()
    try:
        for n in range(1000):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()
            note()
            if n > 40 and len(saved) > 8 or errors:
                break
    finally:
        ended.set()
        thread.join()
    assert not errors and len(saved) > 4
    for file in saved:
        file.seek(0)
        for name, value in torch.load(file)["model"].items():
            assert value.numpy().tobytes() in known[name], name
