"""Remote procedure calls, references and backward over processes.

PyTorch's agent cannot be started and ended again and again within a process (references that a failed call leaves
behind block it for minutes), so PyTorch's side of a program calls the functions in its own process: values and
gradients have to be the same.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import time

import pytest
import torch as pt

from tests.distributed.pool import free_port


def _of(t, name):
    if t is pt and name in ("rpc", "autograd", "optim"):
        return Here
    return __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"])


class Here:
    """PyTorch's side: what would be another process is this one."""

    @staticmethod
    def rpc_sync(to, func, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

    @staticmethod
    def rpc_async(to, func, args=(), kwargs=None):
        future = pt.futures.Future()
        future.set_result(Here.rpc_sync(to, func, args, kwargs))
        return future

    @staticmethod
    @contextlib.contextmanager
    def context():
        yield 0

    @staticmethod
    def backward(number, roots):
        pt.autograd.backward(roots)

    @staticmethod
    def get_gradients(number):
        return _Gradients()


class _Gradients:
    def __getitem__(self, leaf):
        grad, leaf.grad = leaf.grad, None
        return grad


@contextlib.contextmanager
def started(t, d, rank, name=None, timeout=20.0):
    if t is pt:
        yield Here
        return
    rpc = _of(t, "rpc")
    box = [free_port() if rank == 0 else None]
    d.broadcast_object_list(box, 0)
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=8, rpc_timeout=timeout, init_method=f"tcp://127.0.0.1:{box[0]}"
    )
    rpc.init_rpc(name or f"worker{rank}", rank=rank, world_size=d.get_world_size(), rpc_backend_options=options)
    try:
        yield rpc
    except BaseException:
        rpc.shutdown(graceful=False)
        raise
    rpc.shutdown(timeout=30)


def _other(rank, d):
    return f"worker{(rank + 1) % d.get_world_size()}"


def add(a, b=1):
    return a + b


def whole(x):
    return {"sum": x["a"].sum(), "name": x["name"], "dtype": str(x["a"].dtype).split(".")[-1]}


def fails(x):
    raise ValueError(f"not {x}")


def calls(t, d, rank):
    with started(t, d, rank) as rpc:
        to = _other(rank, d)
        out = [rpc.rpc_sync(to, add, (t.arange(4.0) + rank,), {"b": 2})]
        futures = [rpc.rpc_async(to, add, (t.ones(3) * i, i)) for i in range(5)]
        out += [f.wait() for f in futures]
        out.append(rpc.rpc_async(to, t.mul, (t.ones(2), 3)).then(lambda f: f.wait() + 1).wait())
        found = rpc.rpc_sync(to, whole, ({"a": t.ones(2, dtype=t.float16), "name": "x"},))
        out.append(found["sum"])
        out.append(rpc.rpc_sync(rank, add, (t.zeros(()), 5)))  # to itself, by number
        out.append(rpc.rpc_sync(to, add, (t.empty(0, 3),)))
        if t is not pt:
            info, other = rpc.get_worker_info(), rpc.get_worker_info(to)
            assert (info.name, info.id) == (f"worker{rank}", rank)
            assert repr(other) == f"WorkerInfo(id={1 - rank}, name={to})"
            assert rpc.rpc_sync(other, add, (1, 2)) == 3
        return out, [found["name"], found["dtype"]]


def failures(t, d, rank):
    with started(t, d, rank) as rpc:
        to = _other(rank, d)
        for call in (rpc.rpc_sync, lambda *a: rpc.rpc_async(*a).wait(), lambda *a: rpc.remote(*a).to_here()):
            with pytest.raises(ValueError, match=rf"On WorkerInfo\(id={1 - rank}, name={to}\):\nValueError\('not 3'\)"):
                call(to, fails, (3,))
        with pytest.raises(RuntimeError, match="already initialized"):
            rpc.init_rpc("again", rank=rank, world_size=2)
        with pytest.raises(RuntimeError, match="nobody"):
            rpc.rpc_sync("nobody", add, (1,))
    with pytest.raises(RuntimeError, match="RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."):
        rpc.rpc_sync(to, add, (1,))


def slow(seconds):
    time.sleep(seconds)


