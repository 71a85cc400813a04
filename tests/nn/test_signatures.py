"""``inspect.signature`` of functions in ``torch.nn.functional``, which tracers and schema tools read."""

import inspect

import pytest
import torch as reference

import ftorch

_OTHERS = (
    "handle_torch_function",
    "scaled_grouped_mm",
    "scaled_mm",
)  # whose annotations are type variables, and enumerations


def _public():
    for name, function in sorted(vars(reference.nn.functional).items()):
        if not name.startswith("_") and inspect.isfunction(function) and name not in _OTHERS:
            if hasattr(ftorch.nn.functional, name):
                yield name, str(inspect.signature(function))


def test_signatures_of_functional():
    found = dict(_public())
    assert len(found) > 80
    for name, expected in found.items():
        if expected != "(*args, **kwargs)":
            assert str(inspect.signature(getattr(ftorch.nn.functional, name))) == expected, name


@pytest.mark.parametrize("name", ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"))
def test_overrides_are_asked_in_functional(name):
    arguments = ((ftorch.ones(1), 2),) if name == "has_torch_function" else (ftorch.ones(1),)
    assert getattr(ftorch.nn.functional, name)(*arguments) is False
