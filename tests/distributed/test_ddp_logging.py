"""What collectives leave in profiles, and what `DistributedDataParallel` says of itself, against PyTorch's gloo."""

from __future__ import annotations

import contextlib
import io
from datetime import timedelta


def said(function, *args):
    try:
        function(*args)
    except Exception as error:
        return type(error).__name__, str(error).partition("\nException raised")[0]  # PyTorch's goes on with frames in C++
    return None


def collectives(t, d, rank):
    """Names, shapes and kinds of events of collectives and messages."""
    x, c, u = t.ones(3), t.ones(2, dtype=t.complex64), t.ones(2, 2)
    calls = [
        lambda: d.all_reduce(x), lambda: d.all_reduce(c), lambda: d.all_reduce_coalesced([x, c]),
        lambda: d.reduce(x, 0), lambda: d.broadcast(u, 1), lambda: d.all_gather([t.zeros(3), t.zeros(3)], x),
        lambda: d.all_gather_into_tensor(t.zeros(6), x), lambda: d.barrier(),
        lambda: d.gather(x, [t.zeros(3), t.zeros(3)] if rank == 0 else None),
        lambda: d.all_to_all_single(t.zeros(2, 2), u),
        lambda: d.send(x, 1) if rank == 0 else d.recv(x, 0),
        lambda: d.send(x, 1, tag=3) if rank == 0 else d.recv(x, tag=3),
        lambda: d.all_reduce(x, async_op=True).wait(),
    ]
    out = []
    for call in calls:
        with t.autograd.profiler.profile(record_shapes=True) as p:
            call()
        out.append([(e.name, e.is_async, e.input_shapes) for e in p.function_events if e.name.startswith("gloo:")])
        assert all(e.cpu_time >= 0 for e in p.function_events)
    return out


def mixed_numbers(t, d, rank):
    """Complex numbers go with their parts' dtype, in place."""
    a, b = t.full((2,), rank + 1.0), t.tensor([1 + 2j, 3j]) * (rank + 1)
    d.all_reduce_coalesced([a, b])
    return a, b, said(d.all_reduce_coalesced, [a, b.to(t.complex128)])


def no_time(t, d, rank):
    group = d.new_group([0, 1])
    return said(group.monitored_barrier, timedelta(seconds=0)) if rank == 0 else None


def sparse(t, d, rank):
    out = []
    for shape, rows in (((2,), [[0, 1][: rank + 1]]), ((2, 2), [[0, 1][: rank + 1], [0] * (rank + 1)])):
        s = t.sparse_coo_tensor(rows, t.ones(rank + 1), shape)
        d.all_reduce(s)
        out += [s.is_coalesced(), s._nnz(), s.to_dense()]
    return out


KEYS = (
    "backend_name bucket_sizes dtypes module_name device_ids broadcast_buffers bucket_cap_bytes find_unused_parameters "
    "gradient_as_bucket_view has_sync_bn is_multi_device_module num_parameter_tensors output_device rank world_size "
    "total_parameter_size_bytes iteration gloo_num_threads has_error error bucket_sizes rebuilt_bucket_sizes "
    "prev_iteration_grad_ready_order_indices has_rebuilt_buckets rebuilt_per_bucket_param_indices unused_parameter_size"
).split()
TIMES = "forward_compute_time backward_compute_time backward_comm_time avg_forward_compute_time".split()


def told(t, d, rank):
    t.manual_seed(0)
    model = t.nn.parallel.DistributedDataParallel(t.nn.Sequential(t.nn.Linear(2, 3), t.nn.ReLU(), t.nn.Linear(3, 1)))
    out = []

    def tell():
        data = model._get_ddp_logging_data()
        out.append([data.get(k) for k in KEYS] + [data.get(k, 0) > 0 for k in TIMES])

    tell()
    model._set_ddp_runtime_logging_sample_rate(2)
    for _ in range(14):
        model(t.ones(1, 2)).sum().backward()
        tell()
    out.append(said(model._set_static_graph))
    tell()
    out.append(said(model._set_ddp_runtime_logging_sample_rate, 0))
    return out


def variables(t, d, rank):
    from importlib import import_module

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        import_module(f"{t.__name__}.nn.parallel.distributed")._dump_DDP_relevant_env_vars()
    return sorted(text.getvalue().splitlines())


def unused_before(t, d, rank):
    """Parameters that a backward pass without synchronization reached are averaged by the next one with it."""
    t.manual_seed(0)

    class Turns(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.turn = t.nn.ModuleList(t.nn.Linear(1, 1) for _ in range(4)), 0

        def forward(self, x):
            self.turn += 1
            return self.layers[2 * rank + self.turn % 2](x)

    model = t.nn.parallel.DistributedDataParallel(Turns(), find_unused_parameters=True)
    out = []
    for _ in range(2):
        with model.no_sync():
            model(t.full((1, 1), rank + 1.0)).sum().backward()
        model(t.full((1, 1), rank + 3.0)).sum().backward()
        out += [p.grad.clone() for p in model.parameters()]
    return out


def of_groups(t, d, rank):
    """Ranks in groups and in what is none; what meshes print."""
    from importlib import import_module

    make = import_module(f"{t.__name__}.distributed.device_mesh").init_device_mesh
    pair, alone = d.new_group([1, 0]), d.new_group([1])
    meshes = [make("cpu", shape) for shape in ((2,), (1, 2), (2, 1))]
    named = make("cpu", (2, 1), mesh_dim_names=("a", "b"))
    return (
        d.get_rank(pair), d.get_rank(alone), d.get_rank(), said(d.get_rank, "x"), said(d.get_group_rank, "x", 0),
        [repr(m) for m in (*meshes, named, named["a"], named["b"])],
    )


def test_ranks_and_meshes(two):
    two.run(of_groups)


def test_events_of_collectives(two):
    two.run(collectives)


def test_complex_among_floats(two):
    two.run(mixed_numbers)


def test_a_barrier_without_time(two):
    two.run(no_time)


def test_sparse_sums(two):
    two.run(sparse)


def test_what_ddp_tells(two):
    two.run(told)


def test_variables_of_the_environment(two):
    two.run(variables)


def test_unused_parameters_of_passes_before(two):
    two.run(unused_before)
