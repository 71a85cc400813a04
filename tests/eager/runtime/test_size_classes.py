"""New sizes of known classes run without tracing or compiling, and give what exact plans and PyTorch give."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest
import torch as oracle

import ftorch as torch
from ftorch.eager import native
from ftorch.eager.autograd import recorded_calls
from ftorch.eager.call import class_plans, planning
from ftorch.eager.call.op import _ALL_OPS, op_named
from ftorch.eager.runtime import host_tier, jaxpr_classes, size_classes
from ftorch.eager.runtime import plan as plan_module
from ftorch.eager.runtime.counters import stats

F = torch.nn.functional
SIZES = [(29, 24), (41, 36), (53, 47), (82, 70), (67, 61), (40, 33)]  # in one order: kernels may compare sizes


def _tensors(lib, *arrays):
    return [lib.tensor(a) for a in arrays]


def _mlp(lib, n, m, rng):
    x, w = rng.standard_normal((n, 8)).astype(np.float32), rng.standard_normal((8, m)).astype(np.float32)
    x, w = _tensors(lib, x, w)
    w.requires_grad_()
    loss = (lib.nn.functional.gelu(x @ w).softmax(-1) * lib.arange(m)).sum(1).mean()
    loss.backward()
    return loss, w.grad


def _convolution(lib, n, m, rng):
    x, w = _tensors(lib, rng.standard_normal((2, 3, n, m)).astype(np.float32), np.full((4, 3, 3, 3), 0.1, np.float32))
    w.requires_grad_()
    F = lib.nn.functional
    y = F.max_pool2d(F.relu(F.conv2d(x, w, stride=2, padding=1)), 2)
    y.square().sum().backward()
    return y, w.grad


def _indexing(lib, n, m, rng):
    (x,) = _tensors(lib, rng.standard_normal((n, m)).astype(np.float32))
    x.requires_grad_()
    i = lib.tensor(rng.integers(0, n, 2 * m))
    y = lib.zeros(n, m).index_add(0, i, x[i] * 2)[1:].t().contiguous().cumsum(0)
    y.sum().backward()
    return y, x.grad, x.argsort(1), x.detach().masked_fill(x > 0, 0)


def _joins(lib, n, m, rng):
    a, b = _tensors(lib, rng.standard_normal((n, 5)), rng.standard_normal((m, 5)))
    c = lib.cat([a, b]).view(-1, n + m).expand(3, 5, n + m)
    return c.flatten(1), lib.stack([c, c]).permute(1, 0, 3, 2).reshape(-1), c.var(-1), c.std()


PROGRAMS = [_mlp, _convolution, _indexing, _joins]


@pytest.mark.parametrize("program", PROGRAMS)
def test_new_sizes_give_pytorchs_results(program):
    for n, m in SIZES:
        ours = program(torch, n, m, np.random.default_rng(n))
        theirs = program(oracle, n, m, np.random.default_rng(n))
        for x, y in zip(ours, theirs, strict=True):
            assert tuple(x.shape) == tuple(y.shape) and x.stride() == y.stride()
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("program", PROGRAMS)
def test_new_sizes_neither_trace_nor_compile(program, monkeypatch):
    for n, m in SIZES:
        for x in program(torch, n, m, np.random.default_rng(n)):
            x.sum().item()
    calls = []
    for module, name in ((planning, "abstract_results"), (size_classes, "traced"), (host_tier, "_traced")):
        kept = getattr(module, name)
        monkeypatch.setattr(
            module,
            name,
            lambda *a, kept=kept, name=name: calls.append((name, [x for x in a if not callable(x)])) or kept(*a),
        )
    stats.reset()
    for n, m in [(45, 31), (59, 43), (77, 71)]:
        for x in program(torch, n, m, np.random.default_rng(n)):
            x.sum().item()
    assert stats.compilations == 0
    assert not calls, calls


def test_errors_about_sizes_are_pytorchs():
    for n in (8, 13, 21, 34):
        torch.nn.functional.conv1d(torch.ones(1, 1, n), torch.ones(1, 1, 5)).sum().item()
    for lib in (torch, oracle):
        with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
            lib.nn.functional.conv1d(lib.ones(1, 1, 4), lib.ones(1, 1, 5))
    for n in (8, 13, 21):
        (torch.ones(n, 3) + torch.ones(n, 3)).sum().item()
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.ones(30, 3) + torch.ones(29, 3)


def test_kernels_that_depend_on_more_than_sizes_keep_plans_by_size():
    """The even middle and the odd one are computed in two ways; sizes that agree by chance are another class."""
    for n in (5, 8, 11, 14, 17, 20, 23):
        x = np.random.default_rng(n).standard_normal((n, n)).astype(np.float32)
        ours, theirs = torch.tensor(x).quantile(0.4, 0), oracle.tensor(x).quantile(0.4, 0)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
        np.testing.assert_allclose(torch.tensor(x).median(0).values.numpy(), oracle.tensor(x).median(0).values.numpy())
        np.testing.assert_allclose(
            torch.fft.rfft(torch.tensor(x)).abs().numpy(),
            oracle.fft.rfft(oracle.tensor(x)).abs().numpy(),
            rtol=1e-4,
            atol=1e-5,
        )


def test_sampled_sizes_keep_what_calls_have_in_common():
    points = jaxpr_classes.sampled((8, 20, 5), (9, 30, 6), ordered=True)
    assert all(b > a > c for a, b, c in points) and len(set(points)) == len(points) >= 5
    points = jaxpr_classes.sampled((8, 20, 5), (9, 20, 6), ordered=True, fixed=(1,))
    assert all(p[1] == 20 for p in points)


def test_a_number_is_another_class_than_a_bool():
    x = torch.arange(6.0)
    assert [torch.sum(x, 0, keepdim=k).shape for k in (False, True)] == [(), (1,)]


def test_tensors_without_dimensions_among_elementwise_steps():
    for k in range(5, 60, 7):
        s, x = torch.tensor(0.25), torch.rand(k)
        np.testing.assert_array_equal((s * x + 1).numpy(), np.float32(0.25) * x.numpy() + 1)
        assert (s <= x + 1).all().item()


def test_warnings_of_a_size_come_once():
    """As from PyTorch: once for each text, of the user's sizes alone, however often programs are traced for it."""
    import warnings

    def said(lib):
        w = lib.ones(4, 1, requires_grad=True)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("default")
            for n in [20, 80, 20, 80] * 4:
                loss = lib.nn.functional.mse_loss(lib.ones(n, 4) @ w, lib.ones(n))
                loss.backward()
                loss.item()
        return [str(w.message) for w in found]

    assert said(torch) == said(oracle)


