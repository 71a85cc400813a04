"""Pipelines over two and four processes, and the orders of all schedules, against PyTorch's."""

from __future__ import annotations

import warnings

import pytest
import torch as pt
from torch.distributed.pipelining import _utils as their_utils
from torch.distributed.pipelining import schedules as their_schedules

import ftorch as ft
from ftorch.distributed.pipelining import _actions as actions
from ftorch.distributed.pipelining import _utils as utils
from tests.oracle import assert_same_outcome, outcome
from tests.oracle.values import assert_same


def _of(t, name):
    return __import__(f"{t.__name__}.distributed.{name}", fromlist=["x"])


def _layers(t, count):
    t.manual_seed(0)
    return [t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Tanh()) for _ in range(count)]


def _trained(t, d, make, stages_of, count=4, per_process=1, steps=2, **options):
    pipelining = _of(t, "pipelining")
    size = d.get_world_size()
    layers = _layers(t, size * per_process)
    mine = [
        pipelining.PipelineStage(layers[i], i, len(layers), t.device("cpu"))
        for i in stages_of(d.get_rank(), size)
    ]
    schedule = make(pipelining)(mine if per_process > 1 else mine[0], count, t.nn.functional.mse_loss, **options)
    out = []
    for step in range(steps):
        x, target, losses = t.arange(48.0).view(12, 4) / 48 + step, t.ones(12, 4), []
        given = [x] if any(s.is_first for s in mine) else []
        last = any(s.is_last for s in mine)
        y = schedule.step(*given, target=target if last else None, losses=losses)
        out += [p.grad.clone() for s in mine for p in s.submod.parameters()]
        if last:
            out += [y, y.requires_grad, t.stack([loss.detach() for loss in losses])]
        else:
            assert y is None
        with t.no_grad():
            for s in mine:
                for p in s.submod.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
    if stages_of is _v_shaped:  # PyTorch's fail without backward
        return out
    given = [t.ones(12, 4)] if any(s.is_first for s in mine) else []
    y = schedule.eval(*given, target=t.zeros(12, 4) if last else None)
    return [*out, y.detach()] if last else out


def _own_stage(rank, size):
    return [rank]


def gpipe(t, d, rank):
    return _trained(t, d, lambda p: p.ScheduleGPipe, _own_stage, 3, scale_grads=False)


def one_f_one_b(t, d, rank):
    return _trained(t, d, lambda p: p.Schedule1F1B, _own_stage, 6)


def _looped(rank, size):
    return [rank, rank + size]


def _v_shaped(rank, size):
    return [rank, 2 * size - 1 - rank]


def breadth_first(t, d, rank):
    return _trained(t, d, lambda p: p.ScheduleLoopedBFS, _looped, per_process=2)


def interleaved(t, d, rank):
    return _trained(t, d, lambda p: p.ScheduleInterleaved1F1B, _looped, per_process=2)


def zero_bubble(t, d, rank):
    return _trained(t, d, lambda p: p.ScheduleInterleavedZeroBubble, _looped, per_process=2)


def zero_bubble_v(t, d, rank):
    return _trained(t, d, lambda p: p.ScheduleZBVZeroBubble, _v_shaped, per_process=2)


def dual_pipe_v(t, d, rank):
    return _trained(t, d, lambda p: p.ScheduleDualPipeV, _v_shaped, per_process=2)


