"""Steps of divided modules that are interrupted: the next one is whole, with its own gradients."""

from __future__ import annotations

import pytest

import ftorch as torch
import ftorch.distributed as dist
from ftorch.distributed.fsdp import _group, _state, fully_shard


@pytest.fixture
def training(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = torch.nn.Sequential(torch.nn.Linear(4, 3, bias=False), torch.nn.Linear(3, 2, bias=False))
        for p in model.parameters():
            p.data.fill_(1)
        fully_shard(model[0]), fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.125)

        def step(updates=True):
            optimizer.zero_grad()
            model(torch.ones(5, 4)).sum().backward()
            if updates:
                optimizer.step()

        def gradients():
            return [p.grad.full_tensor().tolist() for p in optimizer.param_groups[0]["params"]]

        yield step, gradients, model
    finally:
        dist.destroy_process_group()


_PLACES = {
    "while parameters are put into the modules": (_group.ShardedParameter, "put", 3),
    "when they are whole": (_state.State, "begin", 1),
    "in forward": (torch.nn.Linear, "forward", 2),
    "as backward begins": (_state.State, "pre_backward", 1),
    "before gradients are reduced": (_group.ParameterGroup, "post_backward", 1),
    "between the reductions": (_group.ParameterGroup, "post_backward", 2),
    "while parts are put back": (_group.ShardedParameter, "empty", 2),
    "at the end of backward": (_state.Root, "finish", 1),
}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("place", _PLACES)
def test_the_next_step_is_whole(training, place, before, monkeypatch):
    step, gradients, model = training
    step(updates=False)
    want = gradients()
    owner, name, left = _PLACES[place]
    function = getattr(owner, name)

    def interrupted(*args, **kwargs):
        nonlocal left
        left -= 1
        if left == 0 and before:
            raise KeyboardInterrupt
        result = function(*args, **kwargs)
        if left == 0:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            step()
    for _ in range(2):
        step(updates=False)
        assert gradients() == want
        assert all(p.full_tensor().unique().tolist() == [1] for p in model.parameters())


def test_gradients_that_wait_are_kept(training, monkeypatch):
    step, gradients, model = training
    step(updates=False)
    want = gradients()
    model.set_requires_gradient_sync(False)
    step(updates=False)
    model.set_requires_gradient_sync(True)
    with monkeypatch.context() as patch:

        def interrupted(*_):
            raise KeyboardInterrupt

        patch.setattr(torch.nn.Linear, "forward", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step()
    step(updates=False)
    assert gradients() == [(2 * torch.tensor(g)).tolist() for g in want]


@pytest.mark.parametrize("differentiates", [False, True])
@pytest.mark.parametrize("is_part", [False, True])
def test_a_module_that_calls_itself(tmp_path, is_part, differentiates):
    """What is computed within its own call is no leftover."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        class Twice(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

            def forward(self, x, again=True):
                return self(x * self.weight, again=False) + self.weight if again else x * self.weight

        model = Twice()
        whole = torch.nn.Sequential(model) if is_part else model
        fully_shard(model)
        if is_part:
            fully_shard(whole)
        for _ in range(3):
            x = torch.ones(3, requires_grad=differentiates)
            out = whole(x)
            assert out.tolist() == [6] * 3
            out.sum().backward()
            assert model.weight.grad.full_tensor().tolist() == [5] * 3
            assert x.grad is None or x.grad.tolist() == [4] * 3
            model.zero_grad()
    finally:
        dist.destroy_process_group()