def test_the_first_size_that_comes_again_has_the_class_too():
    """What was planned before there was a class is planned anew: its trace is one of sizes that vary, not compiled at once."""

    def step(n):
        x = torch.arange(float(n * n)).reshape(n, n)
        return ((x - 3).sin() * x.tanh() + x.t()).cumsum(0).sum(1).argsort().tolist()

    def plans():
        return [plan for name in ("sub.Tensor", "sin", "tanh", "cumsum") for plan in op_named(name).plans.values()]

    sizes = (131, 137, 139)
    first = [step(n) for n in sizes]
    stats.reset()
    assert [step(n) for n in sizes] == first
    assert stats.compilations == 0
    again = [plan for plan in plans() if plan.geometry.shape == (131, 131)]
    assert again and all(plan.instance is not None for plan in again)


@pytest.mark.parametrize("make", [
    lambda n: torch.ones(n, 5).add(torch.ones(5), alpha=2), lambda n: torch.ones(n, 5, dtype=torch.bfloat16) * 2,
    lambda n: torch.arange(n) / 3, lambda n: torch.zeros(n, 6, dtype=torch.int32).t().sum(0),
    lambda n: torch.full((n,), 2) == 2,
    lambda n: torch.cat([torch.ones(n, 2), torch.ones(n + 1, 2, dtype=torch.float64)]),
    lambda n: torch.ones(n, 4)[torch.tensor([1, 2])], lambda n: torch.ones(n, 4).softmax(0),
])
def test_plans_of_a_class_are_those_made_alone(make, monkeypatch):
    """What follows from the signature is not found out again for each size, and is the same."""
    pairs, of_class = [], class_plans.of_class

    def compared_plan(op, operands, static):
        plan = of_class(op, operands, static)
        if plan is not None:
            pairs.append((plan, planning.build(op, operands, static, by_class=False)))
        return plan

    monkeypatch.setattr(class_plans, "of_class", compared_plan)
    results = [make(n) for n in (150, 157)]
    if native.module is not None:
        recorded_calls.configure_class_plans(type("Other", (), {}))  # what C plans is compared in tests/eager/call
    monkeypatch.setattr(class_plans, "in_c", None)
    try:
        results += [make(n) for n in (164, 171)]
    finally:
        if native.module is not None:
            recorded_calls.configure_class_plans()
    assert pairs and len(results) == 4
    for plan, alone in pairs:
        for name in ("geometries", "element", "differentiable", "scalars", "is_single", "inputs", "result_type"):
            assert getattr(plan, name) == getattr(alone, name), name
        assert (plan.checks is None) == (alone.checks is None)
        if plan.checks is not None:
            assert plan.checks.bounds == alone.checks.bounds
        assert plan.static == alone.static and plan.structure.slots == alone.structure.slots


