"""Calls of many kinds that `test_interrupts` interrupts: each gives (the call, a check of what it left, what ends it)."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading

import numpy as np

import ftorch as torch
import ftorch.distributed as dist
import ftorch.distributed.checkpoint as dcp
from ftorch._dispatch.python_dispatch import state as dispatch_state
from ftorch.eager.call import op as _op
from ftorch.eager.core import jax_internals
from ftorch.eager.runtime import trace as trace_module
from ftorch.eager.sampling.generator import default_generator
from ftorch.eager.tensor import modes
from ftorch.utils.checkpoint import checkpoint


def thread_state():
    """What a call must leave as it was, in the thread and in the process."""
    trace = trace_module.threads.cpu
    locks = (trace.lock, default_generator.lock)
    return (
        modes.grad, modes.inference, len(modes.levels), modes.transforming, len(modes.differentiating), modes.autocast,
        modes.anomaly, len(modes.saved_hooks), len(modes.function_modes), modes.subclasses, len(dispatch_state.stack),
        _op.special[0], trace.captures, jax_internals.is_top_level(), _are_free(locks), str(torch.get_default_device()),
    )


def _are_free(locks):
    """Whether another thread can have locks."""
    free = []

    def look():
        for lock in locks:
            if lock.acquire(timeout=20):
                lock.release()
                free.append(lock)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return len(free) == len(locks)


def _nothing():
    pass


def _near(tensor, *values):
    found = tensor.detach().numpy()
    assert any(np.allclose(found, value, rtol=1e-5) for value in values), (found, values)


def accumulation():
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    w.grad, v.grad = torch.zeros(3), torch.zeros(3)

    def call():
        w.grad.zero_(), v.grad.zero_()
        for _ in range(2):
            (w * v).exp().sum().backward()
        _near(w.grad, 2 * np.e)
        _near(v.grad, 2 * np.e)

    def check():
        _near(w.grad, 0, np.e, 2 * np.e)
        _near(v.grad, 0, np.e, 2 * np.e)
        _near(w, 1)

    return call, check, _nothing


def transforms():
    x = torch.arange(6.0).reshape(2, 3)

    def call():
        _near(torch.vmap(torch.func.grad(lambda v: (v**2).sum()))(x), 2 * np.arange(6).reshape(2, 3))
        _near(torch.func.jvp(torch.sin, (x,), (torch.ones(2, 3),))[1], np.cos(np.arange(6).reshape(2, 3)))
        _near(torch.func.hessian(lambda v: (v**3).sum())(x[0]), np.diag(6.0 * np.arange(3)))

    return call, lambda: _near(x, np.arange(6).reshape(2, 3)), _nothing


def checkpoints():
    w = torch.ones(4, requires_grad=True)

    def call():
        for reentrant in (False, True):
            w.grad = None
            checkpoint(
                lambda v: torch.nn.functional.dropout((v * 2).exp(), 0.0).sum(), w, use_reentrant=reentrant
            ).backward()
            _near(w.grad, 2 * np.exp(2))

    return call, lambda: w.grad is None or _near(w.grad, 2 * np.exp(2)), _nothing


def loaders():
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    loader = torch.utils.data.DataLoader(data, batch_size=3, shuffle=True)

    def call():
        assert sorted(v for x, _ in loader for v in x.tolist()) == list(range(8))

    return call, _nothing, _nothing


def collectives():
    folder = tempfile.mkdtemp()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)

    def call():
        x = torch.ones(5)
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        out = [torch.zeros(5)]
        dist.all_gather(out, x * 2)
        dist.barrier()
        _near(out[0], 2)

    def close():
        dist.destroy_process_group()
        shutil.rmtree(folder, ignore_errors=True)

    return call, _nothing, close


class _Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class _DispatchMode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def contexts():
    x = torch.ones(3, requires_grad=True)

    def call():
        for context in (
            torch.no_grad(),
            torch.enable_grad(),
            torch.inference_mode(),
            torch.autocast("cpu"),
            torch.device("cpu"),
            torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
            torch.autograd.graph.save_on_cpu(),
            _Mode(),
            _DispatchMode(),
        ):
            with context:
                (x * 2).sum()

    return call, _nothing, _nothing


def writes():
    x = torch.zeros(4, 5)
    row = np.zeros((4, 5))

    def call():
        x.zero_()
        x[1] = 3
        x[:, 2].add_(1)
        x[torch.tensor([0, 3])] = 7
        _near(x[0], 7)

    states = [row.copy()]
    for change in (lambda: row.__setitem__(1, 3), lambda: row.__setitem__((slice(None), 2), row[:, 2] + 1),
                   lambda: row.__setitem__([0, 3], 7)):
        change()
        states.append(row.copy())
    return call, lambda: _near(x, *states), _nothing


def random_numbers():
    generator = torch.Generator()

    def draw():
        generator.manual_seed(3)
        return [torch.randn(n, generator=generator).tolist() for n in (3, 20)] + [
            torch.randperm(9, generator=generator).tolist()
        ]

    want = draw()

    def call():
        assert draw() == want

    return call, _nothing, _nothing


def files():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "x.pt")
    values = [0]
    torch.save({"x": torch.full((3,), 0.0)}, path)

    def call():
        values.append(values[-1] + 1)
        torch.save({"x": torch.full((3,), float(values[-1]))}, path)
        _near(torch.load(path)["x"], values[-1])

    def check():
        _near(torch.load(path)["x"], *values[-2:])
        leftover = [name for name in os.listdir(folder) if name != "x.pt"]
        assert not leftover

    return call, check, lambda: shutil.rmtree(folder, ignore_errors=True)


def distributed_checkpoints():
    folder = tempfile.mkdtemp()
    state = {"x": torch.zeros(3)}

    def call():
        state["x"] += 1
        dcp.save(state, checkpoint_id=folder)
        found = {"x": torch.zeros(3)}
        dcp.load(found, checkpoint_id=folder)
        _near(found["x"], state["x"].numpy())

    return call, lambda: state["x"].sum().item(), lambda: shutil.rmtree(folder, ignore_errors=True)


def captures():
    buffer = torch.zeros(3)

    def call():
        buffer.zero_()
        f = torch.compile(lambda x: (buffer.add_(x), (x * 2).sum())[1])
        assert f(torch.ones(3)).item() == 6
        assert f(torch.ones(3)).item() == 6
        _near(buffer, 2)

    return call, lambda: _near(buffer, 0, 1, 2), _nothing


def graphs_with_hooks():
    w = torch.ones(3, requires_grad=True)
    calls = []

    def call():
        calls.clear()
        w.grad = None
        y = w * 2
        handle = y.register_hook(lambda g: (calls.append(1), g * 3)[1])
        y.retain_grad()
        y.sum().backward()
        handle.remove()
        _near(w.grad, 6)
        assert calls == [1]

    return call, lambda: w.grad is None or _near(w.grad, 6), _nothing


CALLS = (
    accumulation, transforms, checkpoints, loaders, collectives, contexts, writes, random_numbers, files,
    distributed_checkpoints, captures, graphs_with_hooks,
)
