"""States of optimizers of divided models: those of rank 0 for all, whole ones and parts. In two processes, as PyTorch's."""

from __future__ import annotations

import copy
import warnings
from importlib import import_module

import pytest

from tests.oracle import outcome


def stepped(t, net, optimizer, rank, steps=3):
    for i in range(steps):
        net(t.full((2, 4), 0.1 * (i + 1 + rank))).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def whole(x):
    return x.full_tensor().detach() if hasattr(x, "full_tensor") else x


def states(optimizer):
    return [{k: whole(v) for k, v in s.items()} for s in optimizer.state.values()]


def of_rank0(t, d, rank):
    """``broadcast_from_rank0`` gives all processes the optimizer's state, too; training goes on as before."""
    fsdp = import_module(f"{t.__name__}.distributed.fsdp")
    sd = import_module(f"{t.__name__}.distributed.checkpoint.state_dict")

    def made():
        t.manual_seed(0)
        net = fsdp.fully_shard(t.nn.Sequential(t.nn.Linear(4, 6), t.nn.Tanh(), t.nn.Linear(6, 4)))
        return net, t.optim.AdamW(net.parameters(), lr=0.05)

    net, optimizer = made()
    stepped(t, net, optimizer, rank)
    kept = sd.StateDictOptions(full_state_dict=True, cpu_offload=True)
    model_state = copy.deepcopy(sd.get_model_state_dict(net, options=kept))
    state = copy.deepcopy(sd.get_optimizer_state_dict(net, optimizer, options=kept))
    out = [len(model_state), len(state)]
    given = sd.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    again, other = made()
    sd.set_model_state_dict(again, model_state, options=given)
    sd.set_optimizer_state_dict(again, other, state, options=given)
    out.append(states(other))
    for pair in ((net, optimizer), (again, other)):
        stepped(t, *pair, rank)
        out.append([whole(p) for p in pair[0].parameters()])
    parts = sd.StateDictOptions(broadcast_from_rank0=True)
    calls = (
        lambda: sd.set_model_state_dict(again, model_state, options=parts),
        lambda: sd.set_optimizer_state_dict(again, other, state, options=parts),
    )
    return [*out, [(type(e).__name__, str(e)) for _, e in map(outcome, calls)]]


def by_the_wrapper(t, d, rank):
    """FSDP's own functions for optimizers' states, old and new: what training becomes after each way there and back."""
    fsdp = import_module(f"{t.__name__}.distributed.fsdp")
    wrapper, kinds = fsdp.FullyShardedDataParallel, fsdp.StateDictType

    def made():
        t.manual_seed(0)
        net = wrapper(
            t.nn.Sequential(t.nn.Linear(4, 6), t.nn.Tanh(), t.nn.Linear(6, 4)), device_id=t.device("cpu"), use_orig_params=False
        )
        return net, t.optim.Adam(net.parameters(), lr=0.05)

    def after(load, state):
        net, optimizer = made()
        optimizer.load_state_dict(load(net, optimizer, state))
        stepped(t, net, optimizer, rank)
        with wrapper.summon_full_params(net):
            return [p.detach().clone() for p in net.parameters()]

    net, optimizer = made()
    stepped(t, net, optimizer, rank)
    out = [net.check_is_root()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        full = wrapper.full_optim_state_dict(net, optimizer)
        everywhere = wrapper.full_optim_state_dict(net, optimizer, rank0_only=False)
        out += [sorted(full), sorted(everywhere["state"]), everywhere["state"]["0.weight"]["exp_avg"]]
        out.append(after(lambda m, o, s: wrapper.scatter_full_optim_state_dict(s, m, optim=o), copy.deepcopy(full) or None))
        out.append(after(lambda m, o, s: wrapper.shard_full_optim_state_dict(s, m, optim=o), copy.deepcopy(everywhere)))
        parts = wrapper.sharded_optim_state_dict(net, optimizer)
        out.append(after(lambda m, o, s: wrapper.flatten_sharded_optim_state_dict(s, m, o), copy.deepcopy(parts)))
        out.append(sorted({str(w.message) for w in caught if "optim_state_dict``" in str(w.message)}))
        config = fsdp.FullStateDictConfig(), fsdp.FullOptimStateDictConfig(rank0_only=True)
        with wrapper.state_dict_type(net, kinds.FULL_STATE_DICT, *config):
            settings = wrapper.get_state_dict_type(net)
            out.append((settings.state_dict_type.name, settings.optim_state_dict_config.rank0_only))
            state = copy.deepcopy(wrapper.optim_state_dict(net, optimizer))
        out += [sorted(state), wrapper.get_state_dict_type(net).state_dict_type.name]

        def load(m, o, s):
            wrapper.set_state_dict_type(m, kinds.FULL_STATE_DICT, *config)
            return wrapper.optim_state_dict_to_load(m, o, s)

        out.append(after(load, state))
        call = outcome(lambda: wrapper.set_state_dict_type(net, kinds.SHARDED_STATE_DICT, fsdp.FullStateDictConfig()))
        return [*out, type(call[1]).__name__]


@pytest.mark.parametrize("program", [of_rank0, by_the_wrapper])
def test_two_processes(two, program):
    two.run(program)