def _loss(lib, n):
    """Calls on dense, transposed, repeated, conjugated and half-known operands of size ``n``, and two derivatives."""
    lib.manual_seed(0)
    F = lib.nn.functional
    x = (lib.arange(n * 6.0).reshape(n, 6) / 50).requires_grad_()
    w = (lib.arange(30.0).reshape(6, 5) / 9).requires_grad_()
    y = x @ w
    rows = [y, y.t(), y.t().exp(), y[:, :1] * y, lib.ones(1, 1).expand(n, 5) + y, y[:, None].transpose(0, 1) + 1, y[::2].tanh()]
    wide = F.layer_norm(y, (5,)) + F.embedding(lib.arange(n) % 6, w) + y.sum(1, keepdim=True)
    rows += [wide, wide.max(1).values, wide.max(1).indices, lib.cat([y, wide], 1), lib.stack([y, y], 0).mean(0)]
    rows += [y.clone().mul_(2), y.detach().to(lib.float64).add_(wide.detach())]
    rows.append(lib.zeros(n, 3).index_add(1, lib.tensor([0, 2]), y[:, :2]))
    z = lib.view_as_complex(y[:, :4].clone(memory_format=lib.contiguous_format).reshape(n, 2, 2)).conj() * 2
    loss = sum(r.sum() for r in rows if r.is_floating_point()) + lib.view_as_real(z.resolve_conj()).sum()
    first = lib.autograd.grad(loss, (x, w), create_graph=True)
    second = lib.autograd.grad(sum((g * g).sum() for g in first), (x, w), retain_graph=True)
    some = lib.autograd.grad(F.cross_entropy(y, lib.arange(n) % 5) + wide.max(1).values.sum(), x)
    return [*rows, z, *first, *second, *some]


def test_plans_made_after_others_are_pytorchs():
    for n in (40, 47, 51, 64, 6, 5, 73, 3, 1):  # also sizes equal to others by chance
        for ours, theirs in zip(_loss(torch, n), _loss(oracle, n), strict=True):
            assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype) == str(theirs.dtype)
            strides = [[s for s, k in zip(t.stride(), t.shape) if k > 1] for t in (ours, theirs)]
            assert strides[0] == strides[1]
            np.testing.assert_allclose(ours.detach().resolve_conj().numpy(), theirs.detach().resolve_conj().numpy(), 2e-4, 2e-4)


