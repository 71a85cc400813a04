"""`wrap`, which marks functions of this module for the rest of the process."""

import pytest
import torch as pt

import ftorch as ft

from .both import assert_same_text


def helper(x, y):
    return x * y if y > 0 else x


ft.fx.wrap("helper")
pt.fx.wrap("helper")
ft.fx.wrap("len")
pt.fx.wrap("len")


def test_wrap():
    def f(x):
        return helper(x, len(x))

    mine, theirs = ft.fx.symbolic_trace(f), pt.fx.symbolic_trace(f)
    assert_same_text(mine.code, theirs.code)
    assert mine(ft.ones(3)).tolist() == [3.0] * 3
    assert helper(2, 3) == 6
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        ft.fx.wrap("helper")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        ft.fx.wrap(3)
