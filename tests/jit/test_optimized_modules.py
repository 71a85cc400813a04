"""Modules that ``compile`` makes of modules are modules: their hooks, attributes and classes, against PyTorch's."""

from __future__ import annotations

import warnings

import torch as pt

import ftorch as ft


def _both(program):
    found = []
    for t in (ft, pt):
        t.manual_seed(0)
        inner = t.nn.Linear(2, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(program(t, inner, t.compile(inner, **({"backend": "eager"} if t is pt else {}))))
    assert found[0] == found[1]


def test_hooks_of_its_own():
    def program(t, inner, compiled):
        seen = []

        def say(what, result=None):
            return lambda module, *_: seen.append((what, type(module).__name__)) or result

        handles = [
            compiled.register_forward_pre_hook(say("before")),
            compiled.register_forward_hook(lambda module, args, out: seen.append("changed") or out * 0 + 5),
            inner.register_forward_hook(say("inside")),
            compiled.register_full_backward_hook(say("backward")),
        ]
        found = []
        for _ in range(3):
            x = t.ones(1, 2, requires_grad=True)
            out = compiled(x)
            out.sum().backward()
            found.append((out.tolist(), list(seen)))
            seen.clear()
        lasting = t.nn.modules.module.register_module_forward_hook(say("of all"))
        compiled(t.ones(1, 2))
        lasting.remove()
        for handle in handles:
            handle.remove()
        out = compiled(t.ones(1, 2))
        return found, seen, [round(v, 5) for v in out.flatten().tolist()] == [
            round(v, 5) for v in inner(t.ones(1, 2)).flatten().tolist()
        ]

    _both(program)


def test_whose_attributes():
    def program(t, inner, compiled):
        class Other(type(compiled)):
            own = 1

        compiled.number, compiled.weight.mark = 3, 4
        compiled.__class__ = Other
        compiled.own = 2
        found = [type(compiled).__name__, type(inner).__name__, inner.number, inner.weight.mark, hasattr(inner, "own")]
        del compiled.number
        found += [hasattr(inner, "number"), compiled.own, compiled.eval() is compiled, inner.training, compiled.training]
        return found

    _both(program)
