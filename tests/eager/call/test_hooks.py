"""The slots that layers above the call path fill."""

import pytest

import ftorch as torch
from ftorch.eager.call.hooks import Hooks, hooks

# Empty until a mode, a subclass, a mapped function or a recording needs them.
OPTIONAL = {
    "alias",
    "created",
    "custom_function",
    "first_gradient",
    "gradient",
    "is_compiling",
    "lifted",
    "python",
    "python_composite",
    "python_disabled",
    "python_out",
    "python_overload",
    "python_view",
    "subclass",
    "subclass_view",
    "unsafe_view",
    "view_gradient",
}


def test_every_slot_that_calls_need_is_filled():
    assert torch.ones(1).item() == 1
    empty = {name for name in Hooks.__slots__ if getattr(hooks, name) is None}
    assert empty <= OPTIONAL


def test_names_that_are_no_slots_fail_where_they_are_used():
    with pytest.raises(AttributeError, match="as_strided"):
        hooks.as_strided = print
    with pytest.raises(AttributeError, match="as_strided"):
        hooks.as_strided  # noqa: B018
