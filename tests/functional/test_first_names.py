"""``functorch``: its functions work and say what they are called today."""

import functorch
import pytest

import ftorch as ft
import ftorch.functorch

NAMES = (
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "vmap", "make_functional",
    "make_functional_with_buffers", "combine_state_for_ensemble", "make_fx",
)


def _warned(library, name):
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            getattr(library, name)(lambda x: x)
        except Exception as error:
            return type(error).__name__, [(w.category, str(w.message)) for w in caught]
    return None, [(w.category, str(w.message)) for w in caught]


@pytest.mark.parametrize("name", NAMES)
def test_functions_warn(name):
    assert _warned(ftorch.functorch, name) == _warned(functorch, name)


def test_functions_are_those_of_today():
    with pytest.warns(FutureWarning, match="Please use `torch.func.grad` instead"):
        assert ftorch.functorch.grad(lambda x: x * x)(ft.tensor(3.0)).item() == 6.0
