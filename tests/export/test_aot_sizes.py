"""Packages for sizes that vary: nothing is compiled for each, the results are PyTorch's, in memory of their own."""

from __future__ import annotations

import gc
import io
import weakref

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.runtime import background
from ftorch.export import _aot_graph, _aot_program


def _package(model, args, shapes, tmp_path, name="p"):
    return _packaged(ft.export.export(model, args, dynamic_shapes=shapes), tmp_path, name)


def _packaged(program, tmp_path, name="p"):
    path = ft._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / f"{name}.pt2"))
    return ft._inductor.aoti_load_package(path)


def _net(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(20, 8)
            self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
            self.norm = torch.nn.BatchNorm1d(8)
            self.out = torch.nn.Linear(8, 3)

        def forward(self, ids, mask):
            h = self.layer(self.embed(ids), src_key_padding_mask=mask)
            pooled = h.masked_fill(mask[..., None], 0.0).sum(1) / (~mask).sum(1, keepdim=True)
            return self.out(self.norm(pooled)).log_softmax(-1), h[:, 1:].transpose(0, 1), ids.shape[0]

    return Net()


def _calls(torch, model, sizes):
    rng = np.random.RandomState(0)
    for rows, length in sizes:
        ids, mask = rng.randint(0, 20, (rows, length)), rng.rand(rows, length) < 0.3
        mask[:, 0] = False
        yield model(torch.tensor(ids), torch.tensor(mask))


@pytest.fixture
def counted(monkeypatch):
    """A list that gets an entry for each executable that is compiled."""
    made = []
    plain = _aot_program._Made.compile
    monkeypatch.setattr(_aot_program._Made, "compile", lambda self: made.append(1) or plain(self))
    return made


def test_new_sizes_compile_nothing_and_give_what_pytorch_does(tmp_path, counted):
    mine, theirs = _net(ft), _net(pt)
    mine.load_state_dict({k: ft.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    batch, length = ft.export.Dim("batch", min=2, max=64), ft.export.Dim("length", min=2, max=64)
    shapes = ({0: batch, 1: length}, {0: batch, 1: length})
    args = ft.ones(4, 6, dtype=ft.int64), ft.zeros(4, 6, dtype=ft.bool)
    package = _package(mine.train(), args, shapes, tmp_path)  # in training: the norm's statistics are written
    sizes = [(4, 6), *((r, n) for r in (2, 3, 7, 11) for n in (2, 3, 5, 9, 13)), (4, 6)]
    with pt.no_grad():
        for found, expected in zip(_calls(ft, package, sizes), _calls(pt, theirs.train(), sizes)):
            for a, b in zip(found[:2], expected):
                assert tuple(a.shape) == tuple(b.shape) and a.is_contiguous() and not a.requires_grad
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-5)
            assert int(found[2]) == expected[2]
    assert not counted and not package._runner.functions
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        np.testing.assert_allclose(
            package._constants[f"norm.{name}"].numpy(), getattr(theirs.norm, name).numpy(), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("beside", [False, True])
def test_sizes_that_come_often_get_executables_of_which_few_are_kept(tmp_path, monkeypatch, counted, beside):
    monkeypatch.setattr(background, "ENABLED", beside)
    monkeypatch.setattr(_aot_program, "_MOST_EXECUTABLES", 2)
    layer = ft.nn.Linear(4, 2)
    package = _package(layer, (ft.ones(3, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path)
    runner = package._runner
    for n in (5, 6, 7, 8):
        for _ in range(4):
            runner._seconds = 1e-9  # so that a second call pays for it
            x = ft.rand(n, 4)
            assert ft.allclose(package(x), layer(x), atol=1e-5)
            background.wait(60)
    assert [key for key in runner.functions] == [((7, 4),), ((8, 4),)] and len(counted) == 4
    assert [runner._uses[((n, 4),)].worth for n in (5, 6, 7, 8)] == [2, 2, 1, 1]
    assert package(ft.zeros(3, 4)).shape == (3, 2) and runner.is_ahead  # the package's own stays


@pytest.mark.parametrize("beside", [False, True])
def test_what_cannot_be_compiled_runs_on(tmp_path, monkeypatch, beside):
    monkeypatch.setattr(background, "ENABLED", beside)

    def fails(self, *operands):
        raise RuntimeError("no")

    monkeypatch.setattr(_aot_program._Made, "lower", fails)
    package = _package(ft.nn.Linear(4, 2), (ft.ones(3, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path)
    package._runner._seconds = 1e-9
    for _ in range(4):
        assert package(ft.ones(5, 4)).shape == (5, 2)
        background.wait(60)
    assert package._runner._uses[((5, 4),)].worth > 1 and not package._runner.functions


def test_a_compilation_that_was_interrupted_before_it_began_is_begun_again(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "ENABLED", True)
    package = _package(ft.nn.Linear(4, 2), (ft.ones(3, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path)
    package._runner._seconds = 1e-9
    plain, interrupts = _aot_program._compile_beside, [KeyboardInterrupt]

    def begin(*given):
        if interrupts:
            raise interrupts.pop()
        return plain(*given)

    monkeypatch.setattr(_aot_program, "_compile_beside", begin)
    x = ft.ones(5, 4)
    package(x)
    with pytest.raises(KeyboardInterrupt):
        package(x)
    for _ in range(2):
        package(x)
        background.wait(60)
    assert list(package._runner.functions) == [((5, 4),)]


def test_subclasses_see_nothing_of_a_package_and_do_not_come_out_of_it(tmp_path):
    class Both(ft.nn.Module):
        def forward(self, x):
            x.mul_(2)
            return x + 1, x

    class Seen(ft.Tensor):
        calls: list[str] = []

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.calls.append(getattr(function, "__name__", ""))
            return super().__torch_function__(function, types, args, kwargs)

    package = _package(Both(), (ft.ones(3, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path)
    for rows in (3, 5):
        x = ft.ones(rows, 4)
        results = package(x.as_subclass(Seen))
        assert [type(t) for t in results] == [ft.Tensor] * 2 and x.tolist() == results[1].tolist() == [[2.0] * 4] * rows
        results = package(ft.nn.Parameter(ft.ones(rows, 4), requires_grad=False))
        assert [type(t) for t in results] == [ft.Tensor] * 2
    assert not any("add" in name for name in Seen.calls)


def test_a_loaded_package_does_not_hold_its_file():
    class File(io.BytesIO):
        pass

    file = File()
    program = ft.export.export(ft.nn.Linear(4, 2), (ft.ones(3, 4),), dynamic_shapes=({0: ft.export.Dim("n", max=90)},))
    ft._inductor.aoti_compile_and_package(program, package_path=file)
    package, held = ft._inductor.aoti_load_package(file), weakref.ref(file)
    del file
    gc.collect()
    assert held() is None and package(ft.ones(5, 4)).shape == (5, 2)


def test_results_have_memory_of_their_own(tmp_path):
    class Same(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", ft.zeros(3))

        def forward(self, x):
            self.n.add_(1)
            x.mul_(2)
            y = x + 1
            return x, x.t(), self.n, y, y[1:], y, 3, None

    package = _package(Same(), (ft.ones(2, 3),), ({0: ft.export.Dim("r", min=2, max=9)},), tmp_path)
    for step, rows in enumerate((2, 4, 2, 4), 1):
        x = ft.ones(rows, 3)
        results = package(x)
        assert x.tolist() == [[2.0] * 3] * rows and results[2].tolist() == [float(step)] * 3
        tensors = results[:6]
        for i, t in enumerate(tensors):
            assert t.is_contiguous() and t.storage_offset() == 0
            t.fill_(-i)
        assert [t.unique().tolist() for t in tensors] == [[-float(i)] for i in range(6)]
        assert x.tolist() == [[2.0] * 3] * rows and results[6:] == (3, None)


def test_random_numbers_of_a_size_follow_the_seed_alone(tmp_path):
    class Noise(ft.nn.Module):
        def forward(self, x):
            return ft.nn.functional.dropout(x, 0.5, True)

    package = _package(Noise(), (ft.ones(8, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path)

    def drawn(n):
        ft.manual_seed(3)
        return package(ft.ones(n, 4)).tolist()

    small, example = drawn(5), drawn(8)
    package._runner._seconds = 1e-9
    for _ in range(3):
        assert drawn(5) == small and drawn(8) == example
    assert not package._runner.functions
    pt.manual_seed(3)
    assert small == pt.nn.functional.dropout(pt.ones(5, 4), 0.5, True).tolist()


def test_errors_about_sizes_are_those_of_the_compiled_program(tmp_path):
    class Pair(ft.nn.Module):
        def forward(self, x, y):
            return (x * y).sum(0)

    n = ft.export.Dim("n", min=1, max=30)
    package = _package(Pair(), (ft.ones(4, 3), ft.ones(4, 3)), ({0: 2 * n}, {0: 2 * n}), tmp_path)
    assert package(ft.ones(6, 3), ft.ones(6, 3)).tolist() == [6.0] * 3
    graph, texts = package._graph, []
    for package._graph in (graph, None):
        for rows in ((5, 5), (6, 8)):
            with pytest.raises(RuntimeError, match="not for inputs of these sizes") as caught:
                package(ft.ones(rows[0], 3), ft.ones(rows[1], 3))
            texts.append(str(caught.value).partition("Using")[0])
    assert texts[:2] == texts[2:]


def test_modes_around_a_call_do_not_change_it(tmp_path):
    layer = ft.nn.Linear(4, 2)
    package = _package(layer, (ft.ones(3, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path)
    x = ft.rand(5, 4)
    with ft.autocast("cpu", dtype=ft.bfloat16):
        found = package(x)
    assert found.dtype is ft.float32 and ft.allclose(found, layer(x), atol=1e-6)
    with ft.autocast("cpu", dtype=ft.bfloat16):
        within = _package(layer, (ft.ones(3, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path, "within")
    for rows in (3, 5):  # what it is made within stays
        assert within(ft.rand(rows, 4)).dtype is ft.bfloat16
    with ft.inference_mode():
        assert package(ft.rand(6, 4)).is_inference()
    with ft.enable_grad():
        assert not package(ft.rand(6, 4).requires_grad_()).requires_grad


def test_packages_have_no_graph_of_operators_of_ones_own():
    @ft.library.custom_op("aotsizes::twice", mutates_args=())
    def twice(x: ft.Tensor) -> ft.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return ft.empty_like(x)

    class Twice(ft.nn.Module):
        def forward(self, x):
            return ft.ops.aotsizes.twice(x) + 1

    program = ft.export.export(Twice(), (ft.ones(3, 4),))
    assert not _aot_graph._is_of_known_ops(program.graph_module)
    assert _aot_graph._is_of_known_ops(ft.export.export(ft.nn.ReLU(), (ft.ones(3, 4),)).graph_module)


def test_replaced_constants_are_read(tmp_path):
    class Tied(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = ft.nn.Linear(4, 4, bias=False)
            self.second = ft.nn.Linear(4, 4, bias=False)
            self.second.weight = self.first.weight
            self.unused = ft.nn.Parameter(ft.ones(2))
            self.factor = ft.full((4,), 2.0)

        def forward(self, x):
            return self.second(self.first(x)) * self.factor + ft.tensor([1.0, 2.0, 3.0, 4.0])

    model = Tied()
    package = _package(model, (ft.ones(3, 4),), ({0: ft.export.Dim("n", max=90)},), tmp_path)
    x = ft.rand(5, 4)
    assert ft.allclose(package(x), model(x), atol=1e-5)
    package.load_constants({n: ft.eye(4) for n in package.get_constant_fqns() if n.endswith("weight")}
                           | {"factor": ft.ones(4)}, check_full_update=False)
    ones = ft.ones(3, 4)
    assert package(ones).tolist() == package(ft.ones(5, 4))[:3].tolist() == [[2.0, 3.0, 4.0, 5.0]] * 3


def test_programs_without_stablehlo_for_all_sizes(tmp_path, monkeypatch):
    def build(torch):
        class Sums(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("n", torch.zeros(4))

            def forward(self, x, i):
                self.n.add_(x.sum(0))
                return (
                    x.cumsum(0), torch.cdist(x, x), torch.zeros_like(x).index_add(0, i, x), x.repeat_interleave(2, 0),
                    x.topk(2, 0)[0] + self.n, x.sort(0)[0],
                )

        return Sums()

    monkeypatch.setattr(background, "ENABLED", False)
    n = ft.export.Dim("n", min=2, max=90)
    args = ft.rand(5, 4), ft.zeros(5, dtype=ft.int64)
    package, theirs = _package(build(ft), args, ({0: n}, {0: n}), tmp_path), build(pt)
    assert package._runner.is_of_one_size
    rng = np.random.RandomState(0)
    for rows in (5, 2, 20, 7, 7, 5):
        package._runner._seconds = 1e-9  # for these sizes there is nothing to compile, however often they come
        x, i = rng.rand(rows, 4).astype(np.float32), rng.randint(0, 2, rows)
        for found, expected in zip(package(ft.tensor(x), ft.tensor(i)), theirs(pt.tensor(x), pt.tensor(i)), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    assert not package._runner.functions
    with ft.autocast("cpu", dtype=ft.bfloat16):
        assert package(ft.rand(6, 4), ft.zeros(6, dtype=ft.int64))[1].dtype is ft.float32
        assert ft.is_autocast_enabled("cpu")
    with pytest.raises(RuntimeError, match="not for inputs of these sizes: Guard failed"):
        package(ft.rand(6, 4), ft.zeros(7, dtype=ft.int64))
    with pytest.raises(RuntimeError, match="dim value is too large at 0"):
        package(ft.rand(91, 4), ft.zeros(91, dtype=ft.int64))
    before = ft.get_default_dtype()
    ft.set_default_dtype(ft.float64)
    try:
        with pytest.raises(RuntimeError, match="no StableHLO for all sizes"):
            package(ft.rand(6, 4, dtype=ft.float32), ft.zeros(6, dtype=ft.int64))
        assert package(ft.rand(5, 4, dtype=ft.float32), ft.zeros(5, dtype=ft.int64))[0].dtype is ft.float32
    finally:
        ft.set_default_dtype(before)


def test_sizes_of_nothing(tmp_path, monkeypatch):
    def build(torch):
        class Parts(torch.nn.Module):
            def forward(self, x):
                y = torch.cat([x, x[:, :2]], 1)
                return x.sum(0), y.softmax(-1), y.transpose(0, 1) @ x, x.relu().sum()

        return Parts()

    def exported(torch, symbol):
        return torch.export.export(build(torch), (torch.ones(6, 4),), dynamic_shapes=({0: symbol(torch.export.Dim)},))

    monkeypatch.setattr(background, "ENABLED", False)
    package = _packaged(exported(ft, lambda Dim: Dim("n", max=90)), tmp_path)
    theirs = exported(pt, lambda Dim: Dim("n", max=90)).module()
    for _ in range(3):
        package._runner._seconds = 1e-9  # there is nothing to compile, however often they come
        for found, expected in zip(package(ft.ones(0, 4)), theirs(pt.ones(0, 4)), strict=True):
            assert found.shape == expected.shape and found.tolist() == expected.tolist()
    assert not package._runner.functions
    package = _packaged(exported(ft, lambda Dim: 2 * Dim("n", min=1, max=30)), tmp_path)
    with pytest.raises(RuntimeError, match="dim value is too small at 0, expected it to be >= 2, but got: 0"):
        package(ft.ones(0, 4))


def test_numbers_of_elements_that_vary(tmp_path):
    def build(torch):
        class Spread(torch.nn.Module):
            def forward(self, x):
                y = torch.nn.functional.instance_norm(x[None].transpose(1, 2), use_input_stats=True)
                z = torch.nn.functional.batch_norm(x, x[0] * 0, x[0] * 0 + 1, training=True)
                return x.var(0), x.std(), torch.var_mean(x, 0)[1], x.std(0, correction=0), y, z

        return Spread()

    package = _package(build(ft), (ft.rand(3, 4),), ({0: ft.export.Dim("n", min=2, max=90)},), tmp_path)
    x = np.random.RandomState(0).rand(7, 4).astype(np.float32)
    graph = package._graph
    for package._graph in (graph, None):
        for found, expected in zip(package(ft.tensor(x)), build(pt)(pt.tensor(x)), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_sizes_that_derive_from_one_that_is_not_shown_itself(tmp_path):
    def build(torch):
        class Pair(torch.nn.Module):
            def forward(self, x):
                return x.view(-1, 2, 3).sum(1), x.shape[0]

        return Pair()

    def targets(torch):
        shapes = ({0: 2 * torch.export.Dim("n", min=2, max=30)},)
        program = torch.export.export(build(torch), (torch.ones(6, 3),), dynamic_shapes=shapes)
        return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]

    assert sorted(targets(ft)) == sorted(targets(pt))
    package = _package(build(ft), (ft.ones(6, 3),), ({0: 2 * ft.export.Dim("n", min=2, max=30)},), tmp_path)
    x = ft.rand(10, 3)
    assert ft.allclose(package(x)[0], build(ft)(x)[0])
