"""Functions chosen by patterns (``torch.fx.experimental.unification.match``), in both libraries."""

import importlib

import pytest


@pytest.mark.parametrize("package", ["torch", "ftorch"])
def test_patterns(package):
    home = f"{package}.fx.experimental.unification"
    match = importlib.import_module(f"{home}.match")
    Var = importlib.import_module(f"{home}.variable").Var
    x = Var("x")
    d = match.VarDispatcher("d")
    d.add(("inc", x), lambda x: x + 1)
    assert d("inc", 10) == 11
    with pytest.raises(NotImplementedError):
        d("dec", 1)
    assert match.freeze([1, {2: 3}]) == (1, frozenset({(2, 3)}))
    assert match.first("AB") == "A"