def test_what_a_plan_becomes_later_is_not_its_models():
    def step(n):
        x = torch.ones(n, dtype=torch.int32)
        x += torch.ones(n, dtype=torch.int64)  # the plan of the sum is changed to write int32
        return x.dtype, (torch.ones(n, dtype=torch.int32) + torch.ones(n, dtype=torch.int64)).dtype, x.sum().item()

    assert [step(n) for n in (81, 85, 91)] == [(torch.int32, torch.int64, 2 * n) for n in (81, 85, 91)]


def _unbounded_caches():
    """{where: entries} of the package's function caches that keep whatever comes."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "ftorch":
            for key, value in list(vars(module).items()):
                if isinstance(value, functools._lru_cache_wrapper) and value.cache_parameters()["maxsize"] is None:
                    found[name, key] = value.cache_info().currsize
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_new_sizes_leave_nothing_in_caches_without_a_bound(program):
    for n, m in SIZES:
        program(torch, n, m, np.random.default_rng(n))[0].sum().item()
    before = _unbounded_caches()
    for n in range(90, 110):
        program(torch, n, 2 * n - 60, np.random.default_rng(n))[0].sum().item()
    assert len(before) > 20
    assert {k: n - before.get(k, 0) for k, n in _unbounded_caches().items() if n - before.get(k, 0) >= 10} == {}


def test_plans_of_all_ops_together_are_bounded(monkeypatch):
    def kept():
        return sum(len(op.plans) for op in list(_ALL_OPS))

    plan_module.kept.clear()  # some of those of other tests are gone already
    monkeypatch.setattr(plan_module, "_MOST_OF_ALL", 200)
    for n in range(120, 170):
        ours, theirs = (_mlp(lib, n, 2 * n - 99, np.random.default_rng(n)) for lib in (torch, oracle))
        np.testing.assert_allclose(ours[1].numpy(), theirs[1].numpy(), rtol=2e-4, atol=2e-5)
    some = kept()
    for n in range(170, 270):
        _mlp(torch, n, 2 * n - 99, np.random.default_rng(n))[0].item()
    assert kept() <= some + 20 + plan_module.AT_ONCE  # C asks for the bound now and then


def test_a_derivative_has_a_class_where_its_samples_would_not_fit_into_memory():
    def step(n, m, k):
        q = torch.ones(n, 4, m, k, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        return q.grad

    for sizes in ((5, 41, 32), (7, 53, 32), (6, 47, 32)):
        step(*sizes).sum().item()
    calls = []
    kept = planning.abstract_results
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "abstract_results", lambda *a: calls.append(a) or kept(*a))
        assert step(9, 61, 32).shape == (9, 4, 61, 32)
    assert not calls


def test_sizes_that_stay_have_a_class_where_strides_change():
    w = torch.ones(30, 16)
    for n in range(20, 32):
        x = torch.arange(n * 16.0).view(1, n, 16)
        assert F.linear(x[:, -1], w)[0, 0].item() == sum(range(n * 16 - 16, n * 16))
    x = torch.ones(1, 40, 16)
    calls = []
    kept = planning.abstract_results
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "abstract_results", lambda *a: calls.append(a) or kept(*a))
        F.linear(x[:, -1], w)[0, 0].item()
    assert not calls


@pytest.mark.parametrize("name", ["masked_fill", "where", "clamp", "relu", "softmax", "cumsum", "index_select", "gather"])
def test_derivatives_of_new_sizes_trace_nothing(name, monkeypatch):
    """Also where an inner call of JAX's takes an operand that it does not need."""
    from ftorch.eager.autograd import derivative_kernels

    calls = {
        "masked_fill": lambda x: x.masked_fill(x[:, :1] > 0, -1.0), "where": lambda x: torch.where(x > 0, x, 0.5),
        "clamp": lambda x: x.clamp(-0.5, 0.5), "relu": torch.relu, "softmax": lambda x: x.softmax(-1),
        "cumsum": lambda x: x.cumsum(0), "index_select": lambda x: x.index_select(0, torch.tensor([1, 2])),
        "gather": lambda x: x.gather(1, torch.zeros(len(x), 1, dtype=torch.int64)),
    }
    traced, used = [], derivative_kernels.used_operands
    monkeypatch.setattr(derivative_kernels, "used_operands", lambda *given: (traced.append(1), used(*given))[1])
    for rows, columns in ((31, 43), (37, 53), (41, 59), (47, 61), (67, 71)):
        traced.clear()
        x = torch.randn(rows, columns, requires_grad=True)
        calls[name](x).square().sum().backward()
    assert not traced


