"""``torch.testing._internal``: what libraries' tests take from PyTorch's own, with the same verdicts and names."""

import subprocess
import sys
import types
import unittest

import numpy as np
import pytest
import torch as reference
from torch.testing import _comparison as their_comparison
from torch.testing._internal import common_device_type as their_devices
from torch.testing._internal import common_dtype as their_dtypes
from torch.testing._internal import common_utils as their_utils

import ftorch
from ftorch.testing import _comparison as our_comparison
from ftorch.testing._internal import common_device_type as our_devices
from ftorch.testing._internal import common_dtype as our_dtypes
from ftorch.testing._internal import common_utils as our_utils

from .test_testing import PAIRS

# Importing it freezes the flags of PyTorch's backends, which other tests of this process set.
reference.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True


@pytest.fixture(autouse=True)
def _same_precisions():
    """Test cases of PyTorch's set the precision of products for their process."""
    yield
    for library in (reference, ftorch):
        library.set_float32_matmul_precision("highest")
        b = library.backends
        for place in (b.cuda.matmul, b.mkldnn.matmul, b.mkldnn.conv, b):
            place.fp32_precision = "none"


BOTH = ((reference, their_utils, their_devices), (ftorch, our_utils, our_devices))


def _said(error):
    return type(error).__name__, str(error).replace("ftorch.eager.tensor", "torch").replace("ftorch.", "torch.")


