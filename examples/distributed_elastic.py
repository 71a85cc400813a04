"""Digits with workers that may be killed: the launcher starts them again, and they go on from the last checkpoint.

    ftorchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/distributed_elastic.py

The second process kills itself once, in the middle of the training (not with ``KILL=0`` in the environment).
"""

import os
import signal
import tempfile
from datetime import timedelta
from pathlib import Path

from common import accuracy, digits, learn, minibatch

import ftorch as torch
import ftorch.distributed.checkpoint as checkpoint
from ftorch import distributed as dist
from ftorch import nn
from ftorch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from ftorch.nn import functional as F
from ftorch.nn.parallel import DistributedDataParallel

EVERY, KILLED_AT = 20, 50

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rank = dist.get_rank()
folder = Path(os.environ.get("CHECKPOINTS", Path(tempfile.gettempdir()) / f"digits-{os.environ['TORCHELASTIC_RUN_ID']}"))

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=3e-3)
train, test = digits(torch)


def state(done):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "done": done}


begun = 0
if (folder / ".metadata").exists():
    loaded = state(0)
    checkpoint.load(loaded, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    begun = loaded["done"]
    if rank == 0:
        print(f"goes on from step {begun}")


def step(i):
    if i < begun:
        return 0.0
    first_time = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if i == KILLED_AT and rank == 1 and first_time and os.environ.get("KILL") != "0":
        os.kill(os.getpid(), signal.SIGKILL)
    torch.manual_seed(i)
    x, y = (t.chunk(dist.get_world_size())[rank] for t in minibatch(torch, train, 64))
    optimizer.zero_grad()
    loss = F.cross_entropy(ddp(x), y)
    loss.backward()
    optimizer.step()
    if (i + 1) % EVERY == 0:
        checkpoint.save(state(i + 1), checkpoint_id=folder)
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


learn(step, lambda: accuracy(torch, model, test), __doc__, 200, rank)
dist.destroy_process_group()
