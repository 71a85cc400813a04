"""Run by `test_local_devices.py` in a process of its own, over eight devices that XLA makes of the CPU: prints results."""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np

DEVICES = 8


def built(t):
    t.manual_seed(0)
    nn = t.nn
    return nn.Sequential(
        nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 3)
    )


def trained(t, model, clips, steps=8):
    """The losses of a training, and the norms that clipping found."""
    t.manual_seed(1)
    x, y = t.randn(16, 16), t.randint(0, 3, (16,))
    optimizer, out = t.optim.AdamW(model.parameters(), lr=0.01), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        out.append(loss.item())
        if clips:
            out.append(t.nn.utils.clip_grad_norm_(clips, 0.5).item())
        optimizer.step()
    return out


def clipped(model, way):
    """The parameters whose gradients are clipped: norms on several meshes can't be combined, in PyTorch neither."""
    layers = {"tensor parallel": (), "both": (model[0], model[2])}.get(way, (model,))
    return [p for layer in layers for p in layer.parameters()]


def _whole(p):
    return (p.full_tensor() if hasattr(p, "full_tensor") else p).detach().cpu().numpy().tolist()


def _sharded(torch):
    """The model, divided in each way."""
    from ftorch.distributed.fsdp import fully_shard
    from ftorch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = torch.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}

    model = built(torch)
    yield "tensor parallel", parallelize_module(model, mesh["tp"], plan)
    model = built(torch)
    for i in (0, 2):
        fully_shard(model[i])
    yield "fully sharded", fully_shard(model)
    yield "fully sharded, in replicas", fully_shard(built(torch), mesh=mesh)
    model = parallelize_module(built(torch), mesh["tp"], plan)
    yield "both", fully_shard(model, mesh=mesh["dp"])


def divided_twice(torch):
    """The bytes in all and on a device of a weight that is divided along both dimensions of a mesh, before a step."""
    *_, (_, model) = _sharded(torch)
    array = model[0].weight.__jax_array__()
    return array.nbytes, max(s.data.nbytes for s in array.addressable_shards)


COLLECTIVES = re.compile(r" (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")


def _compiled():
    """XLA's texts of the programs that it has compiled."""
    return Path(sys.argv[1]).glob("*after_optimizations.txt")


def trainings(torch):
    """{way: (losses, weights, for each program that was compiled meanwhile its collectives)}."""
    found = {}
    for name, model in _sharded(torch):
        before = set(_compiled())
        losses = trained(torch, model, clipped(model, name))
        programs = [COLLECTIVES.findall(p.read_text()) for p in set(_compiled()) - before]
        found[name] = losses, [_whole(p) for p in model.parameters()], programs
    return found