MORE = [
    lambda t: (t.ones(2), [1, 1]), lambda t: ([1.0, 2.0], t.tensor([1.0, 3.0])), lambda t: (True, t.tensor(1)),
    lambda t: (t.tensor(0), True), lambda t: (t.ones(2), 1.0), lambda t: (t.ones(2), True), lambda t: (1, t.tensor([1.0])),
    lambda t: (1.0, np.float32(1.0)), lambda t: (t.ones(2), np.ones(2)), lambda t: (t.ones(2), np.ones(2, np.float32)),
    lambda t: ("a", "b"), lambda t: (b"a", "a"), lambda t: ({1}, {2}), lambda t: (int, float), lambda t: (object, 3),
    lambda t: (t.float32, t.float64), lambda t: (t.device("cpu"), t.device("meta")), lambda t: (np.array(["a"]), ["b"]),
    lambda t: ({"x": [1, 2]}, {"x": [1, 3]}), lambda t: (True, 2), lambda t: (1, 1.00001), lambda t: (1.0, 1.001),
    lambda t: (t.eye(2).to_sparse(), t.eye(2).to_sparse()), lambda t: (t.eye(2).to_sparse(), t.eye(3)[:2, :2]),
    lambda t: (t.eye(2).to_sparse_csr(), 2 * t.eye(2).to_sparse_csr()), lambda t: (t.empty(2, device="meta"), t.ones(2)),
    lambda t: (t.Size([1, 2]), (1, 2)), lambda t: ((1, t.ones(1)), [1, t.zeros(1)]), lambda t: (None, t.ones(1)),
    lambda t: (t.ones(2, dtype=t.int32), t.ones(2, dtype=t.int64)), lambda t: (range(3), [0, 1, 2]),
    lambda t: (t.ones(2, dtype=t.float8_e5m2), t.zeros(2, dtype=t.float8_e5m2)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [
    {}, {"msg": "text"}, {"msg": lambda m: f"<{m}>"}, {"rtol": 0, "atol": 0.5}, {"exact_dtype": False}, {"atol": 1},
])
def test_assert_equal(options):
    for make in PAIRS + MORE:
        found = []
        for library, utils, _ in BOTH:
            actual, expected = make(library)
            try:
                found.append(utils.TestCase().assertEqual(actual, expected, **options))
            except Exception as error:
                found.append(_said(error))
        assert found[0] == found[1]


def test_tolerances_of_a_class():
    for _, utils, _ in BOTH:
        class Loose(utils.TestCase):
            _precision, _rel_tol = 0.1, 0

        Loose().assertEqual(1.0, 1.05)
        with pytest.raises(AssertionError):
            Loose().assertEqual(1.0, 1.2)
        Loose().assertNotEqual(1.0, 1.2)


def _pair_of_images(comparison):
    class ImagePair(comparison.TensorLikePair):
        def __init__(self, actual, expected, *, mae=False, **other):
            super().__init__(actual, expected, **other)
            self.mae = mae

        def compare(self):
            actual, expected = self._equalize_attributes(self.actual, self.expected)
            if not self.mae:
                return super()._compare_values(actual, expected)
            error = float((actual - expected).abs().float().mean())
            if error > self.atol:
                self._fail(AssertionError, f"The MAE of the images is {error}, but only {self.atol} is allowed.")

    return ImagePair


@pytest.mark.parametrize("options", [{}, {"mae": True, "atol": 0.5, "rtol": 0}, {"mae": True, "atol": 3, "rtol": 0}])
def test_pairs_are_derived_from(options):
    found = []
    for library, comparison in ((reference, their_comparison), (ftorch, our_comparison)):
        values = {"a": [library.tensor([1.0, 5.0]), 2], "b": None}, {"a": [library.tensor([1.0, 3.0]), 3], "b": 1}
        pairs = (comparison.NonePair, comparison.NumberPair, _pair_of_images(comparison))
        errors = comparison.not_close_error_metas(*values, pair_types=pairs, **options)
        found.append([_said(error.to_error()) for error in errors])
    assert found[0] == found[1]


def _suite(library, utils, devices):
    """Names, and outcomes, of the tests of a class that uses about everything."""

    @utils.instantiate_parametrized_tests
    class TestPlain(utils.TestCase):
        @utils.parametrize("x", [1, 2.5, "a"])
        @utils.parametrize("d, o", [(library.float32, None), (library.int64, object())])
        def test_product(self, x, d, o):
            self.assertIsInstance(d, library.dtype)

        @utils.parametrize("x,y", [
            utils.subtest((1, 2), name="named"), utils.subtest((1, 3), decorators=[unittest.expectedFailure]),
        ])
        def test_sub(self, x, y):
            self.assertEqual(x + 1, y)

        @utils.parametrize("x", [1, 2], name_fn=lambda x: f"case{x}")
        def test_named(self, x):
            self.assertEqual(self.id().split("_")[-1], f"case{x}")

        @utils.decorateIf(unittest.skip("two"), lambda kwargs: kwargs["x"] == 2)
        @utils.parametrize("x", [1, 2])
        def test_skip(self, x):
            self.assertEqual(x, 1)

        @utils.reparametrize(utils.parametrize("x", range(3)), lambda name, kw: [(name + "_r", kw)] if kw["x"] else None)
        def test_again(self, x):
            self.assertTrue(x)

        def test_seeds(self):
            self.assertNotEqual(library.rand(2), library.zeros(2))

        @utils.skipIfRocm
        @utils.skipIfTorchDynamo("not here")
        @utils.skip_but_pass_in_sandcastle_if(False, "never")
        def test_runs(self):
            with self.assertRaisesRegex(RuntimeError, "must match"):
                library.add(library.ones(2), library.ones(3))

        @utils.slowTest
        def test_slow(self):
            raise AssertionError

        @utils.skipIfNotRegistered("aten::no_such", "not registered")
        def test_registered(self):
            raise AssertionError

    class TestDevices(utils.TestCase):
        shared = 3

        @classmethod
        def setUpClass(cls):
            cls.ready = True

        @devices.dtypes(library.float32, library.int64)
        @devices.precisionOverride({library.float32: 0.5})
        def test_one(self, device, dtype):
            self.assertEqual(device, "cpu")
            self.assertTrue(self.ready and self.shared == 3)
            x = library.ones(2, device=device, dtype=dtype)
            self.assertEqual(x, x + (0.4 if dtype.is_floating_point else 0))

        @devices.dtypes((library.float32, library.int8), (library.float64, library.int8))
        @devices.dtypesIfCPU((library.float16, library.int8))
        def test_many(self, device, dtypes):
            self.assertEqual(len(dtypes), 2)

        @utils.parametrize("k", [1, 2])
        @devices.dtypes(library.float32)
        @devices.toleranceOverride({library.float32: devices.tol(atol=1, rtol=0)})
        def test_both(self, device, dtype, k):
            self.assertEqual(1.0, 1.9)

        @devices.onlyCUDA
        def test_cuda(self, device):
            raise AssertionError

        @devices.deviceCountAtLeast(2)
        def test_devices(self, devices):
            raise AssertionError

        @devices.skipCPUIf(True, "not on CPUs")
        def test_skipped(self, device):
            raise AssertionError

        @devices.expectedFailureCPU
        def test_fails(self, device):
            raise ValueError

        @devices.onlyNativeDeviceTypes
        def test_without(self):
            self.assertEqual(self.get_primary_device(), "cpu")

    scope = {"TestDevices": TestDevices}
    devices.instantiate_device_type_tests(TestDevices, scope, only_for=("cpu",))
    assert list(scope) == ["TestDevicesCPU"]
    return TestPlain, scope["TestDevicesCPU"]


def _errors(result):
    texts = [text for _, text in result.failures + result.errors]
    return [line for text in texts for line in text.splitlines() if line.startswith("AssertionError")]


def test_generated_tests():
    found = []
    for library, utils, devices in BOTH:
        rows = []
        for cls in _suite(library, utils, devices):
            for name in unittest.TestLoader().getTestCaseNames(cls):
                result = unittest.TestResult()
                unittest.TestSuite([cls(name)]).run(result)
                rows.append((
                    cls.__name__, name, _errors(result),
                    [why for _, why in result.skipped], len(result.expectedFailures),
                ))
        found.append(rows)
    assert found[0] == found[1]
    assert len(found[1]) > 25


@pytest.mark.parametrize("program", [
    lambda u: u.instantiate_parametrized_tests(type("T", (u.TestCase,), {"test_a": u.parametrize("x", [])(_takes)})),
    lambda u: u.instantiate_parametrized_tests(type("T", (u.TestCase,), {"test_a": u.parametrize("x,y", [(1,)])(_takes)})),
    lambda u: u.instantiate_parametrized_tests(
        type("T", (u.TestCase,), {"test_a": u.parametrize("x", [1])(u.parametrize("x", [2])(_copy()))})
    ),
])
def test_wrong_parameters(program):
    found = []
    for _, utils, _ in BOTH:
        vars(_takes).pop("parametrize_fn", None)
        with pytest.raises((RuntimeError, ValueError)) as caught:
            program(utils)
        found.append((caught.type, str(caught.value)))
    vars(_takes).pop("parametrize_fn", None)
    assert found[0] == found[1]


def _takes(self, x):
    pass


def _copy():
    def _takes(self, x):
        pass

    return _takes


def test_groups_of_dtypes():
    names = [n for n in dir(their_dtypes) if not n.startswith("_") and "types" in n and callable(getattr(their_dtypes, n))]
    assert len(names) > 25
    for name in names:
        try:
            expected = getattr(their_dtypes, name)(*(["cpu"] if name == "get_all_math_dtypes" else []))
        except TypeError:
            continue
        found = getattr(our_dtypes, name)(*(["cpu"] if name == "get_all_math_dtypes" else []))
        assert sorted(map(str, found)) == sorted(map(str, expected)), name
    more = our_dtypes.floating_types_and(ftorch.half, ftorch.bfloat16)
    assert list(map(str, more)) == list(map(str, their_dtypes.floating_types_and(reference.half, reference.bfloat16)))


@pytest.mark.parametrize("call", [
    "random_well_conditioned_matrix(2, 3, 4, dtype=t.float64, device='cpu')", "random_square_matrix_of_rank(5, 3)",
    "random_symmetric_matrix(3, 2)", "random_hermitian_pd_matrix(3, 2, dtype=t.complex128, device='cpu')",
    "random_symmetric_psd_matrix(3)", "make_symmetric_pd_matrices(2, 3, 3, dtype=t.float64, device='cpu')",
    "make_fullrank_matrices_with_distinct_singular_values(2, 4, 3, dtype=t.float64, device='cpu')",
    "random_matrix(4, 3, 2, singular=True)", "random_lowrank_matrix(2, 4, 5)",
    "random_sparse_matrix(6, 5, density=0.3).to_dense()", "noncontiguous_like(t.arange(4.0))",
    "random_matrix_with_scaled_reduction_dim(3, 4, reduction_dim=-2)",
    "make_symmetric_matrices(3, 3, dtype=t.float64, device='cpu')",
])
def test_random_matrices(call):
    found = []
    for library, utils, _ in BOTH:
        utils.set_rng_seed(5)
        made = eval(f"utils.{call}", {"utils": utils, "t": library})
        found.append((made.detach().numpy(), made.stride(), made.requires_grad))
    assert found[0][1:] == found[1][1:]
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6, atol=1e-7)


