"""`fully_shard` in two processes: what becomes of parameters, gradients and states that are not the usual ones."""

from __future__ import annotations

import pytest


def parts(t):
    names = "fsdp", "tensor", "checkpoint.state_dict"
    return [__import__(f"{t.__name__}.distributed.{name}", fromlist=["x"]) for name in names]


def whole(x):
    return None if x is None else x.full_tensor().detach()


def unused(t, d, rank):
    """A parameter that a loss does not reach has no gradient, unless asked for: then it is that of the others."""
    fsdp, *_ = parts(t)

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = t.nn.Linear(2, 3), t.nn.Linear(2, 3)

        def forward(self, x, second=False):
            return self.b(x) if second else self.a(x)

    t.manual_seed(0)
    net = fsdp.fully_shard(Net())
    optimizer = t.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.5)
    net(t.ones(1, 2) * (rank + 1)).sum().backward()
    optimizer.step()
    out = [whole(p.grad) for p in net.parameters()] + [whole(p) for p in net.parameters()]
    net.zero_grad()
    net.set_reduce_scatter_unused_params(True)
    net(t.ones(1, 2), second=rank == 1).sum().backward()
    return out + [whole(p.grad) for p in net.parameters()]


def states(t, d, rank):
    """A state has the parts, whatever the module has at the moment."""
    fsdp, *_ = parts(t)
    t.manual_seed(0)
    net = t.nn.Sequential(t.nn.Linear(4, 3), t.nn.Linear(3, 2))
    fsdp.fully_shard(net[0])
    fsdp.fully_shard(net)
    net.unshard()
    net[0].unshard()
    shapes = [tuple(p.shape) for p in net.parameters()]
    state = net.state_dict()
    net[0].unshard()
    net.load_state_dict({k: v * 2 for k, v in state.items()})
    y = net(t.ones(1, 4))
    return shapes, [(k, v.placements, whole(v)) for k, v in state.items()], y.detach()


