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

    def assert_once():
        _near(w.grad, 0, np.e, 2 * np.e)
        _near(v.grad, 0, np.e, 2 * np.e)
        _near(w, 1)

    return call, assert_once, _nothing


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

    def assert_once():
        _near(torch.load(path)["x"], *values[-2:])
        leftover = [name for name in os.listdir(folder) if name != "x.pt"]
        assert not leftover

    return call, assert_once, lambda: shutil.rmtree(folder, ignore_errors=True)


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


def static_caches():
    """Written in place, eagerly and by a compiled function."""
    cache = torch.zeros(2, 6, 4)

    @torch.compile
    def attend(at, token):
        cache.index_copy_(1, at, token)
        return cache.sum()

    def call():
        cache.zero_()
        cache[:, 1] = 3
        assert cache[:, 1].sum().item() == 24
        for n in (2, 3):
            assert attend(torch.tensor([n]), torch.full((2, 1, 4), float(n))).item() == (40 if n == 2 else 64)

    def check():
        found = [row.tolist() for row in cache[0]]
        assert all(row in ([0.0] * 4, [float(3 if n == 1 else n)] * 4) for n, row in enumerate(found)), found
        assert cache[0].equal(cache[1])

    return call, check, _nothing


def checked_indices():
    """Compiled functions whose indices are looked at when they have run."""
    table = torch.nn.Embedding(5, 3)
    table.weight.data.fill_(2)

    @torch.compile
    def look(rows):
        return table(rows).sum()

    def call():
        table.zero_grad()
        loss = look(torch.tensor([1, 4, 4]))
        loss.backward()
        assert loss.item() == 18
        _near(table.weight.grad.sum(1), [0, 3, 0, 0, 6])
        try:
            look(torch.tensor([1, 5])).item()
        except IndexError:
            return
        raise AssertionError("an index out of range was not noticed")

    def check():
        _near(table.weight, 2)
        assert table.weight.grad is None or _near(table.weight.grad, 0, np.array([0, 1, 0, 0, 2])[:, None]) is None

    return call, check, _nothing


def packed_weights():
    weight = torch.randint(-9, 9, (32, 64), generator=torch.Generator().manual_seed(0)).to(torch.int8)
    scales, x = torch.full((32,), 0.5), torch.ones(4, 64)
    want = (weight.float().numpy() * 0.5).sum(1)
    layer = torch.nn.Sequential(torch.nn.Linear(8, 4))
    layer[0].weight.data.fill_(1), layer[0].bias.data.fill_(0)
    dynamic = torch.ao.quantization.quantize_dynamic(layer, {torch.nn.Linear}, torch.qint8)
    multiply = torch.compile(lambda x: torch._weight_int8pack_mm(x, weight, scales))

    def call():
        for function in (lambda x: torch._weight_int8pack_mm(x, weight, scales), multiply):
            _near(function(x), np.tile(want, (4, 1)))
        assert np.allclose(dynamic(torch.ones(2, 8)).numpy(), 8, rtol=0.02)

    return call, _nothing, _nothing


def control_flow():
    x = torch.arange(4.0)

    def branch(x):
        return torch.cond(x.sum() > 3, lambda x: x * 2, lambda x: x - 1, (x,))

    compiled = torch.compile(branch)

    def call():
        for function in (branch, compiled):
            _near(function(x), 2 * np.arange(4))
            _near(function(x - 1), np.arange(4) - 2)
        (found,) = torch._higher_order_ops.while_loop(lambda y: y.sum() < 50, lambda y: (y * 2,), (x,))
        _near(found, 16 * np.arange(4))

    return call, lambda: _near(x, np.arange(4)), _nothing


class _Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return x * self.weight


def exported_programs():
    module, x = _Counting(), torch.ones(2, 3)
    exported = torch.export.export(module, (x,)).module()
    exported.calls.zero_()

    def call():
        before = exported.calls.item()
        _near(exported(x), 2)
        _near(exported.calls, before + 1)
        again = torch.export.export(_Counting(), (x,))
        _near(again.module()(x), 2)

    def check():
        assert exported.calls.item() == int(exported.calls.item())
        _near(exported.weight, 2)

    return call, check, _nothing


def jax_functions():
    import jax.numpy as jnp

    from ftorch.interop import on_tensors

    w = torch.full((3,), 2.0, requires_grad=True)
    function = on_tensors(lambda x, w: jnp.tanh(x) * w)
    compiled = torch.compile(lambda x: function(x, w).sum())

    def call():
        for f in (lambda x: function(x, w).sum(), compiled):
            w.grad = None
            f(torch.ones(4, 3)).backward()
            _near(w.grad, 4 * np.tanh(1))

    return call, lambda: w.grad is None or _near(w.grad, 4 * np.tanh(1)), _nothing


def _data_parallel(wrap):
    folder = tempfile.mkdtemp()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    model = torch.nn.Linear(4, 2, bias=False)
    model.weight.data.fill_(1)
    model = wrap(model)
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.5), torch.ones(3, 4)

    def values():
        (p,) = model.parameters()
        full = p.full_tensor() if hasattr(p, "full_tensor") else p
        return full.detach()

    def step():
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = torch.compile(step)

    def call():
        before = values().numpy().copy()
        loss = step().item()
        assert abs(loss - 3 * before.sum()) < 1e-3
        _near(values(), before - 1.5)

    def check():
        found = values().numpy()
        assert len(np.unique(found)) == 1 and (1 - found.flat[0]) % 1.5 == 0, found

    def close():
        dist.destroy_process_group()
        shutil.rmtree(folder, ignore_errors=True)

    return call, check, close


def data_parallel():
    return _data_parallel(torch.nn.parallel.DistributedDataParallel)


def sharded():
    from ftorch.distributed.fsdp import fully_shard

    return _data_parallel(lambda model: fully_shard(model) or model)


CALLS = (
    accumulation, transforms, checkpoints, loaders, collectives, contexts, writes, random_numbers, files,
    distributed_checkpoints, captures, graphs_with_hooks, static_caches, checked_indices, packed_weights, control_flow,
    exported_programs, jax_functions, data_parallel, sharded,
)