_STRIDED = {
    "columns subtracted": lambda lib, x, y: x[:, 2:] - x[:, :2],
    "rows and columns added": lambda lib, x, y: x[:, :1] + y[:, 0],
    "largest of pairs": lambda lib, x, y: lib.maximum(x[:, None, :2], y[None, :, 2:]),
    "transposes": lambda lib, x, y: x.t() * x.t(),
    "a transpose and rows": lambda lib, x, y: x.t().sub(x[:, 0], alpha=2),
    "permuted": lambda lib, x, y: lib.where(x[None].permute(2, 1, 0) > 0, x.t()[..., None], 1.0),
    "clamped": lambda lib, x, y: x.t().clamp(min=0),
    "a power": lambda lib, x, y: 2.0 ** x.t()[:, ::2],
    "expanded": lambda lib, x, y: x[:, None].expand(-1, y.shape[0], -1).exp(),
    "channels last": lambda lib, x, y: (x.view(1, -1, 2, 2).contiguous(memory_format=lib.channels_last) + 1).relu(),
}


@pytest.mark.parametrize("name", _STRIDED)
def test_new_sizes_of_strided_operands_are_planned_by_their_class(name, monkeypatch):
    """Arguments are not laid out over the schema again, and strides are PyTorch's."""
    function, planned = _STRIDED[name], []

    def laid_out(definition, *rest):
        planned.append(definition.name)
        return laid_out_before(definition, *rest)

    laid_out_before = planning.laid_out
    monkeypatch.setattr(planning, "laid_out", laid_out)
    for turn, (n, m) in enumerate([*SIZES, (91, 77), (58, 49)]):
        rng = np.random.default_rng(turn)
        arrays = [rng.standard_normal((k, 4)).astype(np.float32) for k in (n, m)]
        if turn == 6:
            planned.clear()
        found, expected = function(torch, *_tensors(torch, *arrays)), function(oracle, *_tensors(oracle, *arrays))
        assert found.shape == expected.shape and found.stride() == expected.stride()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert not planned


@pytest.mark.parametrize("stride", [3, 5, 8, 11, 16])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_strides_give_pytorchs_sizes_at_all_lengths(stride, padding):
    """Of several divisions that fit the sample sizes only one is right: a length where they differ is traced, too."""

    def sizes(lib):
        w = lib.ones(4, 4, 6)
        return [tuple(lib.nn.functional.conv1d(lib.ones(1, 4, n), w, stride=stride, padding=padding).shape) for n in lengths]

    lengths = [*range(40, 90), *range(201, 240), *range(1000, 1030)]
    assert sizes(torch) == sizes(oracle)


