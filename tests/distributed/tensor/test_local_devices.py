"""Meshes over the devices of one process: eight that XLA makes of the CPU, against PyTorch on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.distributed.pool import free_port

from . import on_devices, test_tensor

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the programs gave."""
    folder = tmp_path_factory.mktemp("programs")
    flags = f"--xla_force_host_platform_device_count={on_devices.DEVICES} --xla_dump_to={folder} --xla_dump_hlo_as_text"
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.distributed.tensor.on_devices", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env=kept
        | {"XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "0", "FTORCH_CACHE_DIR": "0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", ["tensor parallel", "fully sharded", "fully sharded, in replicas", "both"])
def test_training_is_that_of_one_device(found, way):
    losses, weights, _ = found["trainings"][way]
    model = on_devices.built(torch)
    np.testing.assert_allclose(losses, on_devices.trained(torch, model, on_devices.clipped(model, way)), rtol=3e-5)
    for ours, theirs in zip(weights, model.parameters(), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=3e-5)


def test_each_device_holds_its_share(found):
    assert len(found["memory"]) == 16
    for whole, most in (*found["memory"], found["divided_twice"]):
        assert most * on_devices.DEVICES == whole


@pytest.mark.parametrize("way", ["tensor parallel", "fully sharded", "fully sharded, in replicas", "both"])
def test_steps_gather_and_reduce(found, way):
    """A step is one program with its collectives in it; nothing goes from every device to every other."""
    programs = found["trainings"][way][2]
    counts = {kind: max(p.count(kind) for p in programs) for kind in ("all-gather", "all-reduce", "all-to-all")}
    assert counts["all-reduce"] and not counts["all-to-all"]
    assert (counts["all-gather"] >= 6) == (way != "tensor parallel")  # three rows are not divided by four or eight


@pytest.fixture(scope="module")
def alone():
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    yield torch.distributed
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("name", on_devices.PROGRAMS)
def test_programs(found, alone, name, count):
    ours, theirs = found["programs"][f"{name} {count}"], getattr(test_tensor, name)(torch, alone, 0)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=2e-5, atol=1e-6)


def test_arrays_are_jax_arrays(found):
    got = found["beside_jax"]
    assert got["array"] and got["gathered"] and got["in jit"] < 1e-6
    assert got["spec"] == ["dp"]
    assert got["product"] == (torch.arange(32.0).view(4, 8) @ torch.ones(8, 4)).tolist()


def test_objects(found):
    got, x = found["objects"], torch.arange(48.0).view(16, 3)
    assert got["shards"] == [["dim_0"]] * 4
    assert got["device"] == "cpu" and got["numpy"] == x.tolist() and got["cpu"] == (x + 1).tolist()
    assert got["item"] == x.sum().item() and got["mask"] == x[x > 40].tolist()
    assert "process groups not initialized" in got["refused"]


@pytest.mark.parametrize("name", on_devices.SCHEDULES)
def test_pipelines_over_devices_are_one_device(found, name):
    losses, weights, on = found["pipelined"][name]
    count = on_devices.SCHEDULES[name]
    assert on == [[place] for place in ([0, 1, 2, 3, 3, 2, 1, 0] if name[0] in "ZD" else [i % 4 for i in range(count)])]
    modules, x, y = on_devices.blocks(torch, count)
    model = torch.nn.Sequential(*modules)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for loss in losses:
        optimizer.zero_grad()
        expected = torch.nn.functional.mse_loss(model(x), y)
        expected.backward()
        optimizer.step()
        assert loss == pytest.approx(expected.item(), rel=1e-5)
    for ours, theirs in zip(weights, model.parameters(), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)
