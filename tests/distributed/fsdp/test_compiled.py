"""`fully_shard` and compiled functions in two processes: losses and weights are those of PyTorch without a compiler."""

from __future__ import annotations

import pytest


def _blocks(t):
    class Block(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.first, self.second = t.nn.LayerNorm(4), t.nn.Linear(4, 6), t.nn.Linear(6, 4)

        def forward(self, x):
            return x + self.second(self.first(self.norm(x)).tanh())

    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.norm, self.head = t.nn.ModuleList(Block() for _ in range(2)), t.nn.LayerNorm(4), t.nn.Linear(4, 3)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    t.manual_seed(0)
    return Model()


def _trained(t, rank, model, compiled=lambda f: f):
    optimizer, found = t.optim.SGD(model.parameters(), 0.1, momentum=0.9), []

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(step)
    for i in range(5):
        found.append(run(t.arange(12.0).view(3, 4) / (i + rank + 1)).clone())
    return found + [p.to_local().detach().clone() for p in model.parameters()]


def _sharded(t, order):
    """The model with its blocks compiled and divided in an order."""
    shard = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"]).fully_shard
    model, compiles = _blocks(t), t.__name__ == "ftorch"
    for i, block in enumerate(model.blocks):
        if compiles and order == "compiled first":
            block.compile()
        if compiles and order == "wrapped":
            block = model.blocks[i] = t.compile(block, fullgraph=True)
        shard(block)
        if compiles and order == "divided first":
            block.compile()
    return shard(model)


def compiled_first(t, d, rank):
    return _trained(t, rank, _sharded(t, "compiled first"))


def divided_first(t, d, rank):
    return _trained(t, rank, _sharded(t, "divided first"))


def wrapped(t, d, rank):
    return _trained(t, rank, _sharded(t, "wrapped"))


def whole_steps(t, d, rank):
    return _trained(t, rank, _sharded(t, ""), t.compile if t.__name__ == "ftorch" else lambda f: f)


def state_dicts(t, d, rank):
    """State dicts of compiled modules that are divided: names without the compiler's, and back."""
    states = __import__(f"{t.__name__}.distributed.checkpoint.state_dict", fromlist=["x"])
    shard, model = __import__(f"{t.__name__}.distributed.fsdp", fromlist=["x"]).fully_shard, _blocks(t)
    for i, block in enumerate(model.blocks):
        model.blocks[i] = t.compile(block, **({"backend": "eager"} if t.__name__ == "torch" else {}))
        shard(model.blocks[i])
    optimizer = t.optim.Adam(shard(model).parameters(), 0.1)
    model(t.arange(12.0).view(3, 4) / (rank + 1)).square().mean().backward()
    optimizer.step()
    whole = states.StateDictOptions(full_state_dict=True)
    state = states.get_model_state_dict(model, options=whole)
    found = [sorted(state), sorted(states.get_optimizer_state_dict(model, optimizer)["state"]), sorted(model.state_dict())]
    states.set_model_state_dict(model, {k: v * 0 + 2 for k, v in state.items()}, options=whole)
    return found + [p.to_local().detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("program", [state_dicts, compiled_first, divided_first, wrapped, whole_steps])
def test_two_processes(two, program):
    two.run(program)
