"""Collectives in captured functions: nodes of their graphs, steps of their programs."""

import importlib

import pytest

from .pool import Pool

FUNCTIONS = {}


def _function(f):
    FUNCTIONS[f.__name__] = f
    return f


def _functional(t):
    return importlib.import_module(f"{t.__name__}.distributed._functional_collectives")


@_function
def reduced(t, d, functional, x):
    return functional.all_reduce(x * 2, "sum", d.group.WORLD) + 1


@_function
def reduced_in_place(t, d, functional, x):
    y = x * 2
    d.all_reduce(y, d.ReduceOp.MAX)
    return y + 1


@_function
def gathered_into(t, d, functional, x):
    out = t.zeros(4, 3)
    d.all_gather_into_tensor(out, x)
    return out.sum(0)


@_function
def gathered(t, d, functional, x):
    parts = [t.zeros(2, 3), t.zeros(2, 3)]
    d.all_gather(parts, x)
    return parts[0] - 2 * parts[1]


@_function
def gathered_along_columns(t, d, functional, x):
    return functional.all_gather_tensor(x, 1, d.group.WORLD) * 3


@_function
def scattered(t, d, functional, x):
    return functional.reduce_scatter_tensor(x, "avg", 0, d.group.WORLD).sum()


@_function
def scattered_into(t, d, functional, x):
    out = t.zeros(1, 3)
    d.reduce_scatter_tensor(out, x * 2)
    return out


@_function
def exchanged(t, d, functional, x):
    return functional.all_to_all_single(x, [1, 1], [1, 1], d.group.WORLD) * 2


@_function
def several(t, d, functional, x):
    a, b = x * 2, x + 1
    d.all_reduce(a)
    d.all_reduce(b, d.ReduceOp.MIN)
    return a - b + d.get_rank() * d.get_world_size()


def graphs(t, d, rank):
    x, found, functional = t.arange(6.0).reshape(2, 3) + rank, [], _functional(t)
    for f in FUNCTIONS.values():
        nodes = []

        def backend(module, examples):
            nodes.append(
                [(n.op, getattr(n.target, "__name__", str(n.target))) for n in module.graph.nodes]
            )
            return module.forward

        t._dynamo.reset()
        compiled = t.compile(lambda x, f=f: f(t, d, functional, x), backend=backend, fullgraph=True)
        found += [*(compiled(x + i) for i in range(3)), nodes]
    return found


def programs(t, d, rank):
    x, found, functional = t.arange(6.0).reshape(2, 3) + rank, [], _functional(t)
    for f in FUNCTIONS.values():

        def run(x, f=f):
            return f(t, d, functional, x)

        if t.__name__ == "ftorch":
            run = t.compile(run, fullgraph=True)
        found += [run(x + i) + 0 for i in range(3)]
    return found


def ordered(t, d, rank):
    """Ranks that use other results of the same collectives: all are made, in their order."""

    def f(x):
        first, second = x * 2, x + 1
        d.all_reduce(second)
        d.all_reduce(first, d.ReduceOp.MAX)
        d.all_gather([t.zeros(2), t.zeros(2)], x)
        return second if rank else x - 1

    run = t.compile(f, fullgraph=True) if t.__name__ == "ftorch" else f
    return [run(t.ones(2) * i + rank) for i in range(4)]


def derived(t, d, rank):
    functional = _functional(t)

    def f(x):
        gather, scatter = (
            functional.all_gather_tensor_autograd,
            functional.reduce_scatter_tensor_autograd,
        )
        y = gather(x, 1, d.group.WORLD)
        return scatter(y.tanh(), "sum", 1, d.group.WORLD) * 2

    run, found = t.compile(f, fullgraph=True) if t.__name__ == "ftorch" else f, []
    for i in range(3):
        x = (t.arange(6.0).reshape(2, 3) / (i + rank + 1)).requires_grad_()
        y = run(x)
        y.square().sum().backward()
        found += [y, x.grad]
    return found


def in_python(t, d, rank):
    """What no program holds runs in Python, each time."""

    def f(x):
        y = x + rank
        d.broadcast(y, 1)
        work = d.all_reduce(x, async_op=True)
        work.wait()
        d.barrier()
        return y * 2 + x

    run = t.compile(f) if t.__name__ == "ftorch" else f
    return [run(t.ones(2) * i) for i in range(4)]


