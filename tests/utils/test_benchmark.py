"""``torch.utils.benchmark`` against PyTorch's: all but the times themselves."""

import itertools
import random

import numpy as np
import pytest
import torch as reference
import torch.utils.benchmark as reference_benchmark

import ftorch as torch
import ftorch.utils.benchmark as benchmark

from ..oracle import assert_shows_same, neutral, unchanged


def timing_shows_same(program):
    """What a program of a package and its ``utils.benchmark`` gives, which must be the same for both."""
    timing = {reference: reference_benchmark, torch: benchmark}
    return assert_shows_same(lambda t: program(t, timing[t]), show=unchanged, text=neutral, ignored=None)


def measurements(b, seed=0):
    """Many made-up measurements."""
    rng = random.Random(seed)
    made = []
    for threads, env, name, description in itertools.product(
        (1, 4), ("master", "branch"), ("small", "large", None), ("add", "mul")
    ):
        if rng.random() < 0.2:
            continue
        task = b.TaskSpec(
            f"f({name})", "pass", label="ops", sub_label=name, description=description, env=env,
            num_threads=threads,
        )
        scale = 10 ** rng.uniform(-6, -3)
        spread = rng.choice([0.01, 0.2, 0.6])
        for _ in range(rng.choice([1, 2])):
            times = [
                100 * scale * (1 + spread * rng.random()) for _ in range(rng.choice([1, 5, 9]))
            ]
            made.append(b.Measurement(100, times, task))
    return made


def described(m):
    text = repr(m)
    assert text.startswith("<") and "Measurement object at 0x" in text
    return text.partition("\n")[2], m.times, m.has_warnings, m.as_row_name, m.title, m.env


def test_measurements():
    def program(t, b):
        made = measurements(b)
        return [described(m) for m in (*made, *b.Measurement.merge(made))]

    timing_shows_same(program)


@pytest.mark.parametrize("seed", range(3))
def test_statistics(seed):
    ours, theirs = (measurements(b, seed) for b in (benchmark, reference_benchmark))
    for m, expected in zip(ours, theirs, strict=True):
        for name in ("median", "mean", "iqr", "significant_figures"):
            np.testing.assert_allclose(getattr(m, name), getattr(expected, name), rtol=1e-12)
        assert m.meets_confidence(0.05) == expected.meets_confidence(0.05)
    with pytest.raises(AttributeError, match="nothing"):
        _ = m.nothing


def test_tasks():
    def program(t, b):
        tasks = [
            b.TaskSpec("x", "pass"), b.TaskSpec("x", "y = 1", sub_label="s", description="d"),
            b.TaskSpec("x\ny", "a\nb", sub_label="s"), b.TaskSpec("x\ny", "", label="l"),
        ]
        return [(task.title, task.setup_str(), task.summarize(), repr(task)[:5]) for task in tasks]

    expected = timing_shows_same(lambda t, b: [entry[:3] for entry in program(t, b)])
    assert len(expected) == 4
    assert benchmark.TaskSpec("x", "y") == benchmark.TaskSpec("x", "y", num_threads=1)


@pytest.mark.parametrize("options", list(itertools.product(
    ("none", "columns", "rows"), (False, True), (False, True))), ids=str)
def test_tables(options):
    colors, trim, highlight = options

    def program(t, b):
        texts = []
        for seed in range(4):
            made = measurements(b, seed)
            other = b.TaskSpec("g", "", label="other", description="only")
            made.append(b.Measurement(1, [0.5], other))
            table = b.Compare(made[:3])
            table.extend_results(made[3:])
            if colors != "none":
                table.colorize(rowwise=colors == "rows")
            if trim:
                table.trim_significant_figures()
            if highlight:
                table.highlight_warnings()
            texts.append(str(table))
        return texts

    assert "threads" in timing_shows_same(program)[0]


def test_tables_of_something_else(capsys):
    assert timing_shows_same(lambda t, b: b.Compare([3]))[0] == "ValueError"
    table = benchmark.Compare(measurements(benchmark))
    table.print()
    assert capsys.readouterr().out == f"{table}\n"


def test_units_and_numbers():
    def program(t, b):
        seen = [b.select_unit(10.0**e * f) for e in range(-11, 3) for f in (1.0, 3.0)]
        seen += [b.unit_to_english(u) for u in ("ns", "us", "ms", "s")]
        seen += [
            b.trim_sigfig(x, n) for x in (3.14159, 314.159, 0.00271, 7, -12.6) for n in (1, 2, 4)
        ]
        seen += [b.ordered_unique([3, 1, 3, 2, 1]), [(x.name, x.value) for x in b.Language]]
        seen += [[(x.name, x.value) for x in b.Colorize]]
        before = t.get_num_threads()
        with b.set_torch_threads(3):
            seen.append(t.get_num_threads())
        return [*seen, t.get_num_threads() == before]

    timing_shows_same(program)
    assert timing_shows_same(lambda t, b: b.trim_sigfig(1.0, 1.5))[0] == "AssertionError"


@pytest.mark.parametrize("arguments", [
    {"stmt": 3}, {"language": "perl"}, {"global_setup": "int x;"},
], ids=str)
def test_misuse_of_timers(arguments):
    assert timing_shows_same(lambda t, b: b.Timer(**arguments))[0] == "ValueError"


