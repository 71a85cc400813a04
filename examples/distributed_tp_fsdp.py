"""Digits with tensor parallelism within rows of a mesh and fully_shard along its columns.

    ftorchrun --standalone --nproc-per-node 4 examples/distributed_tp_fsdp.py   # over processes
    python examples/distributed_tp_fsdp.py                                      # over eight devices of one process
"""

import os

from common import accuracy, digits, learn, minibatch

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # what XLA makes of the CPU

import ftorch as torch
from ftorch import distributed as dist
from ftorch import nn
from ftorch.distributed.device_mesh import init_device_mesh
from ftorch.distributed.fsdp import fully_shard
from ftorch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from ftorch.nn import functional as F

if "RANK" in os.environ:
    dist.init_process_group("gloo")
processes = dist.get_world_size() if dist.is_initialized() else 1
mesh = init_device_mesh("cpu", (2, (processes if processes > 1 else 8) // 2), mesh_dim_names=("dp", "tp"))
rank, row = mesh.get_rank(), mesh["dp"].get_local_rank()
rows = 2 if processes > 1 else 1  # one process has the whole batch

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))
parallelize_module(model, mesh["tp"], {"1": ColwiseParallel(), "3": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

train, test = digits(torch)


def step(i):
    torch.manual_seed(i)
    x, y = (t.chunk(rows)[row] for t in minibatch(torch, train, 64))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    if processes > 1:
        dist.all_reduce(mean, group=mesh["dp"].get_group())
    return mean / rows


learn(step, lambda: accuracy(torch, model, test), __doc__, 200, rank)
if dist.is_initialized():
    dist.destroy_process_group()
