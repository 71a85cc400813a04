"""`TestCase`: unittest's, with a comparison for tensors; and how a file of such tests is run."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import os
import random
import re
import sys
import time
import unittest
import unittest.mock
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import ftorch as torch

from ...eager.core import dtype as dtypes
from .._comparison import (
    not_close_error_metas,
)
from . import _flags as flags
from ._pairs import (
    _ARRAYS,
    PAIRS,
)

try:
    import expecttest
    _Base = expecttest.TestCase
except ImportError:  # PyTorch's tests need it; without it texts in the source are compared and not written
    expecttest = None

    class _Base(unittest.TestCase):
        def assertExpectedInline(self, actual, expect, skip=0):
            self.assertMultiLineEqual(expect, actual)


def set_rng_seed(seed=None) -> None:
    """Seeds PyTorch's, Python's and NumPy's global generators, with `SEED` by default."""
    seed = flags.SEED if seed is None else seed
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@contextlib.contextmanager
def set_default_dtype(dtype):
    """Another default dtype within the context."""
    former = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(former)


@contextlib.contextmanager
def set_default_tensor_type(tensor_type):
    """Another default type of tensors within the context."""
    former = torch.tensor([]).type()
    torch.set_default_tensor_type(tensor_type)
    try:
        yield
    finally:
        torch.set_default_tensor_type(former)


@contextlib.contextmanager
def set_warn_always_context(new_val: bool):
    """Warnings that come once come always within the context, or not."""
    former = torch.is_warn_always_enabled()
    torch.set_warn_always(new_val)
    try:
        yield
    finally:
        torch.set_warn_always(former)


# --- NumPy's dtypes ------------------------------------------------------------------

_NAMES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128",
)
numpy_to_torch_dtype_dict = {getattr(np, "bool_" if name == "bool" else name): getattr(dtypes, name) for name in _NAMES}
torch_to_numpy_dtype_dict = {theirs: ours for ours, theirs in numpy_to_torch_dtype_dict.items()}
torch_to_numpy_dtype_dict |= {dtypes.bfloat16: np.float32, dtypes.complex32: np.complex64}


def numpy_to_torch_dtype(np_dtype):
    """The dtype for one of NumPy's.

    Raises:
        KeyError: there is none.
    """
    return numpy_to_torch_dtype_dict[np.dtype(np_dtype).type]


def has_corresponding_torch_dtype(np_dtype) -> bool:
    """Whether tensors can be of one of NumPy's dtypes."""
    return np.dtype(np_dtype).type in numpy_to_torch_dtype_dict


# --- pairs: looser than assert_close's ------------------------------------------------


class AssertRaisesContextIgnoreNotImplementedError(unittest.case._AssertRaisesContext):
    """`assertRaises` that skips the test where something is not implemented."""

    def __exit__(self, exc_type, exc_value, tb):
        if exc_type is not None and issubclass(exc_type, NotImplementedError):
            self.test_case.skipTest(f"not_implemented: {exc_value}")  # type: ignore[attr-defined]
        return super().__exit__(exc_type, exc_value, tb)


class NoTest:
    """A base of what pytest is not to take for tests."""

    __test__ = False