def test_helpers():
    for library, utils, _ in BOTH:
        library.manual_seed(3)
        with utils.freeze_rng_state():
            first = library.rand(3)
        assert (library.rand(3) == first).all()
        with utils.set_default_dtype(library.float64):
            assert library.ones(1).dtype is library.float64
        assert library.ones(1).dtype is library.float32
        with utils.TemporaryFileName() as name, open(name, "w") as file:
            file.write("x")
        with utils.TemporaryDirectoryName() as folder:
            assert folder
        with utils.DeterministicGuard(True, warn_only=True):
            assert library.is_deterministic_algorithms_warn_only_enabled()
        assert not library.are_deterministic_algorithms_enabled()
        assert utils.bytes_to_scalar([0, 0, 128, 63], library.float32, "cpu") == 1
        assert utils.numpy_to_torch_dtype(np.int16) is library.int16
        assert list(utils.iter_indices(library.ones(2, 2))) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        assert not utils.is_iterable_of_tensors(library.ones(2))
        assert bool(utils.LazyVal(lambda: 3) > 2)
        assert isinstance(utils.find_free_port(), int)
        assert utils.gradcheck(library.sin, [library.ones(2, dtype=library.float64, requires_grad=True)])
        case = utils.TestCase()
        x, indices, values = case.genSparseTensor((4, 5), 2, 6, True, "cpu", library.float64)
        assert indices.shape == (2, 6) and values.shape == (6,) and not x.is_coalesced()
        case.assertEqual(case.safeToDense(x), x.to_dense())


PROGRAM = """
import ftorch as torch
from ftorch.testing._internal.common_utils import TestCase, run_tests

class TestFile(TestCase):
    def test_good(self):
        self.assertEqual(torch.ones(2) * 2, [2, 2])

    def test_bad(self):
        self.assertEqual(torch.ones(2), torch.zeros(2))

if __name__ == "__main__":
    run_tests()
"""


def test_a_file_is_run(tmp_path):
    path = tmp_path / "test_file.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, path, "-v"], capture_output=True, text=True)
    assert done.returncode == 1 and "test_good" in done.stderr and "FAILED (failures=1)" in done.stderr


@pytest.mark.parametrize("arguments", [["--discover-tests"], ["TestFile.test_good"]])
def test_arguments_of_a_run(arguments, monkeypatch, capsys):
    module = types.ModuleType("__main__")
    exec(PROGRAM.replace('"__main__"', '"other"'), vars(module))
    monkeypatch.setitem(sys.modules, "__main__", module)
    try:
        our_utils.run_tests(["file.py", *arguments])
    except SystemExit as ended:
        assert not ended.code and arguments[0].endswith("good")
    else:
        assert capsys.readouterr().out.split() == ["TestFile.test_bad", "TestFile.test_good"]
