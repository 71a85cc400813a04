"""Tests of operators that `generate_opcheck_tests` makes from a library's own: which there are, and what they find."""

import json
import unittest
import warnings

import pytest
import torch as pt
from torch.testing._internal import optests as pt_optests

import ftorch as ft
from ftorch.testing._internal import optests as ft_optests

BOTH = [(pt, pt_optests), (ft, ft_optests)]
NAMESPACE = "ftorch_generated"
UTILS = ["test_schema", "test_autograd_registration", "test_faketensor"]


def _write(path, states):
    tests = {test: {"comment": "", "status": state} for test, state in sorted(states.items())}
    data = {f"{NAMESPACE}::writes": tests}
    path.write_text(json.dumps({"_description": ft_optests._ABOUT, "_version": 1, "data": data}, indent=2) + "\n")


def _outcomes(torch, optests, path):
    """{test: whether it passes} of a class with generated tests, and the decorated ones."""
    library = torch.library.Library(NAMESPACE, "DEF")
    library.define("adds(Tensor x) -> Tensor")
    library.impl("adds", lambda x: x + 1, "CompositeImplicitAutograd")
    library.define("bare(Tensor x) -> Tensor")
    library.impl("bare", lambda x: x + 1, "CPU")
    library.define("writes(Tensor x) -> Tensor")
    library.impl("writes", lambda x: x.add_(1).clone(), "CPU")
    ops, inside, decorated = getattr(torch.ops, NAMESPACE), [], []

    class Cases(unittest.TestCase):
        def test_adds(self):
            self.assertEqual(ops.adds(torch.ones(2)).tolist(), [2, 2])
            self.assertEqual(ops.adds.default(torch.ones(1)).tolist(), [2])

        def test_bare(self):
            ops.bare(torch.ones(2))
            inside.append(optests.is_inside_opcheck_mode())

        def test_writes(self):
            ops.writes(torch.ones(2))

        def test_false(self):
            ops.adds(torch.ones(2))
            self.fail()

        @optests.dontGenerateOpCheckTests("has no operator")
        def test_other(self):
            pass

        def other(self):
            pass

    def note(function):
        decorated.append(function.__name__)
        return function

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optests.generate_opcheck_tests(Cases, [NAMESPACE], str(path), {"test_schema__test_adds": [note]}, UTILS)
            found = {}
            for name in sorted(n for n in dir(Cases) if n.startswith("test")):
                result = unittest.TestResult()
                Cases(name).run(result)
                found[name] = result.wasSuccessful()
    finally:
        library._destroy()
    return found, inside, decorated


@pytest.mark.parametrize(
    "states",
    [
        {},
        {"Cases.test_schema__test_writes": "xfail", "Cases.test_faketensor__test_writes": "skip"},
        {"Cases.test_autograd_registration__test_writes": "xfail", "Cases.test_schema__test_writes": "xsuccess"},
    ],
)
def test_generated_tests_find_the_same(tmp_path, states):
    path = tmp_path / "failures.json"
    _write(path, states)
    expected, found = (_outcomes(torch, optests, path) for torch, optests in BOTH)
    assert found == expected
    assert True in found[0].values() and False in found[0].values()


def test_files_of_failures_are_checked(tmp_path):
    path = tmp_path / "failures.json"
    _write(path, {"Cases.test_schema__test_writes": "maybe"})
    raised = []
    for torch, optests in BOTH:
        with pytest.raises(RuntimeError) as error:
            _outcomes(torch, optests, path)
        raised.append(str(error.value))
    assert raised[0] == raised[1]
    path.write_text(path.read_text().replace("maybe", "skip").replace("  ", " "))
    for torch, optests in BOTH:
        with pytest.raises(RuntimeError, match="formatted a certain way"):
            _outcomes(torch, optests, path)


def test_one_operator_is_checked():
    for torch, optests in BOTH:
        assert optests.opcheck(torch.ops.aten.sin.default, (torch.ones(2),), test_utils="test_schema") == {
            "test_schema": "SUCCESS"
        }
