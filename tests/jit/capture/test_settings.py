"""Options, modes, settings and marks of ``torch.compile``: what PyTorch takes and refuses, and its words."""

import importlib

import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.runtime import compilation

for _m in (pt, ft):
    for _name in ("_inductor.config", "_dynamo.config", "_functorch.config", "compiler.config"):
        importlib.import_module(f"{_m.__name__}.{_name}")


def _f(x):
    return x + 1


def _asked(m, settings):
    """A backend that says what it is called with."""

    def backend(gm, example_inputs, **kwargs):
        settings.append(kwargs)
        return gm.forward

    return backend


def _with_settings(m, **settings):
    seen = []
    m._dynamo.reset()
    m.compile(_f, backend=_asked(m, seen), **settings)(m.ones(2))
    return seen


def _aliased(m):
    config = m._dynamo.config
    with config.patch(cache_size_limit=5):
        inside = config.recompile_limit, m.compiler.config.recompile_limit
    with config.patch("error_on_recompile", True), config.patch({"recompile_limit": 3}):
        return inside, config.error_on_recompile, config.cache_size_limit


def _decorated(m):
    @m._dynamo.config.patch(verbose=True)
    def function():
        return m._dynamo.config.verbose

    return function(), m._dynamo.config.verbose


def _marked(m):
    x = m.ones(2, 3)
    m._dynamo.mark_dynamic(x, [0, 1])
    m._dynamo.maybe_mark_dynamic(x, 1)
    m._dynamo.mark_static(x)
    return x._dynamo_dynamic_indices, x._dynamo_weak_dynamic_indices, x._dynamo_static_indices


class _Callable:
    def __call__(self, x):
        return x * 2


def _of_a_class(m):
    class Doubles(_Callable):
        def __call__(self, x):
            return x * 2

    return m.compile(Doubles) is Doubles and Doubles()(m.ones(1)).item()


_CASES = {
    "unknown option": lambda m: m.compile(_f, options={"nope": 1}),
    "type of an option": lambda m: m.compile(_f, options={"max_autotune": "a"}),
    "number for a switch": lambda m: m.compile(_f, options={"epilogue_fusion": 1}),
    "options": lambda m: m.compile(_f, options={"max-autotune": True, "triton.cudagraphs": False})(m.ones(1)).item(),
    "options no dict": lambda m: m.compile(_f, options=[1]),
    "unknown mode": lambda m: m.compile(_f, mode="nope"),
    "mode lite": lambda m: m.compile(_f, mode="lite")(m.ones(1)).item(),
    "mode and options": lambda m: m.compile(_f, mode="default", options={"max_autotune": True}),
    "another backend's mode": lambda m: _with_settings(m, mode="mine"),
    "another backend's options": lambda m: _with_settings(m, options={"mine": 1}),
    "options that a backend does not take": lambda m: m.compile(
        _f, backend=lambda gm, inputs: gm.forward, options={"mine": 1})(m.ones(1)),
    "unknown backend": lambda m: m.compile(_f, backend="nope"),
    "no backend": lambda m: m.compile(_f, backend=3)(m.ones(1)),
    "number": lambda m: m.compile(3),
    "string": lambda m: m.compile("f"),
    "a class": _of_a_class,
    "dynamic": lambda m: m.compile(_f, dynamic=1)(m.ones(1)),
    "fullgraph": lambda m: m.compile(_f, fullgraph=1)(m.ones(1)).item(),
    "disable": lambda m: m.compile(_f, disable=True) is _f,
    "positional": lambda m: m.compile(_f, True),
    "no model twice": lambda m: m.compile()(None),
    "unknown setting": lambda m: m._dynamo.config.nope,
    "setting an unknown one": lambda m: setattr(m._dynamo.config, "nope", 1),
    "patching an unknown one": lambda m: m._dynamo.config.patch(nope=1).__enter__(),
    "patching by a number": lambda m: m._dynamo.config.patch(3),
    "patching twice": lambda m: m._dynamo.config.patch({"verbose": True}, verbose=False),
    "aliases": _aliased,
    "decorator": _decorated,
    "copies": lambda m: sorted(m._dynamo.config.get_config_copy())[:1] != [],
    "save and load": lambda m: m._dynamo.config.load_config(m._dynamo.config.save_config()),
    "inductor's": lambda m: m._inductor.config.nope,
    "in a group": lambda m: setattr(m._inductor.config.triton, "nope", 1),
    "in a group, by patch": lambda m: m._inductor.config.patch({"triton.nope": 1}).__enter__(),
    "functorch's": lambda m: m._functorch.config.nope,
    "list of modes": lambda m: m._inductor.list_mode_options(),
    "of a mode": lambda m: m._inductor.list_mode_options("max-autotune"),
    "of an unknown mode": lambda m: m._inductor.list_mode_options("nope"),
    "stance": lambda m: m.compiler.set_stance("force_eager", force_backend="eager"),
    "backends": lambda m: [b for b in m.compiler.list_backends() if b not in _REGISTERED],
    "registering": lambda m: m._dynamo.register_backend(3),
    "optimize": lambda m: m._dynamo.optimize("nope"),
    "marks": _marked,
    "mark by text": lambda m: m._dynamo.mark_dynamic(m.ones(2), "a"),
    "mark of a number": lambda m: m._dynamo.mark_static_address(3),
    "disabled": lambda m: m._dynamo.is_dynamo_disable_recursive(m.compiler.disable(_f)),
}


