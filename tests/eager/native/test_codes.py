"""Numbers that Python and C++ share are compared when the library is loaded."""

import pytest

from ftorch.eager import native
from ftorch.eager.native import codes

pytestmark = pytest.mark.skipif(not native.available, reason="built without kernels")


def test_the_built_ones_are_these():
    assert codes.differing(native.module) == []
    assert set(native.module.codes()) - {"OPERATIONS"} == set(
        codes.LISTS
    )  # those Python takes from there


class Other:
    """A library that was built from other sources."""

    def __init__(self, **changed):
        self.changed = changed

    def codes(self):
        return native.module.codes() | self.changed


@pytest.mark.parametrize("changed", ["ADD SUBTRACT", "SUBTRACT ADD MULTIPLY RECTIFY MASK", ""])
def test_others_are_noticed(changed):
    assert codes.differing(Other(EPILOGUES=changed)) == ["EPILOGUES"]


def test_libraries_without_numbers_are_noticed():
    assert codes.differing(object()) == list(codes.LISTS)


def test_kernels_with_other_numbers_are_not_used(monkeypatch):
    monkeypatch.setattr(codes, "differing", lambda module: ["SCANS"])
    with pytest.warns(UserWarning, match=r"other numbers of SCANS.*XLA's are used"):
        assert native._register() == (None, None)