def late(t, d, rank):
    from tests.oracle import outcome

    with started(t, d, rank) as rpc:
        with pytest.raises(RuntimeError, match=r"^RPCErr:1:RPC ran for more than set timeout \(200 ms\)"):
            rpc.rpc_sync(_other(rank, d), slow, (1.0,), timeout=0.2)
        found = [str(outcome(call)[1]) for call in (
            lambda: rpc.rpc_sync("nobody", slow, (0.0,)), lambda: rpc.rpc_sync(5, slow, (0.0,)),
            lambda: rpc.get_worker_info("nobody"),
        )]
        mine = f"name:{rpc.get_worker_info().name},rank:{rank} could not find destination"
        assert found == [f"{mine} name nobody", f"{mine} id 5", f"{mine} name nobody"]


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, n):
        self.value += n
        return self.value


def of_reference(rref, n):
    return rref.rpc_sync().add(n)


def doubled(rref):
    return rref.to_here() * 2


def references(t, d, rank):
    with started(t, d, rank) as rpc:
        to = _other(rank, d)
        x = rpc.remote(to, add, (t.ones(2), rank))
        assert x.to_here().tolist() == [1 + rank] * 2
        assert rpc.rpc_sync(to, doubled, (x,)).tolist() == [2 + 2 * rank] * 2
        assert rpc.rpc_sync(f"worker{rank}", doubled, (x,)).tolist() == [2 + 2 * rank] * 2
        own = rpc.RRef(t.arange(3.0))
        assert own.to_here() is own.local_value()
        assert rpc.rpc_sync(to, doubled, (own,)).tolist() == [0, 2, 4]
        counter = rpc.remote(to, Counter, (10,))
        values = [counter.rpc_sync().add(1), counter.rpc_async().add(1).wait(), counter.remote().add(1).to_here()]
        assert [*values, rpc.rpc_sync(to, of_reference, (counter, 5))] == [11, 12, 13, 18]
        assert (x.owner_name(), x.is_owner(), own.is_owner()) == (to, False, True)
        assert own.owner().id == rank and own.confirmed_by_owner()
        assert repr(own).startswith(f"OwnerRRef(GloballyUniqueId(created_on={rank}, local_id=")
        assert repr(x).startswith(f"UserRRef(RRefId = GloballyUniqueId(created_on={rank}, local_id=")
        with pytest.raises(RuntimeError, match=r"can't call localValue\(\) on user"):
            x.local_value()
        del x, counter
        gc.collect()
        for _ in range(100):  # the owner forgets what nobody refers to
            if rpc.rpc_sync(to, kept_here) <= 1:
                break
            time.sleep(0.05)
        assert rpc.rpc_sync(to, kept_here) <= 1  # its own ``own``, while this process had a fork


def kept_here():
    import ftorch.distributed.rpc.api as api

    return len(api._tables().entries)


def chained(to, x, more):
    from ftorch.distributed import rpc

    return rpc.rpc_async(to, add, (x, more)).then(lambda f: f.wait() * 2)


def _later():
    from ftorch.distributed.rpc import functions

    return functions.async_execution(chained)


later = _later()
later.__qualname__ = later.__name__ = "later"


def answers_later(t, d, rank):
    with started(t, d, rank) as rpc:
        to, here = _other(rank, d), f"worker{rank}"
        assert rpc.rpc_sync(to, later, (here, t.ones(2), 3)).tolist() == [8, 8]
        assert rpc.remote(to, later, (here, t.ones(2), 4)).to_here().tolist() == [10, 10]


def gathered(t, d, rank):
    with started(t, d, rank) as rpc:
        assert rpc.api._all_gather(rank * 10) == {"worker0": 0, "worker1": 10}


def scaled(x, w):
    return (x * w).tanh()


def back_again(name, x):
    t = __import__(name)
    rpc = _of(t, "rpc")
    to = None if t is pt else f"worker{1 - rpc.get_worker_info().id}"
    return rpc.rpc_sync(to, scaled, (x, x + 1)) * 2


def distributed_backward(t, d, rank):
    with started(t, d, rank) as rpc:
        autograd = _of(t, "autograd")
        to = _other(rank, d)
        t.manual_seed(rank)
        x, w = t.randn(3, requires_grad=True), t.randn(3, requires_grad=True)
        out = []
        with autograd.context() as number:
            y = rpc.rpc_sync(to, scaled, (x, w))
            z = rpc.rpc_sync(to, back_again, (t.__name__, y + x))
            autograd.backward(number, [(z * y).sum()])
            grads = autograd.get_gradients(number)
            out += [grads[x], grads[w]]
            assert x.grad is None
        if t is not pt:
            with pytest.raises(RuntimeError, match="Could not find autograd context"):
                autograd.get_gradients(number)
        return out


