"""A write of what does not fit is refused for that, before a kernel is looked for."""

import pytest

from tests.oracle import LIBRARIES

NAMES = ["floor_divide_", "fmod_", "remainder_", "copysign_", "bitwise_and_", "hypot_", "div_"]


@pytest.mark.parametrize("number", [2, 2.5, 1j])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bool", "int64"])
@pytest.mark.parametrize("name", NAMES)
def test_writes_of_other_dtypes(name, dtype, number):
    def program(t):
        x = t.ones(1, dtype=getattr(t, dtype))
        try:
            return getattr(x, name)(t.tensor([number]) if name == "hypot_" else number).tolist()
        except (RuntimeError, NotImplementedError) as error:
            return type(error).__name__, str(error)

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("value", [1, 1.5])
@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_factors_do_not_promote(dtype, value):
    """The ``value`` of ``addcmul_``, one or a list of them, has no part in the dtype that is to be written."""
    def program(t):
        x = t.ones(2, dtype=getattr(t, dtype))
        said = []
        for call in (lambda: x.addcmul_(x, x, value=value), lambda: t._foreach_addcmul_([x], [x], [x], [value])[0]):
            try:
                said.append(call().tolist())
            except (RuntimeError, NotImplementedError) as error:
                said.append((type(error).__name__, str(error)))
        return said

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
