"""`swap_tensors`, `set_module`, hooks' helpers and `ThroughputBenchmark` against PyTorch's."""

import io
import re
import threading
import warnings
import weakref

import pytest
import torch as reference

import ftorch as torch


def gives_same(program):
    """What a program gives with both packages, which must be the same, with its warnings."""
    results = []
    for package in (reference, torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = program(package)
            except Exception as e:  # noqa: BLE001
                result = type(e).__name__, str(e)
        notes = [re.sub("0x[0-9a-f]+", "", str(w.message)) for w in caught]
        results.append((result, notes))
    assert results[1] == results[0]
    return results[0]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("holder", [
    lambda t, x: x[1:], lambda t, x: x.unbind(), lambda t, x: x.detach(), lambda t, x: x * 2, lambda t, x: x.detach().numpy(),
    lambda t, x: x[1:][:1], lambda t, x: (x[1:], x * 2),
])
def test_tensors_with_views_are_not_swapped(holder, requires_grad):
    def program(t, second):
        x, y = (t.arange(3.0).requires_grad_(requires_grad) for _ in range(2))
        held = holder(t, y if second else x)  # noqa: F841
        counts = x._use_count(), y._use_count()
        t.utils.swap_tensors(x, y)
        return counts

    for second in (False, True):
        gives_same(lambda t, second=second: program(t, second))


@pytest.mark.parametrize("action", [
    lambda t, m: m.double(), lambda t, m: m.cpu(), lambda t, m: m.float(), lambda t, m: m.to_empty(device="meta"),
])
@pytest.mark.parametrize("held", ["weight", "grad", "none"])
def test_conversions_that_swap_parameters_refuse_views(action, held):
    def program(t):
        t.__future__.set_swap_module_params_on_conversion(True)
        try:
            m = t.nn.Linear(2, 3)
            m(t.ones(2)).sum().backward()
            view = {"weight": lambda: m.weight.view(6), "grad": lambda: m.weight.grad.view(6), "none": lambda: None}[held]()
            action(t, m)
            return str(m.weight.dtype), str(m.weight.device), str(m.weight.grad.dtype), view is None
        finally:
            t.__future__.set_swap_module_params_on_conversion(False)

    gives_same(program)



def described(t):
    grad = None if t.grad is None else t.grad.tolist()
    return type(t).__name__, t.tolist(), t.requires_grad, grad, t.is_leaf, sorted(vars(t))


@pytest.mark.parametrize("make", [
    lambda t: (t.ones(2), t.zeros(3, dtype=t.int32)),
    lambda t: (t.nn.Parameter(t.ones(2)), t.zeros(3).t()),
    lambda t: (t.ones(2, requires_grad=True), t.arange(6.0).reshape(2, 3).t()),
    lambda t: (t.nn.Buffer(t.ones(1)), t.nn.Parameter(t.zeros(0), requires_grad=False)),
], ids=["plain", "parameter", "grad", "buffer"])
def test_swapping(make):
    def program(t):
        first, second = make(t)
        first.note = 1
        if first.requires_grad:
            first.grad = t.full_like(first, 3)
            first.register_hook(lambda grad: grad * 10)
        identity = id(first), id(second)
        t.utils.swap_tensors(first, second)
        assert identity == (id(first), id(second))
        seen = [described(first), described(second)]
        if second.requires_grad:
            (second * 2).sum().backward()
            seen.append(described(second))
        first.add_(1)
        t.utils.swap_tensors(first, second)
        return [*seen, described(first), described(second)]

    gives_same(program)


def test_a_module_sees_what_was_swapped():
    def program(t):
        layer = t.nn.Linear(2, 1, bias=False)
        t.utils.swap_tensors(layer.weight, t.nn.Parameter(t.ones(1, 2)))
        out = layer(t.ones(2))
        out.backward()
        return out.tolist(), layer.weight.grad.tolist(), layer.state_dict()["weight"].tolist()

    gives_same(program)


def test_swapping_refused():
    def weakly(t, position):
        tensors = [t.ones(2), t.ones(2)]
        reference = weakref.ref(tensors[position])
        t.utils.swap_tensors(*tensors)
        return reference

    def slots(t):
        class Own(t.Tensor):
            __slots__ = ("own",)

        t.utils.swap_tensors(t.ones(2).as_subclass(Own), t.ones(2))

    def between_forward_and_backward(t):
        x, y = t.ones(2, requires_grad=True), t.zeros(2, requires_grad=True)
        loss = (x * 2).sum()
        t.utils.swap_tensors(x, y)
        loss.backward()

    for refused in (
        lambda t: weakly(t, 0), lambda t: weakly(t, 1), slots, between_forward_and_backward
    ):
        assert gives_same(refused)[0][0] == "RuntimeError"


def test_set_module():
    def program(t):
        class Own:
            pass

        t.utils.set_module(Own, "somewhere")
        return repr(Own)

    assert "somewhere" in gives_same(program)[0]
    assert gives_same(lambda t: t.utils.set_module(int, 3))[0][0] == "TypeError"


def loud(grad):
    return None


def test_hooks_that_are_not_saved():
    def program(t):
        hooks = t.utils.hooks

        @hooks.unserializable_hook
        def quiet(grad):
            return None

        x = t.ones(2, requires_grad=True)
        hooks.warn_if_has_hooks(x)
        for hook in quiet, loud:
            x.register_hook(hook)
        hooks.warn_if_has_hooks(x)
        p = t.nn.Parameter(t.ones(2))
        p.register_hook(loud)
        for saved in x, p, {"x": x.detach()}:  # only the first one loses a hook with a word
            t.save(saved, io.BytesIO())

    assert len(gives_same(program)[1]) == 2


def test_backward_hooks_made_by_hand():
    def program(t):
        seen = []

        def after(module, grad_input, grad_output):
            seen.append([[None if g is None else g.tolist() for g in gs]
                         for gs in (grad_input, grad_output)])
            return tuple(None if g is None else 2 * g for g in grad_input)

        def before(module, grad_output):
            return tuple(3 * g for g in grad_output)

        hook = t.utils.hooks.BackwardHook("module", [after], [before])
        x = t.ones(2, requires_grad=True)
        a, n = hook.setup_input_hook((x, 5))
        hook.setup_output_hook(a * n).sum().backward()
        return seen, x.grad.tolist()

    gives_same(program)


# --- throughput ------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_throughput(threads):
    def program(t):
        bench = t.utils.ThroughputBenchmark(t.nn.Linear(2, 2).double())
        bench.add_input(t.ones(2, dtype=t.double))
        bench.add_input(input=t.zeros(3, 2, dtype=t.double))
        stats = bench.benchmark(threads, num_warmup_iters=2, num_iters=7)
        total = stats.num_iters * stats.latency_avg_ms / 1000 / threads
        return (
            stats.num_iters, abs(stats.total_time_seconds / total - 1) < 1e-6,
            abs(stats.iters_per_second * total / stats.num_iters - 1) < 1e-6,
            re.sub(r"[\d.]+(s|ms|us)?$", "", str(stats), flags=re.MULTILINE),
            tuple(bench.run_once(t.ones(1, 2, dtype=t.double)).shape),
        )

    assert gives_same(program)[0][0] == 7
    assert gives_same(lambda t: t.utils.ThroughputBenchmark(abs).benchmark())[0][0] == "RuntimeError"


def test_throughput_of_all_inputs_in_several_threads(tmp_path):
    seen = set()

    def module(x, y=0):
        seen.add((threading.get_ident(), int(x) + y))

    bench = torch.utils.ThroughputBenchmark(module)
    bench.add_input(torch.tensor(1))
    bench.add_input(torch.tensor(1), y=1)
    path = tmp_path / "profile.json"
    bench.benchmark(2, num_warmup_iters=20, num_iters=5, profiler_output_path=str(path))
    assert {value for _, value in seen} == {1, 2}
    assert path.stat().st_size > 0


def test_throughput_raises_what_the_module_raises():
    def module(x):
        raise KeyError(x)

    bench = torch.utils.ThroughputBenchmark(module)
    bench.add_input(3)
    with pytest.raises(KeyError, match="3"):
        bench.benchmark(num_calling_threads=2)


def test_times_as_text():
    def program(t):
        text = t.utils.throughput_benchmark.format_time
        return [text(3), text(3e3), text(time_ms=2.5), text(time_ms=1e4), text(time_s=0.5), text(0)]

    gives_same(program)
    assert gives_same(lambda t: t.utils.throughput_benchmark.format_time(1, 2))[0][0] == "AssertionError"


def test_tensors_of_inference_mode_with_views_are_swapped():
    def program(t):
        with t.inference_mode():
            a = t.ones(2)
            view = a[:1]
        count, b = a._use_count(), t.zeros(3)
        t.utils.swap_tensors(a, b)
        return count, a.tolist(), b.tolist(), view.tolist()

    assert gives_same(program)[0][0] == 1