class Net:
    """A layer that lives in its owner."""

    def __init__(self):
        import ftorch

        ftorch.manual_seed(5)
        self.layer = ftorch.nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x).tanh()

    def parameters(self):
        from ftorch.distributed import rpc

        return [rpc.RRef(p) for p in self.layer.parameters()]

    def values(self):
        return [p.detach().clone() for p in self.layer.parameters()]


def _head(t):
    own = t.nn.Linear(2, 1)
    with t.no_grad():
        for p in own.parameters():
            p.fill_(0.5)
    return own


def optimized(t, d, rank):
    if t is pt:
        pt.manual_seed(5)
        layer, own, out = pt.nn.Linear(3, 2), _head(pt), []
        optimizer = pt.optim.SGD([*layer.parameters(), *own.parameters()], lr=0.1, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            loss = (own(layer(pt.ones(4, 3) * (step + 1)).tanh()) - 1).square().mean()
            loss.backward()
            optimizer.step()
            out.append(loss.detach())
        return [*out, *(p.detach() for p in (*layer.parameters(), *own.parameters()))] if rank == 0 else []
    with started(t, d, rank) as rpc:
        autograd, optim = _of(t, "autograd"), _of(t, "optim")
        if rank:
            return []
        net, own, out = rpc.remote("worker1", Net), _head(t), []
        rrefs = net.rpc_sync().parameters() + [rpc.RRef(p) for p in own.parameters()]
        optimizer = optim.DistributedOptimizer(t.optim.SGD, rrefs, lr=0.1, momentum=0.9)
        for step in range(3):
            with autograd.context() as number:
                loss = (own(net.rpc_sync().forward(t.ones(4, 3) * (step + 1))) - 1).square().mean()
                autograd.backward(number, [loss])
                optimizer.step(number)
                out.append(loss.detach())
        return [*out, *net.rpc_sync().values(), *(p.detach() for p in own.parameters())]


def remote_module(t, d, rank):
    with started(t, d, rank):
        if rank:
            return
        module = _of(t, "nn").RemoteModule("worker1/cpu", t.nn.Linear, (3, 2), {"bias": False})
        weight = module.remote_parameters()[0].to_here()
        x = t.ones(2, 3)
        t.testing.assert_close(module(x), x @ weight.t())
        t.testing.assert_close(module.forward_async(x).wait(), x @ weight.t())
        with pytest.raises(ValueError, match="Method ``parameters`` not supported for RemoteModule"):
            module.parameters()
        assert module.get_module_rref().owner_name() == "worker1"


def a_stranger_reads_nothing(t, d, rank):
    """Who does not know the token gets not one byte from the agent's port."""
    with started(t, d, rank) as rpc:
        _, host, port = rpc._get_current_rpc_agent().infos[1 - rank]
        with socket.create_connection((host, port), 5) as connection:
            connection.settimeout(5)
            connection.sendall(b"\x00" * 4096)
            try:
                assert connection.recv(1) == b""
            except ConnectionResetError:
                pass


@pytest.mark.parametrize("program", [calls, distributed_backward, optimized])
def test_values(two, program):
    two.run(program)


@pytest.mark.parametrize(
    "program", [failures, late, references, answers_later, gathered, remote_module, a_stranger_reads_nothing]
)
def test_two_processes(two, program):
    two.run(program, ["ftorch"])


def test_contexts_are_found_by_their_numbers(tmp_path):
    """What libraries import beside the public functions (`torchopt`)."""
    import ftorch
    from ftorch.distributed import autograd, rpc

    for library in (ftorch, pt):
        with pytest.raises(RuntimeError, match="^Need to initialize distributed autograd using torch"):
            library.distributed.autograd._current_context()
        assert library.distributed.rpc.api.UNSET_RPC_TIMEOUT == -1.0
        assert library.distributed.rpc.api.DEFAULT_SHUTDOWN_TIMEOUT == 0
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tmp_path / 'met'}")
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    try:
        with pytest.raises(RuntimeError, match="^Current thread doesn't have a valid autograd context. Please wrap"):
            autograd._current_context()
        with autograd.context() as number:
            found = autograd._retrieve_context(number)
            assert isinstance(found, autograd.DistAutogradContext) and found is autograd._current_context()
            assert found._context_id() == number and found._known_worker_ids() == set()
            rpc.rpc_sync("alone", ftorch.mul, (ftorch.ones(2, requires_grad=True), 3))
            assert found._known_worker_ids() == {0}
    finally:
        rpc.shutdown()
