"""Digits with DistributedDataParallel: each process computes a part of the batch, gradients are averaged.

    ftorchrun --standalone --nproc-per-node 2 examples/distributed_ddp.py
"""

from common import accuracy, digits, learn

import ftorch as torch
from ftorch import distributed as dist
from ftorch import nn
from ftorch.nn import functional as F
from ftorch.nn.parallel import DistributedDataParallel
from ftorch.utils.data import DataLoader, TensorDataset
from ftorch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank = dist.get_rank()

torch.manual_seed(0)  # the first process' weights are everybody's; the others may begin with the same ones
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=3e-3)

train, test = digits(torch)
sampler = DistributedSampler(TensorDataset(*train), seed=0)  # other rows in each process
batches = DataLoader(TensorDataset(*train), batch_size=32, sampler=sampler, drop_last=True)


def endless():
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from batches
        epoch += 1


rows = endless()


def step(i):
    x, y = next(rows)
    optimizer.zero_grad()
    loss = F.cross_entropy(ddp(x), y)
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    return mean / dist.get_world_size()


learn(step, lambda: accuracy(torch, model, test), __doc__, 200, rank)
dist.destroy_process_group()