def test_layers_of_several_widths_share_a_class(monkeypatch):
    """What has not changed between a network's layers is not what stays: their widths differ, the batch is the same."""
    layers = [torch.nn.GRU(24, 6), torch.nn.GRU(40, 6)]

    def step(n):
        for layer in layers:
            torch.nn.functional.group_norm(torch.randn(n, layer.input_size), 8).sum().item()
            x = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(n, 5, layer.input_size), [n, n - 2, n - 3, 4, 1])
            layer(x)[1].sum().backward()

    for n in (11, 17, 23):
        step(n)
    traced, kept = [], planning.abstract_results
    monkeypatch.setattr(planning, "abstract_results", lambda *given: (traced.append(given), kept(*given))[1])
    for n in (29, 37, 41, 53):
        step(n)
    assert not traced


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "exp", "square", "softmax", "matmul", "layer_norm"])
def test_second_derivatives_of_new_sizes_trace_nothing(name, monkeypatch):
    from ftorch.eager.autograd import derivative_kernels

    def step(lib, rows):
        x = lib.linspace(-1, 1, rows * 6, dtype=lib.float64).reshape(rows, 6).requires_grad_()
        y = {
            "matmul": lambda: x @ x.T, "softmax": lambda: x.softmax(1),
            "layer_norm": lambda: lib.nn.functional.layer_norm(x, (6,)),
        }.get(name, lambda: getattr(lib, name)(x))()
        (g,) = lib.autograd.grad(y.square().sum(), x, create_graph=True)
        return lib.autograd.grad(g.square().sum(), x)[0].numpy()

    traced = []
    for module, function in ((derivative_kernels, "used_operands"), (planning, "abstract_results")):
        kept = getattr(module, function)
        monkeypatch.setattr(module, function, lambda *given, kept=kept: (traced.append(given), kept(*given))[1])
    for rows in (31, 37, 41, 47, 67):
        traced.clear()
        np.testing.assert_allclose(step(torch, rows), step(oracle, rows), rtol=2e-4, atol=2e-5)
    assert not traced


REGIMES = {
    "cdist": lambda lib, n: lib.cdist(lib.linspace(0, 1, n * 3).reshape(n, 3), lib.linspace(0, 2, 60).reshape(20, 3)),
    "adaptive average": lambda lib, n: lib.nn.functional.adaptive_avg_pool1d(lib.linspace(0, 1, 2 * n).reshape(1, 2, n), 5),
    "adaptive maximum": lambda lib, n: lib.nn.functional.adaptive_max_pool1d(lib.linspace(0, 1, 2 * n).reshape(1, 2, n), 4),
    "spectrogram": lambda lib, n: lib.stft(
        lib.linspace(0, 1, n), 20, 3, window=lib.ones(20), center=False, return_complex=True
    ).abs(),
    "inverse of a spectrum": lambda lib, n: lib.fft.irfft(lib.fft.rfft(lib.linspace(0, 1, 2 * n).reshape(2, n)), n=n),
    "ctc": lambda lib, n: lib.nn.functional.ctc_loss(
        lib.linspace(-1, 1, n * 2 * 6).reshape(n, 2, 6).log_softmax(2), lib.ones(2, 4, dtype=lib.int64),
        lib.tensor([n, n - 1]), lib.tensor([4, 2]),
    ),
}


@pytest.mark.parametrize("name", REGIMES)
def test_kernels_that_compare_or_refuse_sizes_have_classes(name, monkeypatch):
    """Each way that a kernel goes is a class; what it refuses at other sizes raises PyTorch's error still."""

    def values_of(lib, n):
        try:
            return REGIMES[name](lib, n).numpy()
        except RuntimeError as error:
            return str(error)

    def compare(n):
        mine, theirs = values_of(torch, n), values_of(oracle, n)
        if isinstance(theirs, str):
            assert mine == theirs
        else:
            np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)

    for n in (*range(30, 60), *range(17, 30)):
        compare(n)
    traced, kept = [], planning.abstract_results
    monkeypatch.setattr(planning, "abstract_results", lambda *given: (traced.append(given), kept(*given))[1])
    for n in (61, 67, 71, 83, 119):  # that divide by nothing: even windows are of another kind
        compare(n)
    assert not traced


