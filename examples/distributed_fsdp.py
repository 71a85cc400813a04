"""Digits with fully_shard: parameters, gradients and optimizer states are divided.

    ftorchrun --standalone --nproc-per-node 2 examples/distributed_fsdp.py   # over processes
    python examples/distributed_fsdp.py                                      # over eight devices of one process
"""

import os

from common import accuracy, digits, learn, minibatch

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # what XLA makes of the CPU

import ftorch as torch
from ftorch import distributed as dist
from ftorch import nn
from ftorch.distributed.fsdp import fully_shard
from ftorch.nn import functional as F

if "RANK" in os.environ:
    dist.init_process_group("gloo")
processes = dist.get_world_size() if dist.is_initialized() else 1
rank = dist.get_rank() if processes > 1 else 0

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
for layer in (model[1], model[3]):
    fully_shard(layer)  # gathered while it computes
fully_shard(model)  # the rest
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

train, test = digits(torch)


def step(i):
    torch.manual_seed(i)
    x, y = (t.chunk(processes)[rank] for t in minibatch(torch, train, 64))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    if processes > 1:
        dist.all_reduce(mean)
    return mean / processes


learn(step, lambda: accuracy(torch, model, test), __doc__, 200, rank)
if rank == 0:
    print("a part of the first weight:", tuple(model[1].weight.placements), "of", tuple(model[1].weight.shape))
if dist.is_initialized():
    dist.destroy_process_group()