class Skipping:
    def __new__(cls, t):
        class Model(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = t.nn.Linear(4, 4), t.nn.Linear(4, 4)
                self.third = t.nn.Linear(4, 2)

            def forward(self, x):
                y = t.relu(self.first(x))
                z = t.tanh(self.second(y))
                return self.third(z + y)

        t.manual_seed(0)
        return Model()


def cut(t, d, rank):
    pipelining = _of(t, "pipelining")
    point = pipelining.SplitPoint.BEGINNING
    pipe = pipelining.pipeline(Skipping(t), (t.ones(3, 4),), split_spec={"second": point})
    assert pipe.num_stages == 2
    stage = pipe.build_stage(rank, t.device("cpu"))
    schedule = pipelining.ScheduleGPipe(stage, 2, loss_fn=t.nn.functional.mse_loss)
    x, target, losses = t.arange(24.0).view(6, 4) / 24, t.ones(6, 2), []
    if rank == 0:
        schedule.step(x)
    else:
        y = schedule.step(target=target, losses=losses)
    names = sorted(n for n, _ in stage.submod.named_parameters())
    grads = [dict(stage.submod.named_parameters())[n].grad for n in names]
    return ([*grads] if rank == 0 else [*grads, y.detach(), t.stack(losses).detach()]), names


class Marked:
    def __new__(cls, t, split):
        class Inner(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = t.nn.Linear(4, 4), t.nn.Linear(4, 4)

            def forward(self, x):
                x = t.relu(self.first(x))
                split()
                return self.second(x)

        class Model(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.last = Inner(), t.nn.Linear(4, 2)

            def forward(self, x, scale=1.0):
                return self.last(t.tanh(self.inner(x) * scale))

        t.manual_seed(0)
        return Model()


def test_marks_in_forward():
    """`pipe_split` within a submodule's forward: the stages together are the model."""
    import ftorch as t

    pipelining = _of(t, "pipelining")
    model = Marked(t, pipelining.pipe_split)
    pipe = pipelining.pipeline(model, (t.ones(2, 4),), {"scale": 2.0})
    assert pipe.num_stages == 2
    first, second = (pipe.get_stage_module(i) for i in range(2))
    assert [n for n, _ in first.named_parameters()] == ["inner.first.weight", "inner.first.bias"]
    assert len(list(second.parameters())) == 4
    x = t.arange(8.0).view(2, 4)
    t.testing.assert_close(pipe(x, scale=2.0), (model(x, 2.0),))
    with pytest.raises(ValueError, match="Invalid stage index 2!"):
        pipe.get_stage_module(2)

def shared_parameters(t):
    """Parameters that several stages use, one of them of a module that one calls: copies of their own, and which."""
    pipelining = _of(t, "pipelining")

    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.v = t.nn.Parameter(t.randn(4, 4)), t.nn.Parameter(t.randn(4, 4))
            self.again, self.first, self.last = t.nn.Linear(4, 4), t.nn.Linear(4, 4), t.nn.Linear(4, 4)

        def forward(self, x, y):
            x = kept = t.mm(x, self.w) + y
            x = self.first(self.again(x).relu())
            pipelining.pipe_split()
            x = t.mm(x, self.w) @ self.v
            pipelining.pipe_split()
            return self.last(x @ self.again.weight) + kept @ self.w

    t.manual_seed(0)
    model = Model()
    x, y = t.randn(3, 4), t.randn(3, 4)
    pipe = pipelining.pipeline(model, (x, y))
    out = pipe(x, y)[0]
    out.square().sum().backward()
    stages = [pipe.get_stage_module(i) for i in range(pipe.num_stages)]
    t.testing.assert_close(out, model(x, y))
    found = sorted((n, p.grad) for n, p in stages[-1].named_parameters())  # values between stages are detached here
    return (
        found, [sorted(n for n, _ in stage.named_parameters()) for stage in stages],
        sorted(sorted(row.items()) for row in pipe.replicated_params),
        [any(p is q for q in model.parameters()) for name in ("w", "again.weight") for p in [
            dict(stages[2].named_parameters())[name]]],
    )


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch's tracer
def test_parameters_of_several_stages():
    assert_same(shared_parameters(ft), shared_parameters(pt))


def refused(t, d, rank):
    pipelining = _of(t, "pipelining")
    stage = pipelining.PipelineStage(t.nn.Linear(2, 2), rank, 2, t.device("cpu"))
    pipelining.Schedule1F1B(stage, 1)


def within_data_parallel(t, d, rank):
    pipelining = _of(t, "pipelining")
    mesh = d.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
    place, group = mesh.get_local_rank("pp"), mesh.get_group("pp")
    model = t.nn.parallel.DistributedDataParallel(_layers(t, 2)[place], process_group=mesh.get_group("dp"))
    stage = pipelining.PipelineStage(model, place, 2, t.device("cpu"), group=group)
    schedule = pipelining.ScheduleGPipe(stage, 2, loss_fn=t.nn.functional.mse_loss)
    x = t.arange(16.0).view(4, 4) / 16 + mesh.get_local_rank("dp")
    if place == 0:
        schedule.step(x)
    else:
        schedule.step(target=t.ones(4, 4))
    return [p.grad for p in model.parameters()]


PROGRAMS = [gpipe, one_f_one_b, breadth_first, interleaved, zero_bubble, zero_bubble_v, dual_pipe_v]


@pytest.mark.parametrize("program", [*PROGRAMS, cut, refused])
def test_two_processes(two, program):
    two.run(program)


@pytest.mark.parametrize("program", [one_f_one_b, zero_bubble, within_data_parallel])
def test_four_processes(four, program):
    four.run(program)


class _Stage:
    """What PyTorch's schedules ask of a stage to make their orders."""

    def __init__(self, index, count, size):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, count, size, 0
        self.submod, self.is_first, self.is_last = pt.nn.Identity(), index == 0, index == count - 1


def _same(ours, theirs):
    assert {r: list(map(str, o)) for r, o in ours.items()} == {r: list(map(str, o)) for r, o in theirs.items()}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_orders(size):
    for count in range(size, 11):
        theirs = their_schedules.ScheduleGPipe(_Stage(0, size, size), count).pipeline_order
        _same({r: actions.gpipe(r, size, count) for r in range(size)}, theirs)
        for stages in (1, 2, 3):
            own = [_Stage(i * size, size * stages, size) for i in range(stages)]
            found = their_schedules.ScheduleLoopedBFS(own, count).pipeline_order
            _same({r: actions.looped_breadth_first(r, size, stages, count) for r in range(size)}, found)
            if count % max(1, count // size):
                continue
            found = their_schedules.ScheduleInterleaved1F1B(own, count).pipeline_order
            _same({r: actions.interleaved(r, size, stages, count) for r in range(size)}, found)
            found = their_schedules.ScheduleInterleavedZeroBubble(own, count).pipeline_order
            orders = {r: actions.interleaved(r, size, stages, count, True) for r in range(size)}
            _same(actions.with_bubbles(orders, size * stages - 1), found)
        own = [_Stage(0, size * 2, size), _Stage(size * 2 - 1, size * 2, size)]
        found = their_schedules.ScheduleZBVZeroBubble(own, count).pipeline_order
        _same({r: actions.zero_bubble_v(r, size, count) for r in range(size)}, found)
        if count >= 2 * size:
            found = their_schedules.ScheduleDualPipeV(own, count).pipeline_order
            _same({r: actions.dual_pipe_v(r, size, count) for r in range(size)}, found)


def test_texts_of_actions():
    for text in ("2F0", "0B11", "1UNSHARD", "(0F1;3B0)OVERLAP_F_B"):
        assert str(actions._Action.from_str(text)) == str(their_schedules._Action.from_str(text)) == text
    for size, count, style in ((2, 4, "loop"), (2, 4, "v"), (3, 6, "v")):
        ours = utils.generate_stage_to_rank_mapping(size, count, style)
        assert ours == their_utils.generate_stage_to_rank_mapping(size, count, style)


def microbatches(t):
    pieces = __import__(f"{t.__name__}.distributed.pipelining.microbatch", fromlist=["x"])
    args, kwargs = pieces.split_args_kwargs_into_chunks(
        (t.arange(10).view(5, 2), 3), {"a": t.arange(6).view(2, 3), "b": "x"}, 3,
        kwargs_chunk_spec={"a": pieces.TensorChunkSpec(1), "b": pieces._Replicate()},
    )
    merged = pieces.merge_chunks([(a[0], k["a"].t()) for a, k in zip(args, kwargs)], None)
    return [[a[0].tolist() for a in args], [k["a"].tolist() for k in kwargs], [m.tolist() for m in merged],
            [a[1] for a in args], [k["b"] for k in kwargs]]


def test_microbatches():
    import ftorch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert microbatches(ftorch) == microbatches(pt)


@pytest.mark.parametrize("path", ["nothing", "0.nothing", "nothing.0", "1.a.b"])
def test_splits_at_what_is_not_there(path):
    import torch.distributed.pipelining as theirs

    import ftorch
    import ftorch.distributed.pipelining as ours

    seen = []
    for t, pipelining in ((pt, theirs), (ftorch, ours)):
        net = t.nn.Sequential(t.nn.Sequential(t.nn.Linear(1, 1)), t.nn.ReLU())
        _, error = outcome(lambda net=net, m=pipelining: m._IR.annotate_split_points(net, {path: m.SplitPoint.END}))
        seen.append((type(error), str(error)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ("stages", "call", "gradients"))
def test_a_pipe_is_a_graph_of_its_stages(name):
    def found(t):
        pipelining = _of(t, "pipelining")

        class Model(t.nn.Module):
            def __init__(self):
                super().__init__()
                t.manual_seed(0)
                self.a, self.b, self.c = t.nn.Linear(4, 4), t.nn.Linear(4, 4), t.nn.Linear(4, 2)

            def forward(self, x):
                h = self.a(x).relu()
                k = h * 2
                return self.c(self.b(h) + k)

        point = pipelining.SplitPoint.BEGINNING
        pipe = pipelining.pipeline(Model(), (t.ones(2, 4),), split_spec={"b": point, "c": point})
        if name == "stages":
            assert (
                isinstance(pipe.split_gm, t.fx.GraphModule)
                and pipe.info().graph is pipe.split_gm.graph
            )
            nodes = [(n.op, n.name, str(n.args)) for n in pipe.split_gm.graph.nodes]
            return repr(
                (nodes, [n for n, _ in pipe.named_parameters()], type(pipe.executor).__name__)
            )
        (out,) = pipe(t.ones(2, 4))
        if name == "call":
            return out
        out.sum().backward()
        return [p.grad for p in pipe.parameters()]

    assert_same_outcome(outcome(found, ft), outcome(found, pt))


@pytest.mark.parametrize("named", (True, False))
def test_inputs_that_are_tensors_by_default(named):
    """They are inputs of a pipe whose example has them, and constants of others."""

    def found(t):
        pipelining = _of(t, "pipelining")

        class Model(t.nn.Module):
            def __init__(self):
                super().__init__()
                t.manual_seed(0)
                self.a, self.b = t.nn.Linear(4, 4), t.nn.Linear(4, 2)

            def forward(self, x, y=t.full((2, 4), 3.0)):
                h = (self.a(x) + y).relu()
                pipelining.pipe_split()
                return self.b(h)

        given = {"y": t.ones(2, 4)} if named else {}
        pipe = pipelining.pipeline(Model(), (t.ones(2, 4),), given)
        return pipe(t.ones(2, 4), **{k: v * 5 for k, v in given.items()})[0]

    assert_same_outcome(outcome(found, ft), outcome(found, pt))