def refused(t, d, rank):
    kind = t._dynamo.exc.Unsupported
    for f in (lambda x: d.broadcast(x, 0), lambda x: d.all_reduce(x, async_op=True)):
        t._dynamo.reset()
        with pytest.raises(kind):
            t.compile(f, backend="eager", fullgraph=True)(t.ones(2))


def trained(t, d, rank):
    """`DistributedDataParallel` inside functions that are whole programs."""
    found = []
    for where in ("forward", "backward", "step"):
        t.manual_seed(0)
        module = t.nn.Sequential(
            t.nn.Linear(4, 5), t.nn.BatchNorm1d(5), t.nn.ReLU(), t.nn.Linear(5, 2)
        )
        model = t.nn.parallel.DistributedDataParallel(module)
        optimizer = t.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        def loss(x, model=model):
            return model(x).square().mean()

        def reached(x, loss=loss):
            out = loss(x)
            out.backward()
            return out.detach()

        def step(x, reached=reached, optimizer=optimizer):
            optimizer.zero_grad()
            out = reached(x)
            optimizer.step()
            return out

        f = {"forward": loss, "backward": reached, "step": step}[where]
        if t.__name__ == "ftorch":
            f = t.compile(f, fullgraph=True)
        t.manual_seed(rank)
        for _ in range(6):
            x = t.randn(8, 4)
            if where != "step":
                optimizer.zero_grad()
            out = f(x)
            if where == "forward":
                out.backward()
            if where != "step":
                optimizer.step()
            found.append(out.detach())
        found += [*model.parameters(), *model.buffers()]
    return [v.detach().clone() for v in found]


def statistics_after_evaluation(t, d, rank):
    """Buffers are the first process' again after calls without gradients."""
    t.manual_seed(0)
    module = t.nn.Sequential(t.nn.BatchNorm1d(3), t.nn.Linear(3, 2))
    model, found = t.nn.parallel.DistributedDataParallel(module), []

    def step(x):
        model(x).square().mean().backward()

    run = t.compile(step) if t.__name__ == "ftorch" else step
    t.manual_seed(rank)
    for i in range(8):
        x = t.randn(4, 3)
        if i == 3:
            with t.no_grad():
                model(x)
        else:
            run(x)
        found += [b.clone() for b in model.buffers()]
    return found


def different_parameters(t, d, rank):
    """Processes that use other parameters get the same averages (where PyTorch is told to look for those that are unused)."""
    class Either(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = t.nn.Linear(2, 2), t.nn.Linear(2, 2)

        def forward(self, x):
            return self.second(x) if rank else self.first(x)

    model = t.nn.parallel.DistributedDataParallel(Either(), find_unused_parameters=t.__name__ != "ftorch")

    def step(x):
        model(x).sum().backward()

    run = t.compile(step) if t.__name__ == "ftorch" else step
    for _ in range(3):
        model.zero_grad()
        run(t.ones(1, 2) * (rank + 1))
    return [p.grad for p in model.parameters()]


def some_in_python(t, d, rank):
    """One process runs in Python what the other has a program for: both exchange the same buckets."""
    t.manual_seed(0)
    module = t.nn.Sequential(*[t.nn.Linear(4, 4, bias=False) for _ in range(5)])
    model = t.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=100 / (1 << 20))
    optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def loss(x):
        return model(x).square().mean()

    run, found = t.compile(loss) if t.__name__ == "ftorch" else loss, []
    for i in range(8):
        optimizer.zero_grad()
        value = (loss if i in (3, 4, 6) and rank == i % 2 else run)((t.arange(8.0).view(2, 4) + i) / 10 * (rank + 1))
        value.backward()
        optimizer.step()
        found.append(value.detach())
    return found + [p.detach().clone() for p in model.parameters()]


