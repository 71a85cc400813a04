"""Digits through a pipeline: each process has some of the layers, and microbatches follow each other (1F1B).

    ftorchrun --standalone --nproc-per-node 2 examples/distributed_pipeline.py
"""

from common import digits, learn, minibatch

import ftorch as torch
from ftorch import distributed as dist
from ftorch import nn
from ftorch.distributed.pipelining import PipelineStage, Schedule1F1B
from ftorch.nn import functional as F

BATCH, MICROBATCHES = 64, 4

dist.init_process_group("gloo")
rank, count = dist.get_rank(), dist.get_world_size()
first, last = rank == 0, rank == count - 1

torch.manual_seed(rank)
layers = [nn.Flatten(), nn.Linear(64, 128)] if first else [nn.Linear(128, 128)]
layers += [nn.Linear(128, 10)] if last else [nn.ReLU()]
model = nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

stage = PipelineStage(model, rank, count, torch.device("cpu"))
schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=F.cross_entropy)
train, test = digits(torch)


def step(i):
    torch.manual_seed(i)  # the same rows in all processes
    x, y = minibatch(torch, train, BATCH)
    optimizer.zero_grad()
    losses: list = []
    if first:
        schedule.step(x)
    elif last:
        schedule.step(target=y, losses=losses)
    else:
        schedule.step()
    optimizer.step()
    loss = torch.stack(losses).mean().detach() if last else torch.zeros(())
    dist.broadcast(loss, src=count - 1)
    return loss


def report():
    """The test rows, through the stages by messages."""
    x, y = test
    model.eval()
    with torch.no_grad():
        if not first:
            x = torch.empty(len(y), 128)
            dist.recv(x, src=rank - 1)
        x = model(x)
        if not last:
            dist.send(x, dst=rank + 1)
        share = (x.argmax(1) == y).float().mean() if last else torch.zeros(())
        dist.broadcast(share, src=count - 1)
    return f"test accuracy: {share.item():.2%}"


learn(step, report, __doc__, 200, rank)
dist.destroy_process_group()