def memory(torch):
    """Of each parameter, its gradient and its moments: bytes in all, and on the device with the most."""
    from ftorch.distributed.fsdp import fully_shard

    model = fully_shard(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)))
    optimizer, found = torch.optim.Adam(model.parameters()), []
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 16)).square().sum().backward()
        optimizer.step()
    for p in model.parameters():
        for t in (p, p.grad, optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"]):
            array = t.__jax_array__()
            found.append((array.nbytes, max(s.data.nbytes for s in array.addressable_shards)))
    return found


class Devices:
    """What programs of several processes ask ``torch.distributed`` for, with devices in the processes' places."""

    def __init__(self, torch, count):
        self.get_world_size = lambda: count
        self.init_device_mesh = torch.distributed.init_device_mesh


def programs(torch):
    """Programs of `test_tensor.py`."""
    test_tensor = importlib.import_module("tests.distributed.tensor.test_tensor")
    return {
        f"{name} {count}": _values(getattr(test_tensor, name)(torch, Devices(torch, count), 0))
        for name in PROGRAMS for count in (2, 8)
    }


PROGRAMS = ("operations", "gradients", "reduced_gradients")


def _values(found):
    return [None if t is None else t.detach().tolist() for t in found]


def beside_jax(torch):
    """Arrays from and to JAX without a copy, and a parallel model inside ``jax.jit``."""
    import jax

    from ftorch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    mesh = torch.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    spec = jax.sharding.PartitionSpec("dp", "tp")
    array = jax.device_put(np.arange(32, dtype=np.float32).reshape(4, 8), jax.sharding.NamedSharding(mesh.jax(), spec))
    x = DTensor.from_local(torch.from_jax(array, sharded=True), mesh, [Shard(0), Shard(1)])
    y = distribute_tensor(torch.ones(8, 4), mesh, [Replicate(), Shard(0)])
    product = (x @ y).redistribute(placements=[Shard(0), Replicate()])
    (_, model), *_ = _sharded(torch)
    data = torch.randn(8, 16)
    model.eval()

    def call(a):
        return model(torch.from_jax(a)).__jax_array__()

    return {
        "array": bool((np.asarray(x.__jax_array__()) == np.asarray(array)).all()),
        "gathered": torch.from_jax(array).tolist() == array.tolist(),
        "product": product.full_tensor().tolist(),
        "spec": tuple(product.__jax_array__().sharding.spec)[:1],
        "in jit": float(abs(np.asarray(jax.jit(call)(data.numpy())) - model(data).detach().numpy()).max()),
    }


def objects(torch):
    """Copies, files and conversions of a tensor over several devices."""
    import io

    from ftorch.distributed.tensor import Shard, distribute_tensor

    mesh, file = torch.distributed.init_device_mesh("cpu", (8,)), io.BytesIO()
    x = distribute_tensor(torch.arange(48.0).view(16, 3), mesh, [Shard(0)])
    torch.save(x, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    local = x.to_local()
    try:
        mesh.get_group()
        refused = None
    except RuntimeError as error:
        refused = str(error)
    shards = [tuple(t.__jax_array__().sharding.spec)[:1] for t in (x, copy.deepcopy(x), loaded, x * 2)]
    return {
        "shards": shards, "device": str(local.device), "cpu": (local + torch.ones(3)).cpu().tolist(),
        "numpy": local.numpy().tolist(), "item": x.sum().item(), "mask": local[local > 40].tolist(), "refused": refused,
    }


SCHEDULES = {"GPipe": 4, "1F1B": 4, "LoopedBFS": 8, "Interleaved1F1B": 8, "InterleavedZeroBubble": 8, "ZBVZeroBubble": 8,
             "DualPipeV": 8}  # stages


def blocks(t, count):
    """The stages of a model, the same in both libraries, and a batch."""
    t.manual_seed(4)
    return [t.nn.Sequential(t.nn.Linear(6, 6), t.nn.Tanh()) for _ in range(count)], t.randn(16, 6), t.randn(16, 6)


def pipelined(torch):
    """{schedule: [losses of each step, weights, device of each stage's weights]}, of stages on four devices."""
    from ftorch.distributed.pipelining import PipelineStage
    from ftorch.distributed.pipelining.schedules import get_schedule_class

    mesh, found = torch.distributed.init_device_mesh("cpu", (4,), mesh_dim_names=("pp",)), {}
    for name, count in SCHEDULES.items():
        modules, x, y = blocks(torch, count)
        stages = [PipelineStage(m, i, count, "cpu", group=mesh) for i, m in enumerate(modules)]
        schedule = get_schedule_class(name)(stages, 8, loss_fn=torch.nn.functional.mse_loss)
        optimizer = torch.optim.AdamW([p for m in modules for p in m.parameters()], lr=0.05)
        steps = []
        for _ in range(3):
            losses: list = []
            optimizer.zero_grad()
            assert schedule.step(x, target=y, losses=losses).shape == (16, 6)
            optimizer.step()
            steps.append(sum(loss.item() for loss in losses) / len(losses))
        on = [[d.id for d in m[0].weight.__jax_array__().devices()] for m in modules]
        found[name] = steps, [p.tolist() for m in modules for p in m.parameters()], on
    return found


if __name__ == "__main__":
    ft = importlib.import_module("ftorch")
    parts = (trainings, divided_twice, memory, programs, beside_jax, objects, pipelined)
    print(json.dumps({part.__name__: part(ft) for part in parts}))