def whole_buckets_unused(t, d, rank):
    """One process uses nothing of some buckets; what the other exchanges of them it exchanges, too, in the same order."""
    class Towers(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.towers = t.nn.ModuleList(t.nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            used = (self.towers, self.towers[1:2], self.towers[3:], self.towers[:1])
            for tower in used[self.step] if rank else (self.towers if self.step != 3 else self.towers[2:]):
                x = tower(x).tanh()
            return x, {"last": x * 2, "many": self.step}

    t.manual_seed(0)
    unused = {} if t.__name__ == "ftorch" else {"find_unused_parameters": True}
    model, found = t.nn.parallel.DistributedDataParallel(Towers(), bucket_cap_mb=1e-4, **unused), []

    def step(x):
        out, more = model(x)
        (out + more["last"]).square().sum().backward()

    run = t.compile(step, fullgraph=True) if t.__name__ == "ftorch" else step
    for model.module.step in (0, 1, 2, 3):
        for i in range(3):
            model.zero_grad()
            run(t.ones(2, 8) * (rank + i))
            found += [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]
    return [t.zeros(()) if g is None or not g.any() else g for g in found]


def left_without_averaging(t, d, rank):
    """A program that averages does not run within `no_sync`, nor on what it has left."""
    t.manual_seed(0)
    model, found = t.nn.parallel.DistributedDataParallel(t.nn.Linear(3, 2)), []

    def run(x):
        return model(x).square().sum()

    if t.__name__ == "ftorch":
        run = t.compile(run)
    x = t.ones(2, 3) * (rank + 1)
    for silent in (False, False, True, False, False, True, False):
        if (
            silent or not found or not found[-1][1]
        ):  # else what was left is averaged with what comes
            model.zero_grad()
        if silent:
            with model.no_sync():
                run(x).backward()
        else:
            run(x).backward()
        found.append((model.module.weight.grad.clone(), silent))
    return [g for g, _ in found]


def of_other_sizes(t, d, rank):
    """What does not fit is refused, and written nowhere."""
    refused = (
        lambda x, y: d.reduce_scatter_tensor(y, x),
        lambda x, y: d.all_gather([y], x),
        lambda x, y: d.all_gather_into_tensor(y, x),
        lambda x, y: d.all_to_all_single(y, x, [1, 2], [1, 1]),
        lambda x, y: d.all_to_all_single(y[:1], x),
    )
    for f in refused:
        run, y = t.compile(f) if t.__name__ == "ftorch" else f, t.zeros(2, 3)
        with pytest.raises((RuntimeError, ValueError)):
            run(t.ones(2, 3), y)
        assert not y.any()


def failing(t, d, rank):
    """A collective that fails is not made again: other processes would take it for their next."""
    functional, made = _functional(t), []

    def f(x):
        y = x.clone()
        d.all_reduce(y, d.ReduceOp.AVG)  # of integers
        return y

    if t.__name__ == "ftorch":
        collective = functional._all_reduce
        functional._all_reduce = lambda *args: made.append(1) or collective(*args)
        f = t.compile(f, fullgraph=True)
    for i in range(2):
        with pytest.raises(RuntimeError):
            f(t.arange(4))
        assert t.__name__ != "ftorch" or len(made) == i + 1
    if t.__name__ == "ftorch":
        functional._all_reduce = collective


def errors_of_their_own(t, d, rank):
    """What a collective raises in a program is what it raises outside of one."""
    functional = _functional(t)

    def f(x):
        return functional.all_reduce(x, "sum", d.group.WORLD)

    class Mine(LookupError):
        pass

    if t.__name__ == "ftorch":
        collective = functional._all_reduce

        def failing(*args):
            raise Mine("mine")

        run, functional._all_reduce = t.compile(f, fullgraph=True), failing
        try:
            for _ in range(3):
                with pytest.raises(Mine, match="^mine$"):
                    run(t.ones(3))
        finally:
            functional._all_reduce = collective


def without_memory(t, d, rank):
    """A program that exchanges is not run again where memory did not suffice: the others would take it for their next."""
    if t.__name__ != "ftorch":
        return
    from ftorch.jit.capture.lowering import JaxRuntimeError, Lowered

    functional, runs, jitted = _functional(t), [], Lowered.jitted
    exchanges = t.compile(lambda x: functional.all_reduce(x, "sum", d.group.WORLD), fullgraph=True)
    exchanges(t.ones(3))

    def fails(*operands):
        runs.append(1)
        raise JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")

    Lowered.jitted = lambda self: fails
    try:
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            exchanges(t.ones(3))
    finally:
        Lowered.jitted = jitted
    assert len(runs) == 1


@pytest.fixture(scope="module")
def own():
    """Two processes that nothing else ran in: with saved-tensor hooks or modes left on, compiled functions run in Python."""
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.mark.parametrize(
    "program",
    (
        whole_buckets_unused, some_in_python, errors_of_their_own, without_memory,
        graphs, programs, ordered, derived, in_python, refused, trained, left_without_averaging,
        statistics_after_evaluation, different_parameters, of_other_sizes, failing,
    ),
)
def test_as_pytorch(own, program):
    own.run(program)