def test_timers():
    def program(t, b):
        timer = b.Timer("\n    y = x + n\n", "n = 1", globals={"x": t.ones(2)}, label="add",
                        sub_label="small", description="d", env="e", num_threads=2)
        seen, blocks = [], []
        for m in (
            timer.timeit(3),
            timer.blocked_autorange(lambda n, s: blocks.append(n), min_run_time=0.01),
            timer.adaptive_autorange(max_run_time=0.02),
        ):
            seen.append((m.task_spec.summarize(), m.env, m.num_threads, m.median > 0, m.metadata))
        return seen, len(set(blocks))

    timing_shows_same(program)
    with pytest.raises(ValueError, match="C\\+\\+ cannot be timed"):
        benchmark.Timer(language="c++")


# --- fuzzing --------------------------------------------------------------------------------


def drawn(t, b, parameters, tensors, n=5, **options):
    fuzzer = b.Fuzzer(parameters, tensors, seed=3, **options)
    seen = []
    for made, properties, params in fuzzer.take(n):
        for name, tensor in made.items():
            known = {k: getattr(v, "tolist", lambda v=v: v)() for k, v in properties[name].items()}
            known = {k: tuple(v) if k == "shape" else v for k, v in known.items()}
            layout = tensor.to_dense() if tensor.is_sparse else tensor
            seen.append((name, known, tuple(tensor.shape), layout.stride(), layout.tolist()))
        seen.append(params)
    return seen, fuzzer.rejection_rate


def test_fuzzed_tensors():
    def program(t, b):
        parameters = [
            b.FuzzedParameter("dim", 1, 3, "uniform", strict=True),
            [b.FuzzedParameter(f"k{i}", 1, 20, "loguniform") for i in range(3)],
            b.FuzzedParameter("s", 1, 2, distribution="uniform"),
            b.FuzzedParameter("p", 0.5, 1.0, distribution="uniform"),
        ]
        tensors = [
            b.FuzzedTensor("x", ("k0", "k1", "k2"), ("s", 1, "s"), 0.3, 4, 400, 10_000, "dim"),
            [b.FuzzedTensor("y", ("k0", 2), dtype=t.int32)],
            b.FuzzedTensor(
                "z", (2, "k1"), tensor_constructor=lambda size, dtype, **k: t.ones(size)
            ),
        ]
        return drawn(t, b, parameters, tensors, constraints=[lambda p: p["k0"] > p["k1"]])

    assert timing_shows_same(program)[1] > 0


def test_fuzzed_sparse_tensors():
    def program(t, b):
        parameters = [
            b.FuzzedParameter("n", 4, 9, "uniform"), b.FuzzedParameter("density", 0.1, 0.9, "uniform"),
            b.FuzzedParameter("coalesced", 0, 1, "uniform"),
            b.FuzzedParameter("sparse_dim", 1, 2, "uniform"),
        ]
        sparse = b.utils.sparse_fuzzer.FuzzedSparseTensor
        tensors = [sparse("x", ("n", 3)), sparse("y", ("n", 3), sparse_dim="sparse_dim")]
        return drawn(t, b, parameters, tensors)

    timing_shows_same(program)


def test_misuse_of_fuzzers():
    def error(make):
        return timing_shows_same(lambda t, b: make(b))[0]

    one = {"distribution": "uniform", "minval": 1, "maxval": 2}
    assert error(lambda b: b.FuzzedParameter("x", distribution="normal")) == "AssertionError"
    assert error(lambda b: b.FuzzedParameter("x", distribution={1: -0.5})) == "AssertionError"
    assert error(
        lambda b: b.Fuzzer([b.FuzzedParameter("x", **one)], [b.FuzzedTensor("x", (1,))])
    ) == "ValueError"
    assert error(
        lambda b: next(b.Fuzzer([b.FuzzedParameter("x", **one)], [], [lambda p: False]).take(1))
    ) == "ValueError"


def test_choices_and_aliases():
    """PyTorch 2.13 refuses dicts whose probabilities do sum to one, so it is no oracle here."""
    uniform = benchmark.FuzzedParameter("n", 2, 9, "uniform")
    choice = benchmark.FuzzedParameter(
        "m", distribution={1: 0.5, benchmark.ParameterAlias("n"): 0.5}
    )
    tensors = [benchmark.FuzzedTensor("x", ("n",)), benchmark.FuzzedTensor("y", ("m",))]
    drawn_params = [p for _, _, p in benchmark.Fuzzer([uniform, choice], tensors, seed=0).take(20)]
    assert {p["m"] == p["n"] for p in drawn_params} == {True, False}
    assert all(p["m"] in (1, p["n"]) for p in drawn_params)
    circle = [
        benchmark.FuzzedParameter(a, distribution={benchmark.ParameterAlias(b): 1.0})
        for a, b in ("ab", "ba")
    ]
    with pytest.raises(ValueError, match="ParameterAlias cycle detected"):
        next(benchmark.Fuzzer(circle, []).take(1))
    with pytest.raises(AssertionError, match="not normalized"):
        benchmark.FuzzedParameter("x", distribution={1: 0.5})
    with pytest.raises(AssertionError, match="'minval' must be None"):
        benchmark.FuzzedParameter("x", minval=1, distribution={1: 1.0})
