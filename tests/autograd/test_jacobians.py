"""Jacobians under the older names of ``torch.autograd.gradcheck``."""

import importlib

import pytest

from tests.oracle import LIBRARIES


def _module(t):
    return importlib.import_module(f"{t.__name__}.autograd.gradcheck")


def _outcome(t, look):
    g = _module(t)
    x = t.tensor([1.0, -2.0, 3.0], dtype=t.float64, requires_grad=True)
    y = t.tensor([0.5, 2.0], dtype=t.float64, requires_grad=True)
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    try:
        found = look(g, x, y, z)
    except (ValueError, AssertionError) as error:
        return type(error).__name__, str(error)
    return [a if isinstance(a, bool) else a.detach().numpy().round(4).tolist() for a in _flat(found)]


def _flat(found):
    for a in found:
        if isinstance(a, (tuple, list)):
            yield from _flat(a)
        else:
            yield a


def _both(x, y):
    return x.sin() * y.sum(), (x * x).sum()


@pytest.mark.filterwarnings("ignore:`get_")
@pytest.mark.parametrize("look", [
    lambda g, x, y, z: g.get_numerical_jacobian(lambda a: _both(*a), (x, y), eps=1e-6),
    lambda g, x, y, z: g.get_numerical_jacobian(lambda a: _both(*a), (x, y), grad_out=2.0),
    lambda g, x, y, z: g._get_numerical_jacobian(_both, (x, y), eps=1e-6),
    lambda g, x, y, z: g._get_numerical_jacobian(lambda z: z * z, (z,), eps=1e-6),
    lambda g, x, y, z: g._get_numerical_jacobian(lambda z: z * z, (z,), eps=1e-6, is_forward_ad=True),
    lambda g, x, y, z: g._get_numerical_jacobian(lambda x: x * x * (1 + 2j), (x,), eps=1e-6, is_forward_ad=True),
    lambda g, x, y, z: g.get_numerical_jacobian_wrt_specific_input(_both, 0, (x, y), _both(x, y), 1e-6),
    lambda g, x, y, z: g.get_numerical_jacobian_wrt_specific_input(lambda z: (z * z).abs(), 0, (z,), ((z * z).abs(),), 1e-6),
    lambda g, x, y, z: g.get_numerical_jacobian_wrt_specific_input(lambda x: x * 1j, 0, (x,), (x * 1j,), 1e-6),
    lambda g, x, y, z: g.get_numerical_jacobian_wrt_specific_input(lambda x: x * 2j, 0, (x,), (x * 2j,), 1e-6, None, True),
    lambda g, x, y, z: g.get_analytical_jacobian((x, y), _both(x, y)[0]),
    lambda g, x, y, z: g.get_analytical_jacobian((x, y), _both(x, y)[1]),
    lambda g, x, y, z: g.get_analytical_jacobian((x,), y),
    lambda g, x, y, z: g.get_analytical_jacobian((z,), (z * z).abs()),
    lambda g, x, y, z: g.get_analytical_jacobian((z,), z * z),
    lambda g, x, y, z: g.get_analytical_jacobian((z,), z * z, grad_out=2.0),
    lambda g, x, y, z: g._as_tuple([x, y]) + g._as_tuple(x) + g._differentiable_outputs((x * 1, y.detach())),
])
def test_jacobians(look):
    ours, theirs = (_outcome(t, look) for t in LIBRARIES)
    assert ours == theirs


def test_they_are_deprecated():
    for t in LIBRARIES:
        x = t.ones(1, dtype=t.float64, requires_grad=True)
        with pytest.warns(FutureWarning, match="was part of PyTorch's private API"):
            _module(t).get_analytical_jacobian((x,), x * 2)