class TestCase(_Base):
    """A test case whose `assertEqual` compares tensors, up to rounding, in containers of any depth.

    Each test begins with the same seeds (`set_rng_seed`).

    Attributes:
        precision, rel_tol: the least absolute and relative tolerances.

    >>> from ftorch.testing._internal.common_utils import TestCase
    >>> import ftorch as torch
    >>> TestCase().assertEqual([torch.ones(2), {"a": 1.0}], [torch.ones(2) + 1e-7, {"a": 1}])
    >>> TestCase().assertEqual(torch.ones(2), torch.zeros(2))
    Traceback (most recent call last):
    ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 2 / 2 (100.0%)
    Greatest absolute difference: 1.0 at index (0,) (up to 1e-05 allowed)
    Greatest relative difference: inf at index (0,) (up to 1.3e-06 allowed)
    """

    __test__ = False  # set again by each class below: pytest would take the imported name for tests
    _precision: float = 0
    _rel_tol: float = 0
    _default_dtype_check_enabled = False
    _ignore_not_implemented_error = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "__test__" not in vars(cls):
            cls.__test__ = True

    def __init__(self, method_name="runTest", methodName="runTest"):  # noqa: N803  unittest's name
        if methodName != "runTest":
            method_name = methodName
        super().__init__(method_name)

    @property
    def precision(self) -> float:
        return self._precision

    @precision.setter
    def precision(self, prec: float) -> None:
        self._precision = prec

    @property
    def rel_tol(self) -> float:
        return self._rel_tol

    @rel_tol.setter
    def rel_tol(self, prec: float) -> None:
        self._rel_tol = prec

    def setUp(self) -> None:
        set_rng_seed()
        self._check_invariants = torch.sparse.check_sparse_tensor_invariants.is_enabled()
        torch.sparse.check_sparse_tensor_invariants.enable()
        if self._default_dtype_check_enabled and torch.get_default_dtype() != torch.float:
            raise AssertionError(f"expected default dtype to be torch.float, got {torch.get_default_dtype()}")
        self._prev_grad_state = torch.is_grad_enabled()

    def tearDown(self) -> None:
        if hasattr(self, "_check_invariants"):  # a class's own setUp need not have called this one's
            checks = torch.sparse.check_sparse_tensor_invariants
            (checks.enable if self._check_invariants else checks.disable)()
        if hasattr(self, "_prev_grad_state"):
            torch.set_grad_enabled(self._prev_grad_state)
        if self._default_dtype_check_enabled and torch.get_default_dtype() != torch.float:
            raise AssertionError(f"expected default dtype to be torch.float, got {torch.get_default_dtype()}")

    # --- equality

    def assertEqual(self, x, y, msg: str | Callable[[str], str] | None = None, *, atol: float | None = None,
                    rtol: float | None = None, equal_nan=True, exact_dtype=True, exact_device=False,
                    exact_layout=False, exact_stride=False, exact_is_coalesced=False):
        """Asserts that two values are equal, tensors and numbers up to rounding.

        Args:
            x, y: tensors, arrays, numbers, texts, anything with ``==``, and containers of them, modules'
                containers among them. A sequence beside a tensor is made one.
            msg: more text for the error, or what makes its text of the generated one.
            atol, rtol: both or neither; by default they follow from the dtypes, `precision` and `rel_tol`.
            equal_nan: whether NaNs are equal.
            exact_dtype, exact_device, exact_layout, exact_stride, exact_is_coalesced: what else must be equal.

        Raises:
            AssertionError: if they differ.
        """
        __tracebackhide__ = True
        x, y = self._prepared(x, y)
        errors = not_close_error_metas(
            x, y, pair_types=PAIRS,
            sequence_types=(
                Sequence, torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ParameterList, torch.utils.data.Subset,
            ),
            mapping_types=(Mapping, torch.nn.ModuleDict, torch.nn.ParameterDict),
            rtol=rtol, rtol_override=self.rel_tol, atol=atol, atol_override=self.precision, equal_nan=equal_nan,
            check_device=exact_device, check_dtype=exact_dtype, check_layout=exact_layout, check_stride=exact_stride,
            check_is_coalesced=exact_is_coalesced,
        )
        if errors:
            if isinstance(msg, str) and self.longMessage:
                raise errors[0].to_error(lambda generated: f"{generated}\n{msg}")
            raise errors[0].to_error(msg)

    @staticmethod
    def _prepared(x, y):
        if any(isinstance(v, np.ndarray) and not has_corresponding_torch_dtype(v.dtype) for v in (x, y)):
            x, y = (v.tolist() if isinstance(v, _ARRAYS) else list(v) for v in (x, y))
        elif isinstance(x, torch.Tensor) and isinstance(y, Sequence):
            y = torch.as_tensor(y, dtype=x.dtype, device=x.device)
        elif isinstance(y, torch.Tensor) and isinstance(x, Sequence):
            x = torch.as_tensor(x, dtype=y.dtype, device=y.device)
        return tuple(
            v.unbind() if isinstance(v, torch.Tensor) and v.is_nested and v.layout is torch.strided else v for v in (x, y)
        )

    def assertNotEqual(self, x, y, msg: str | None = None, *, atol: float | None = None,  # type: ignore[override]
                       rtol: float | None = None, **kwargs) -> None:
        """Asserts that `assertEqual` would fail."""
        with unittest.TestCase.assertRaises(self, AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertEqualIgnoreType(self, *args, **kwargs) -> None:
        """`assertEqual` without a check of dtypes."""
        return self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertEqualBroadcasting(self, x, y, *args, **kwargs) -> None:
        """Asserts that all elements of ``x`` equal ``y``'s, which is broadcast."""
        y = torch.as_tensor(y, dtype=x.dtype, device=x.device) if not isinstance(y, torch.Tensor) else y
        return self.assertEqual(x, torch.broadcast_to(y, x.shape), *args, exact_dtype=False, **kwargs)

    def assertEqualTypeString(self, x, y) -> None:
        """Asserts that two tensors are of one type."""
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)
        self.assertEqual(x.is_sparse, y.is_sparse)

    def assertObjectIn(self, obj, iterable) -> None:
        """Asserts that an iterable gives the very object."""
        if not any(element is obj for element in iterable):
            raise AssertionError("object not found in iterable")

    def assertGreaterAlmostEqual(self, first, second, places=None, msg=None, delta=None) -> None:
        """Asserts that ``first`` is greater than ``second``, or less by no more than `assertAlmostEqual` allows."""
        if first < second:
            self.assertAlmostEqual(first, second, places=places, msg=msg, delta=delta)

    def compare_with_numpy(self, torch_fn, np_fn, tensor_like, device=None, dtype=None, **kwargs) -> None:
        """Asserts that two functions give equal results of a tensor and of its array."""
        if isinstance(tensor_like, torch.Tensor):
            if device is not None or dtype is not None:
                raise AssertionError("device and dtype must be None when tensor_like is a Tensor")
            tensor = tensor_like
        else:
            tensor = torch.tensor(tensor_like, device=device, dtype=dtype)
        array = tensor.detach().float() if tensor.dtype is torch.bfloat16 else tensor.detach()
        found, expected = torch_fn(tensor), np_fn(array.cpu().numpy())
        if isinstance(expected, np.ndarray):
            expected = torch.from_numpy(expected.copy())
        self.assertEqual(found, expected, exact_device=False, exact_dtype=False, **kwargs)

    def compare_with_reference(self, torch_fn, ref_fn, sample_input, **kwargs) -> None:
        """Asserts that a function of a sample's arguments gives what the reference gives of them as arrays."""
        as_array = functools.partial(
            torch.utils._pytree.tree_map, lambda v: v.detach().cpu().numpy() if isinstance(v, torch.Tensor) else v
        )
        found = torch_fn(sample_input.input, *sample_input.args, **sample_input.kwargs)
        expected = ref_fn(as_array(sample_input.input), *as_array(sample_input.args), **as_array(sample_input.kwargs))
        self.assertEqual(found, expected, exact_device=False, **kwargs)

    # --- errors and warnings

    def assertRaises(self, expected_exception, *args, **kwargs):
        """unittest's; skips the test where something is not implemented, if the class says so."""
        if not self._ignore_not_implemented_error:
            return super().assertRaises(expected_exception, *args, **kwargs)
        context = AssertRaisesContextIgnoreNotImplementedError(expected_exception, self)  # type: ignore[call-arg]
        return context.handle("assertRaises", args, kwargs)  # type: ignore[attr-defined]

    def assertRaisesRegex(self, expected_exception, expected_regex, *args, **kwargs):
        """unittest's; texts of other devices' errors are not compared."""
        device_type = getattr(self, "device_type", "cpu")
        if device_type not in flags.NATIVE_DEVICES:
            expected_regex = ""
        if not self._ignore_not_implemented_error:
            return super().assertRaisesRegex(expected_exception, expected_regex, *args, **kwargs)
        context = AssertRaisesContextIgnoreNotImplementedError(  # type: ignore[call-arg]
            expected_exception, self, expected_regex
        )
        return context.handle("assertRaisesRegex", args, kwargs)  # type: ignore[attr-defined]

    def assertNoUnraisable(self, callable, *args, **kwargs) -> None:
        """Asserts that nothing is raised where no caller hears of it, as in finalizers."""
        found = []
        was_enabled = gc.isenabled()
        gc.disable()  # garbage from elsewhere would raise here
        try:
            with unittest.mock.patch("sys.unraisablehook", found.append):
                callable(*args, **kwargs)
        finally:
            if was_enabled:
                gc.enable()
        self.assertIsNone(found[-1] if found else None)

    def assertNotWarn(self, callable, msg="") -> None:
        """Asserts that a call warns of nothing."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with set_warn_always_context(True):
                callable()
        self.assertTrue(len(found) == 0, msg)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        """Asserts that the body warns, also of what comes only once."""
        pattern = re.compile(regex)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with set_warn_always_context(True):
                yield
        if not found:
            self.fail("no warning caught")
        own = [w.message for w in found if type(w.message) is category]
        self.assertTrue(bool(own))
        self.assertTrue(any(pattern.match(str(w.message)) for w in found), f"{pattern}, {own}")

    # --- texts in files

    def assertExpected(self, s, subname=None) -> None:
        """Asserts that a text is that of the file ``expect/<test>.expect`` beside the test's; ``--accept`` writes it."""
        if not isinstance(s, str):
            raise TypeError("assertExpected is strings only")
        module = type(self).__module__
        name = self.id().removeprefix(f"{module}.")
        place = os.path.join(os.path.dirname(os.path.realpath(sys.modules[module].__file__ or "")), "expect")
        path = os.path.join(place, name + (f"-{subname}" if subname else "") + ".expect")
        shown = name + (f" ({subname})" if subname else "")
        accept = expecttest is not None and expecttest.ACCEPT
        expected = None
        if os.path.exists(path):
            with open(path) as file:
                expected = file.read().replace(
                    'producer_version: "CURRENT_VERSION"', f'producer_version: "{torch.onnx.producer_version}"'
                )
        if accept and expected != s:
            print(f"Accepting {'output' if expected is None else 'updated output'} for {shown}:\n\n{s}")
            with open(path, "w") as file:
                file.write(re.sub(r'(producer_version): "[0-9.]*"', r'\1: "CURRENT_VERSION"', s))
        elif expected is None:
            main = getattr(sys.modules["__main__"], "__file__", "")
            raise RuntimeError(
                f"I got this output for {shown}:\n\n{s}\n\nNo expect file exists; to accept the current output, run:\n"
                f"python {main} {name} --accept"
            )
        else:
            self.assertMultiLineEqual(expected, s)

    def assertExpectedStripMangled(self, s, subname=None) -> None:
        """`assertExpected` without the mangled names of scripted classes."""
        self.assertExpected(re.sub(r"__torch__[^ ]+", "", s), subname)

    def assertExpectedRaises(self, exc_type, callable, *args, **kwargs) -> None:
        """`assertExpected` of an exception's text."""
        subname = kwargs.pop("subname", None)
        try:
            callable(*args, **kwargs)
        except exc_type as error:
            self.assertExpected(str(error), subname)
            return
        self.fail(msg="Did not raise when expected to")

    # --- sparse tensors

    def safeToDense(self, t):
        """The dense tensor, of an uncoalesced one by way of a coalesced one."""
        return (t.coalesce() if t.layout is torch.sparse_coo else t).to_dense()

    def genSparseTensor(self, size, sparse_dim, nnz, is_uncoalesced, device, dtype):
        """A random COO tensor, its indices and values.

        Args:
            size: its size.
            sparse_dim: the number of its sparse dimensions.
            nnz: how many elements to specify; uncoalesced, half of the indices come twice.
            is_uncoalesced: whether indices come twice; otherwise there may be fewer than ``nnz``.
            device, dtype: of the values.
        """
        if nnz and not all(size[:sparse_dim]):
            raise AssertionError(f"invalid arguments: size={size}, sparse_dim={sparse_dim}, nnz={nnz}")
        shape = [nnz, *size[sparse_dim:]]
        values = torch.testing.make_tensor(shape, device=device, dtype=dtype, low=-1, high=1)
        indices = torch.rand(sparse_dim, nnz, device=device)
        indices.mul_(torch.tensor(size[:sparse_dim]).unsqueeze(1).to(indices))
        indices = indices.to(torch.long)
        if is_uncoalesced:
            indices = torch.cat([indices[:, :nnz // 2], indices[:, :(nnz + 1) // 2]], 1)
        x = torch.sparse_coo_tensor(indices, values, torch.Size(size), dtype=dtype, device=device)
        x = x.detach().clone()._coalesced_(False) if is_uncoalesced else x.coalesce()
        return x, x._indices().clone(), x._values().clone()

    # --- other processes

    @staticmethod
    def run_process_no_exception(code, env=None):
        """What a program in another process writes: (output, errors).

        Raises:
            AssertionError: it ended with an error.
        """
        import subprocess

        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env)
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode("ascii", "replace"))
        return done.stdout, done.stderr


class TestCaseBase(TestCase):
    """`TestCase`; the older name."""

    __test__ = False


# --- running -------------------------------------------------------------------------

UNITTEST_ARGS: list[str] = []


def discover_test_cases_recursively(suite_or_case) -> list[unittest.TestCase]:
    """The test cases of a suite of suites."""
    if isinstance(suite_or_case, unittest.TestCase):
        return [suite_or_case]
    return [case for part in suite_or_case for case in discover_test_cases_recursively(part)]


def get_test_names(test_cases) -> list[str]:
    """``"Class.test"`` of each test case."""
    return [".".join(case.id().split(".")[-2:]) for case in test_cases]


def lint_test_case_extension(suite) -> bool:
    """Whether all test cases of a suite are of `TestCase`; says so of those that are not."""
    succeeded = True
    for case in discover_test_cases_recursively(suite):
        if isinstance(case, unittest.loader._FailedTest) or isinstance(case, TestCase):
            continue
        name = case.id().split(".")[-2] if "." in case.id() else type(case).__name__
        print(f"{name} - FAILED. Test class should extend testing/_internal/common_utils TestCase", file=sys.stderr)
        succeeded = False
    return succeeded


def run_tests(argv=None) -> None:
    """Runs the tests of the main module, by its command line.

    Args:
        argv: in its place; what unittest takes, and ``--seed N``, ``--repeat N``, ``--accept``, ``--discover-tests``
            (prints their names), ``--use-pytest``, ``--save-xml [FOLDER]`` (through pytest).

    Raises:
        SystemExit: at the end, as of `unittest.main`.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--discover-tests", action="store_true")
    parser.add_argument("--use-pytest", action="store_true")
    parser.add_argument("--save-xml", nargs="?", const="test-reports", default=None)
    parser.add_argument("--accept", action="store_true")
    for ignored in ("--subprocess", "--test-bailouts", "--rerun-disabled-tests", "--showlocals"):
        parser.add_argument(ignored, action="store_true")
    arguments, rest = parser.parse_known_args(sys.argv if argv is None else argv)
    if arguments.seed is not None:
        flags.SEED = arguments.seed
    if arguments.accept:
        if expecttest is None:
            sys.exit("--accept needs the package expecttest")
        expecttest.ACCEPT = True
    UNITTEST_ARGS[:] = rest
    set_rng_seed()
    main = sys.modules["__main__"]
    suite = unittest.TestLoader().loadTestsFromModule(main)
    if arguments.discover_tests:
        print("\n".join(get_test_names(discover_test_cases_recursively(suite))))
        return
    if not lint_test_case_extension(suite):
        sys.exit(1)
    if arguments.use_pytest or arguments.save_xml:
        import pytest

        extra = []
        if arguments.save_xml:
            os.makedirs(arguments.save_xml, exist_ok=True)
            extra.append(f"--junitxml={os.path.join(arguments.save_xml, f'{time.time_ns()}.xml')}")
        sys.exit(pytest.main([str(main.__file__), *extra, *rest[1:]]))
    for i in range(arguments.repeat):
        is_last = i + 1 == arguments.repeat
        program = unittest.main(module=main, argv=rest, exit=is_last)
        if not program.result.wasSuccessful():
            sys.exit(1)