def begun_on_meta(t, d, rank):
    fsdp, _, sd = parts(t)
    with t.device("meta"):
        net = t.nn.Sequential(t.nn.Linear(4, 3), t.nn.BatchNorm1d(3))
        given, other = t.nn.Linear(3, 2), t.nn.Linear(3, 2)
    for m in (net[0], net, given, other):
        fsdp.fully_shard(m)
    out = [net[0].weight.device.type]
    net.to_empty(device="cpu")
    with t.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    net[1].reset_running_stats()
    out += [(p.device.type, p.is_meta, p.dtype, p.to_local().device.type) for p in net.parameters()]
    out.append(net(t.eye(2, 4)).detach())
    state = {"weight": t.arange(6.0).view(2, 3), "bias": t.ones(2)} if rank == 0 else {}
    sd.set_model_state_dict(given, state, options=sd.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    given(t.ones(1, 3)).sum().backward()
    out += [(whole(p), whole(p.grad)) for p in given.parameters()]
    other.load_state_dict(given.state_dict(), assign=True)
    optimizer = t.optim.SGD(other.parameters(), lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        other(t.ones(1, 3) * (rank + 1)).sum().backward()
        optimizer.step()
    return out + [(whole(p), whole(p.grad)) for p in other.parameters()]


def converted(t, d, rank):
    fsdp, *_ = parts(t)
    dtypes = []
    for to in (t.float64, t.bfloat16):
        net = fsdp.fully_shard(t.nn.Linear(4, 4))
        net.to(to)
        net(t.ones(1, 4, dtype=to)).sum().backward()
        net.reshard()
        dtypes += [net.weight.dtype, net.weight.to_local().dtype, net.weight.grad.dtype]
    return [str(x).rpartition(".")[2] for x in dtypes]


def own_exchanges(t, d, rank):
    """Gathers and reductions of the caller's, and a hook for what was reduced."""
    fsdp, *_ = parts(t)
    calls = []

    class Gather:
        def allocate(self, size, *, dtype, device):
            calls.append("gather")
            return t.empty(*size, dtype=dtype, device=device)

        def __call__(self, output_tensor, input_tensor, group, async_op=False):
            return d.all_gather_single(output_tensor, input_tensor, group=group, async_op=async_op)

    class Reduce(Gather):
        def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
            return d.reduce_scatter_single(output_tensor, input_tensor, op=op, group=group, async_op=async_op)

    t.manual_seed(0)
    net = fsdp.fully_shard(t.nn.Linear(4, 4))
    net.set_custom_all_gather(Gather())
    net.set_custom_reduce_scatter(Reduce())
    net.set_all_reduce_hook(lambda grads: grads.mul_(3))
    y = net(t.ones(1, 4) * (rank + 1))
    y.sum().backward()
    for setting in ("unshard_in_backward", "force_sum_reduction_for_comms", "is_last_backward"):
        getattr(net, f"set_{setting}")(True)
    return y.detach(), [whole(p.grad) for p in net.parameters()], calls.count("gather") > 1


def after_an_error(t, d, rank):
    """A forward that fails leaves whole parameters; the next iteration runs when that is told."""
    fsdp, *_ = parts(t)

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.fails = fsdp.fully_shard(t.nn.Linear(2, 2)), True

        def forward(self, x):
            x = self.a(x)
            if self.fails:
                raise KeyError("own")
            return x

    t.manual_seed(0)
    net = fsdp.fully_shard(Net())
    with pytest.raises(KeyError):
        net(t.ones(1, 2))
    net.reset_iter_state()
    net.fails = False
    net(t.ones(1, 2)).sum().backward()
    return [(type(p).__name__, whole(p.grad)) for p in net.parameters()]


def on_a_larger_mesh(t, d, rank):
    """Parameters that lie on a mesh already, of which some dimensions divide data."""
    fsdp, tensor, _ = parts(t)
    out = []
    for shape in ((1, 2), (2, 1)):
        mesh = d.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))

        class Net(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.w = t.nn.Linear(4, 6), t.nn.Parameter(t.randn(2, 6))

            def forward(self, x):
                return self.a(x) @ (self.w * 2).t() + self.w.sum()

        def divided(name, module, mesh):
            for key, p in list(module.named_parameters(recurse=False)):
                placed = [tensor.Replicate(), tensor.Shard(0) if key != "w" else tensor.Shard(1)]
                module.register_parameter(key, t.nn.Parameter(tensor.distribute_tensor(p, mesh, placed)))

        t.manual_seed(0)
        net = tensor.distribute_module(Net(), mesh, divided)
        fsdp.fully_shard(net, mesh=mesh, dp_mesh_dims=fsdp.DataParallelMeshDims(shard="dp"))
        out.append([(p.device_mesh.shape, tuple(p.to_local().shape)) for p in net.parameters()])
        for data in (tensor.Replicate(), tensor.Shard(0)):
            x = tensor.distribute_tensor(t.arange(8.0).view(2, 4), mesh, [data, tensor.Replicate()])
            loss = net(x).square().mean()
            loss.backward()
            out.append((whole(loss), [whole(p.grad) for p in net.parameters()]))
            net.zero_grad()
    return out


def refused(t, d, rank):
    import copy

    from tests.oracle import outcome

    fsdp, tensor, _ = parts(t)
    line, mesh = t.nn.Linear, d.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    net = fsdp.fully_shard(line(2, 2))
    dims = fsdp.DataParallelMeshDims
    calls = (
        lambda: fsdp.fully_shard(net), lambda: copy.deepcopy(net), dims, lambda: dims(shard="dp").shard_names,
        lambda: dims(replicate=("a", "b")).replicate_names,
        lambda: fsdp.fully_shard(line(2, 2), reshard_after_forward=3),
        lambda: fsdp.fully_shard(line(2, 2), reshard_after_forward="x"),
        lambda: fsdp.fully_shard(line(2, 2), mesh=mesh, dp_mesh_dims=dims(shard="x")),
        lambda: fsdp.fully_shard(line(2, 2), mesh=mesh, dp_mesh_dims=dims(shard="dp")),
        lambda: fsdp.fully_shard(line(2, 2), mesh=d.init_device_mesh("cpu", (2,)), dp_mesh_dims=dims(shard="dp")),
        lambda: fsdp.share_comm_ctx([]), lambda: fsdp.share_comm_ctx([net]), lambda: fsdp.share_comm_ctx([line(2, 2)]),
    )
    return [(value, type(e).__name__, str(e)) for value, e in map(outcome, calls)]


def _attributes(t, seen):
    """What a part needs to say what is gathered of it: halves of its numbers, in bfloat16."""
    def before(self, mesh, outer_size, outer_stride, module, mp_policy):
        own = self._data if hasattr(self, "_data") else self
        seen.append((mesh.ndim, tuple(outer_size), tuple(outer_stride), type(module).__name__, type(mp_policy).__name__))
        return (own.to(t.bfloat16), (own * 2).to(t.bfloat16)), len(seen)

    def behind(self, outputs, metadata, dtype, *, out=None):
        first, second = outputs
        seen.append((metadata > 0, [tuple(x.shape) for x in outputs], str(first.dtype)[-8:], str(dtype)[-7:]))
        if out is None:
            whole = (first + second).to(dtype)
            return whole, (first, second, whole)
        with t.autograd.grad_mode._unsafe_preserve_version_counter(out):
            out.copy_(first + second)

    return before, t.no_grad()(behind)


def own_gathers(t, d, rank):
    """Parts that say themselves what is gathered: a tensor with these attributes, and a subclass that has them."""
    fsdp, *_ = parts(t)
    seen, out = [], []
    before, behind = _attributes(t, seen)

    class Part(t.Tensor):
        fsdp_pre_all_gather, fsdp_post_all_gather = before, behind

        @staticmethod
        def __new__(cls, data):
            return t.Tensor._make_wrapper_subclass(cls, data.shape, strides=data.stride(), dtype=data.dtype)

        def __init__(self, data):
            self._data = data

        def __tensor_flatten__(self):
            return ["_data"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Part(inner["_data"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            open_ = lambda tree: t.utils._pytree.tree_map_only(Part, lambda x: x._data, tree)  # noqa: E731
            return t.utils._pytree.tree_map_only(t.Tensor, Part, func(*open_(args), **open_(kwargs or {})))

    for kind in ("subclass", "attributes"):
        for again in (True, False):
            t.manual_seed(0)
            net = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.ReLU(), t.nn.Linear(4, 2))
            if kind == "subclass":
                net[0].weight = t.nn.Parameter(Part(net[0].weight.detach()))
            for layer in (net[0], net[2]):
                fsdp.fully_shard(layer, reshard_after_forward=again)
            fsdp.fully_shard(net)
            if kind == "attributes":
                local = net[0].weight._local_tensor
                local.fsdp_pre_all_gather, local.fsdp_post_all_gather = before.__get__(local), behind.__get__(local)
            optimizer = t.optim.SGD(net.parameters(), lr=0.25)
            for step in range(3):
                loss = net(t.arange(8.0).view(2, 4) * (rank + 1) / 8).square().sum()
                loss.backward()
                grad = net[0].weight.grad
                out += [loss.detach(), whole(grad), whole(net[2].weight.grad)]
                optimizer.step()
                optimizer.zero_grad()
    return out, seen


PROGRAMS = [
    own_gathers,
    unused, states, begun_on_meta, converted, own_exchanges, after_an_error, on_a_larger_mesh, refused,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_processes(two, program):
    two.run(program)
