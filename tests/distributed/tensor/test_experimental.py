"""Functions on local parts, context parallelism, divided activations, counted collectives."""

from __future__ import annotations

import pytest
import torch as pt


def _of(t, name):
    return __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"])


def mapped(t, d, rank):
    n, experimental = _of(t, "tensor"), _of(t, "tensor.experimental")
    mesh = d.init_device_mesh("cpu", (d.get_world_size(),))
    row, column, whole = [n.Shard(0)], [n.Shard(1)], [n.Replicate()]
    a = n.distribute_tensor(t.arange(24.0).view(4, 6), mesh, column).requires_grad_()
    b = n.distribute_tensor(t.arange(18.0).view(6, 3), mesh, row).requires_grad_()
    product = experimental.local_map(
        lambda x, y: x @ y, out_placements=[n.Partial()], in_placements=(column, row), device_mesh=mesh
    )
    y = product(a, b)
    y.redistribute(placements=whole).sum().backward()
    moved = experimental.local_map(
        lambda x, k: (x * k, k), out_placements=(row, None), in_placements=(row, None), redistribute_inputs=True
    )
    z, three = moved(a.detach(), 3)
    assert three == 3
    return [y.full_tensor(), a.grad.full_tensor(), b.grad.full_tensor(), z.to_local(), z.full_tensor()]


def mapped_refuses(t, d, rank):
    n, experimental = _of(t, "tensor"), _of(t, "tensor.experimental")
    mesh = d.init_device_mesh("cpu", (d.get_world_size(),))
    x = n.distribute_tensor(t.ones(4), mesh, [n.Replicate()])
    try:
        experimental.local_map(lambda x: x, [n.Shard(0)], ([n.Shard(0)],))(x)
    except ValueError as error:
        assert "mismatched placements" in str(error)
    return experimental.local_map(lambda x: (x, x), ([n.Shard(0)],))(x)


def implicit(t, d, rank):
    n, experimental = _of(t, "tensor"), _of(t, "tensor.experimental")
    mesh = d.init_device_mesh("cpu", (d.get_world_size(),))
    x = n.distribute_tensor(t.arange(8.0).view(4, 2), mesh, [n.Shard(0)])
    with experimental.implicit_replication():
        y = x + t.arange(8.0).view(4, 2)
    return [y.full_tensor()]


def registered(t, d, rank):
    n, experimental = _of(t, "tensor"), _of(t, "tensor.experimental")
    mesh = d.init_device_mesh("cpu", (d.get_world_size(),))

    @experimental.register_sharding(t.ops.aten.i0.default)
    def rule(x):
        return [([n.Shard(0)], [n.Shard(0)]), ([n.Replicate()], [n.Replicate()])]

    out = []
    for placed in (n.Shard(0), n.Shard(1), n.Replicate()):
        y = t.special.i0(n.distribute_tensor(t.arange(8.0).view(4, 2), mesh, [placed])) if (
            t.__name__ == "ftorch"
        ) else t.i0(n.distribute_tensor(t.arange(8.0).view(4, 2), mesh, [placed]))
        out.append(y.full_tensor())
        if not placed.is_shard(1):
            out.append(y.to_local())
    return out


def divided_activations(t, d, rank):
    """The gradients of the undivided model; PyTorch's own mixes up activations that are divided already."""
    parallel = _of(t, "tensor.parallel")
    reshard = _of(t, "tensor.parallel.input_reshard").input_reshard
    mesh = d.init_device_mesh("cpu", (d.get_world_size(),))

    def trained(t, change):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.ReLU(), t.nn.Linear(16, 8), t.nn.Tanh())
        model = change(model)
        x = (t.arange(32.0).view(4, 8) / 32).requires_grad_()
        model(x).square().sum().backward()
        return x.grad, model

    def divided(model):
        plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
        return reshard(parallel.parallelize_module(model, mesh, plan), mesh, 0)

    (a, model), (b, wanted) = trained(t, divided), trained(pt, lambda m: m)
    pt.testing.assert_close(pt.tensor(a.numpy()), b)
    for p, q in zip(model.parameters(), wanted.parameters()):
        pt.testing.assert_close(pt.tensor(p.grad.full_tensor().numpy()), q.grad)


