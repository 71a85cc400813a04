"""Gradients and tangents of what NumPy computes (masks, repetitions) under transforms."""

import pytest

import ftorch

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["masked_select", "repeat_interleave"])
def test_gradients_of_examples(name):
    def run(library):
        x = library.arange(12.0).reshape(2, 6)
        places = library.tensor([1, 0, 1, 1, 0, 0])
        places = places.bool() if name == "masked_select" else places * 2

        def f(t):
            return (getattr(t, name)(places) ** 2).sum()

        return [
            library.vmap(library.func.grad(f))(x).tolist(),
            library.func.grad(lambda x: library.vmap(f)(x).sum())(x).tolist(),
            library.func.jvp(f, (x[0],), (x[1],))[1].tolist(),
            library.func.hessian(f)(x[0]).tolist(),
        ]

    assert run(ftorch) == run(torch)
