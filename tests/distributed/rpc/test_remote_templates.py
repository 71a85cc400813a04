"""Modules that are written for remote modules: PyTorch's methods and arguments."""

from __future__ import annotations

import inspect

import pytest
import torch as pt

import ftorch as ft


class Interface:
    def forward(self, x: int, y: int = 3) -> int:  # type: ignore[empty-body]
        pass


def _of(library):
    return __import__(f"{library.__name__}.distributed.nn.jit.instantiator", fromlist=["x"])


class _Owner:
    def owner(self):
        return "somebody"


def test_any_arguments(monkeypatch):
    ours, theirs = (_of(t).instantiate_non_scriptable_remote_module_template() for t in (ft, pt))
    assert [f.__name__ for f in ours._generated_methods] == [f.__name__ for f in theirs._generated_methods]
    for mine, expected in zip(ours._generated_methods, theirs._generated_methods):
        assert str(inspect.signature(mine)) == str(inspect.signature(expected))
    asked = []
    monkeypatch.setattr(ours.rpc, "rpc_async", lambda *a: asked.append(a) or "later")
    module = type("M", (), {"module_rref": _Owner(), "device": "cpu", "is_device_map_set": False})()
    assert ours.forward_async(module, 1, k=2) == "later"
    assert asked == [("somebody", ours._remote_forward, (module.module_rref, "cpu", False, 1), {"k": 2})]
    reference = type("R", (), {"local_value": lambda self: type("N", (), {"forward": lambda s, *a, **k: (a, k)})()})()
    assert ours._remote_forward(reference, "cpu", False, 1, k=2) == ((1,), {"k": 2})


def test_interfaces():
    ours = _of(ft)
    with pytest.raises(ValueError, match="must be a type object decorated by @torch.jit.interface"):
        ours.instantiate_scriptable_remote_module_template(Interface)
    ft.jit.interface(Interface)
    assert ours.get_arg_return_types_from_interface(Interface) == ("x, y", "x: int, y: int = 3", "int")
    made = ours.instantiate_scriptable_remote_module_template(Interface, False)
    assert list(inspect.signature(made.forward).parameters) == ["self", "x", "y"]
    reference = type("R", (), {"local_value": lambda self: type("N", (), {"forward": lambda s, x, y: x + y})()})()
    assert made._remote_forward(reference, "cpu", False, 1, 2) == 3
