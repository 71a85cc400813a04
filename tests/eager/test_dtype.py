"""Types: promotion of every pair, wrapped numbers, casts and limits."""

import itertools

import pytest

from tests.oracle import both, name_of

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64", "complex64", "complex128"]  # fmt: skip


def test_promotion_of_all_pairs():
    both(lambda m: [
        name_of(m.promote_types(getattr(m, a), getattr(m, b)))
        for a, b in itertools.product(NAMES, NAMES)
    ])  # fmt: skip


@pytest.mark.parametrize("number", [2, 2.5, True, 1j])
def test_wrapped_numbers(number):
    """A number promotes by its category only."""
    # PyTorch's half precision complex numbers are not there.
    names = [n for n in NAMES if n != "float16" or number != 1j]
    both(lambda m: [name_of((m.ones(2, dtype=getattr(m, a)) * number).dtype) for a in names])


def test_zero_dimensional_tensors():
    def run(m):
        names = []
        for a, b in itertools.product(NAMES, NAMES):
            if a == "float16" and b.startswith("complex"):
                continue  # complex32
            x, y = m.ones(2, dtype=getattr(m, a)), m.ones((), dtype=getattr(m, b))
            names.append(name_of(m.result_type(x, y)))
        return names

    both(run)


def test_can_cast():
    both(lambda m: [
        m.can_cast(getattr(m, a), getattr(m, b)) for a, b in itertools.product(NAMES, NAMES)
    ])  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_cast_from(name):
    def run(m):
        x = m.tensor([0, 1, 3, 100], dtype=getattr(m, name))
        return [x.to(getattr(m, other)) for other in NAMES if not (x.is_complex())]

    both(run)


def test_integer_division_and_means():
    both(lambda m: (m.arange(5) / 2, m.arange(5) // 2, m.arange(5).sum(), m.ones(3, dtype=m.bool).sum(),
                    m.arange(5, dtype=m.uint8).prod()))  # fmt: skip
    both(lambda m: m.arange(5).mean())


def test_default_dtype():
    def run(m):
        m.set_default_dtype(m.float64)
        try:
            return m.ones(2), m.tensor(1.5), m.arange(3) / 2, m.tensor(1j)
        finally:
            m.set_default_dtype(m.float32)

    both(run)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_finfo(name):
    both(lambda m: [
        float(getattr(m.finfo(getattr(m, name)), k)) for k in ("eps", "max", "min", "tiny", "bits")
    ])  # fmt: skip