def test_new_numbers_of_examples_trace_nothing_under_vmap(monkeypatch):
    def step(lib, n):
        w, x = lib.linspace(-1, 1, 32).reshape(8, 4), lib.linspace(0, 1, n * 8).reshape(n, 8)
        return lib.func.vmap(lib.func.grad(lambda w, x: (x @ w).tanh().sum()), (None, 0))(w, x).numpy()

    for n in (11, 17, 23):
        step(torch, n)
    traced, kept = [], planning.abstract_results
    monkeypatch.setattr(planning, "abstract_results", lambda *given: (traced.append(given), kept(*given))[1])
    for n in (29, 37, 41):
        np.testing.assert_allclose(step(torch, n), step(oracle, n), 1e-4, 1e-5)
    assert not traced


LAYOUTS = {
    "conv2d": lambda lib, x: lib.nn.functional.conv2d(x, lib.ones(4, 3, 3, 5), stride=2),
    "conv2d of images": lambda lib, x: lib.nn.functional.conv2d(
        x.to(memory_format=lib.channels_last), lib.ones(4, 3, 3, 5)
    ),
    "conv_transpose2d": lambda lib, x: lib.nn.functional.conv_transpose2d(
        x, lib.ones(3, 4, 2, 2), stride=2
    ),
    "group_norm": lambda lib, x: lib.nn.functional.group_norm(x, 3),
    "batch_norm": lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
    "interpolate": lambda lib, x: lib.nn.functional.interpolate(
        x, scale_factor=2.0, mode="bilinear"
    ),
    "adaptive_avg_pool2d": lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, (3, 4)),
    "scaled_dot_product_attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(
        x, x, x
    ),
    "rfft": lambda lib, x: lib.fft.rfft(x).abs(),
    "stft": lambda lib, x: lib.stft(
        x.flatten(), 20, 3, window=lib.ones(20), return_complex=True
    ).abs(),
    "select": lambda lib, x: x.requires_grad_()[:, 1].square().sum().backward() or x.grad,
    "slice": lambda lib, x: x.requires_grad_()[..., 2:-1].square().sum().backward() or x.grad,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_new_sizes_are_planned_by_their_class_whatever_says_the_layout(name, monkeypatch):
    """Results whose strides a function of the op's says, kernels that refuse sizes, gradients of views."""

    def step(lib, n):
        y = LAYOUTS[name](lib, lib.linspace(-1, 1, 2 * 3 * n * (n + 6)).reshape(2, 3, n, n + 6))
        return y.stride(), y.numpy()

    for n in (11, 17, 29, 23, 13, 37):
        step(torch, n)
    planned, kept = [], planning.check_arguments
    monkeypatch.setattr(
        planning, "check_arguments", lambda *given: (planned.append(given), kept(*given))[1]
    )
    for n in (53, 41, 59, 67):
        (strides, mine), (expected, theirs) = step(torch, n), step(oracle, n)
        assert strides == expected
        np.testing.assert_allclose(mine, theirs, 2e-4, 1e-4)
    assert not planned


def test_sizes_that_do_not_fit_raise_after_others_were_planned():
    """A kernel's checks are asked, too, where a plan is made after another's."""

    def values_of(lib, n, width):
        x = lib.linspace(0, 1, 2 * 3 * n * n).reshape(2, 3, n, n)
        try:
            return [
                lib.nn.functional.conv2d(x, lib.ones(4, 3, width, width)).sum().item(),
                lib.stft(x[0, 0, 0], width, 3, window=lib.ones(width), return_complex=True)
                .abs()
                .sum()
                .item(),
            ]
        except RuntimeError as error:
            return str(error)

    for n, width in (
        (30, 7),
        (41, 9),
        (37, 12),
        (53, 15),
        (12, 15),
        (61, 22),
        (17, 23),
        (67, 25),
        (20, 31),
    ):
        mine, theirs = values_of(torch, n, width), values_of(oracle, n, width)
        if isinstance(theirs, str):
            assert mine == theirs
        else:
            np.testing.assert_allclose(mine, theirs, 1e-3)