_REGISTERED = ("mine", "shows")  # by other tests and examples of this process


def _outcome(m, case):
    m._dynamo.reset()
    try:
        return case(m)
    except Exception as error:
        text = str(error).splitlines()[0].replace("ftorch.", "torch.")
        return type(error).__name__, text.partition("known options")[0]


@pytest.mark.parametrize("name", _CASES)
def test_like_pytorch(name):
    expected = _outcome(pt, _CASES[name])
    found = _outcome(ft, _CASES[name])
    if name == "no backend":  # the name in the text is made of Python's id there
        expected, found = expected[0], found[0]
    assert found == expected


def test_names_of_options_are_pytorchs():
    def names(config):
        return {n for n in config.get_config_copy() if not n.startswith("_") and "._" not in n}

    for module in ("_dynamo", "_inductor", "_functorch"):
        theirs = names(getattr(pt, module).config) - {"TYPE_CHECKING"}
        own = names(getattr(ft, module).config)
        assert theirs - own - set(getattr(ft, module).config._aliases) == set()
    assert set(ft._inductor.list_options()) <= set(pt._inductor.list_options())


def test_breaks_raise_where_that_is_asked_for():
    def function(m):
        def inner(x):
            with m._dynamo.error_on_graph_break(True):
                m._dynamo.graph_break()
            return x

        return inner

    for m in (pt, ft):
        with pytest.raises(m._dynamo.exc.Unsupported, match="graph_break"):
            m.compile(function(m), backend="eager")(m.ones(1))


def test_a_stance_with_a_backend():
    seen = []
    compiled = ft.compile(lambda x: x + 1)
    with ft.compiler.set_stance(force_backend=_asked(ft, seen)):
        assert compiled(ft.ones(1)).item() == 2
    assert len(seen) == 1
    assert compiled(ft.ones(2)).tolist() == [2, 2] and len(seen) == 1


_SCALE = 3


def _scaled(x, n=1):
    return x * n * _SCALE


@pytest.mark.parametrize("change", ["size", "dtype", "rank", "number", "global"])
def test_reasons_of_recompilations(change, monkeypatch):
    texts = []
    for m in (pt, ft):
        m._dynamo.reset()
        compiled = m.compile(_scaled, backend="eager", dynamic=False)
        compiled(m.ones(2), 1)
        args = {"size": (m.ones(3), 1), "dtype": (m.ones(2, dtype=m.float64), 1), "rank": (m.ones(1, 2), 1),
                "number": (m.ones(2), 2), "global": (m.ones(2), 1)}[change]
        with monkeypatch.context() as patch, m._dynamo.config.patch(error_on_recompile=True):
            if change == "global":
                patch.setattr(f"{__name__}._SCALE", 4)
            with pytest.raises(m._dynamo.exc.RecompileError) as error:
                compiled(*args)
        texts.append(str(error.value))
    reason = texts[0].partition("0/0: ")[2].splitlines()[0].partition("  #")[0].strip()
    assert reason and reason in texts[1]


# --- XLA's options


def _options(monkeypatch, rounds):
    """XLA's options for a compiled function of so many rounds."""
    found, choose = [], compilation._cpu_options

    def noted(*which):
        found.append(choose(*which))
        return found[-1]

    @ft.compile
    def function(x):
        for _ in range(rounds):
            x = (x.flip(0) + 1).tanh()
        return x

    with monkeypatch.context() as patch:
        patch.setattr(compilation, "_cpu_options", noted)
        function(ft.randn(5, 7)).sum().item()
    return found[-1]


def test_steps_into_the_memory_of_what_they_read_are_vectorized_in_long_programs(monkeypatch):
    """XLA's older loops go by single elements where a result takes its operand's memory: BERT-base in int8 48 ms, not 34."""
    assert _options(monkeypatch, 60) == _options(monkeypatch, 2)