def plain_parameters(t, d, rank):
    parallel = _of(t, "tensor.parallel")
    ddp = _of(t, "tensor.parallel.ddp")
    mesh = d.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.ReLU(), t.nn.Linear(16, 8))
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    parallel.parallelize_module(model, mesh["tp"], plan)
    ddp._pre_dp_module_transform(model)
    wrapped = t.nn.parallel.DistributedDataParallel(model, process_group=mesh.get_group("dp"))
    parameters = list(wrapped.parameters())  # PyTorch's loses sight of them in the first forward
    optimizer = t.optim.SGD(parameters, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        x = t.ones(2, 8) * (mesh.get_local_rank("dp") + step + 1) / 4
        wrapped(x).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in parameters]


def counted(t, d, rank):
    n, parallel, debug = _of(t, "tensor"), _of(t, "tensor.parallel"), _of(t, "tensor.debug")
    mesh = d.init_device_mesh("cpu", (d.get_world_size(),))
    model = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.ReLU(), t.nn.Linear(16, 8))
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    parallel.parallelize_module(model, mesh, plan)
    with debug.CommDebugMode() as mode:
        model(t.ones(4, 8)).sum().backward()
        x = n.distribute_tensor(t.ones(4, 8), mesh, [n.Shard(0)], src_data_rank=None)
        x.redistribute(placements=[n.Replicate()])
        d.all_reduce(t.ones(3))
    counts = {str(k): v for k, v in mode.get_comm_counts().items()}
    if t.__name__ == "ftorch":  # PyTorch also counts for the module what follows its call
        module = {str(k): v for k, v in mode.comm_module_counts["Sequential"]["forward"].items()}
        assert module == {"c10d_functional.all_reduce": 1}
        assert "FORWARD PASS" in mode.generate_comm_debug_tracing_table()
    return sorted(counts.items()), mode.get_total_counts(), repr(mode.get_sharding_info())


@pytest.mark.parametrize(
    "program", [mapped, mapped_refuses, implicit, registered, counted]
)
def test_two_processes(two, program):
    two.run(program)


def test_tensor_parallel_within_data_parallel(four):
    four.run(plain_parameters)


def _sequences(t):
    t.manual_seed(0)
    return [t.randn(2, 2, 16, 8) for _ in range(4)]


def attention(t, d, rank):
    """PyTorch has no ring attention on the CPU: the whole sequence on one process is what it must equal."""
    experimental, around = _of(t, "tensor.experimental"), _of(t, "tensor.experimental._attention")
    mesh = d.init_device_mesh("cpu", (d.get_world_size(),))
    for causal in (False, True):
        q, k, v, g = _sequences(pt)
        for x in (q, k, v):
            x.requires_grad_()
        wanted = pt.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        wanted.backward(g)
        for method in ("allgather", "alltoall"):
            around.set_rotate_method(method)
            whole = _sequences(t)
            mine = [x.clone() for x in whole]
            with experimental.context_parallel(
                mesh, buffers=mine, buffer_seq_dims=[2] * 4, no_restore_buffers={mine[3]}
            ):
                leaves = [x.clone().requires_grad_() for x in mine[:3]]
                assert leaves[0].shape[2] * d.get_world_size() == 16
                out = t.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
                out.backward(mine[3].clone())
            assert mine[0].shape[2] == 16 and mine[3].shape[2] < 16
            parts = [out.detach(), *(x.grad for x in leaves)]
            found = around.context_parallel_unshard(mesh, parts, [2] * 4)
            for a, b in zip(found, (wanted, q.grad, k.grad, v.grad)):
                pt.testing.assert_close(pt.tensor(a.numpy()), b.detach(), atol=1e-5, rtol=1e-4)
            assert t.equal(mine[0], whole[0])
    around.set_rotate_method("allgather")


@pytest.mark.parametrize("program", [attention, divided_activations])
def test_without_a_counterpart(two, program):
    two.run(program, ["ftorch"])


def test_attention_of_four(four):
    four.run(attention, ["ftorch"])
