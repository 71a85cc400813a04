"""What libraries' and users' tests take from here: `TestCase`, `run_tests`, `parametrize`, skips, flags, random matrices."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import socket
import tempfile
import time
import types
import unittest
from pathlib import Path

import ftorch as torch

from .._creation import make_tensor
from .._utils import freeze_rng_state
from ._cases import (
    UNITTEST_ARGS,
    AssertRaisesContextIgnoreNotImplementedError,
    NoTest,
    TestCase,
    TestCaseBase,
    discover_test_cases_recursively,
    get_test_names,
    has_corresponding_torch_dtype,
    lint_test_case_extension,
    numpy_to_torch_dtype,
    numpy_to_torch_dtype_dict,
    run_tests,
    set_default_dtype,
    set_default_tensor_type,
    set_rng_seed,
    set_warn_always_context,
    torch_to_numpy_dtype_dict,
)
from ._flags import *  # noqa: F403
from ._flags import (
    GRADCHECK_NONDET_TOL,
    TEST_WITH_SLOW_GRADCHECK,
    LazyVal,
    TestEnvironment,
    _check_module_exists,
)
from ._matrices import *  # noqa: F403
from ._pairs import (
    ObjectPair,
    RelaxedBooleanPair,
    RelaxedNumberPair,
    SetPair,
    StringPair,
    TensorOrArrayPair,
    TypedStoragePair,
    TypePair,
    UnittestPair,
)
from ._parametrization import (
    _TestParametrizer,
    compose_parametrize_fns,
    decorateIf,
    dtype_name,
    instantiate_parametrized_tests,
    parametrize,
    reparametrize,
    subtest,
)
from ._skips import *  # noqa: F403

_REEXPORTED = (
    UNITTEST_ARGS, AssertRaisesContextIgnoreNotImplementedError, NoTest, ObjectPair, RelaxedBooleanPair, RelaxedNumberPair,
    SetPair, StringPair, TensorOrArrayPair, TestCaseBase, TypePair, TypedStoragePair, UnittestPair,
    discover_test_cases_recursively, get_test_names, has_corresponding_torch_dtype, lint_test_case_extension,
    numpy_to_torch_dtype, numpy_to_torch_dtype_dict, run_tests, set_default_tensor_type, set_rng_seed,
    set_warn_always_context, torch_to_numpy_dtype_dict, LazyVal, TestEnvironment, _check_module_exists, _TestParametrizer,
    compose_parametrize_fns, decorateIf, dtype_name, instantiate_parametrized_tests, parametrize, reparametrize, subtest,
    make_tensor, freeze_rng_state, set_default_dtype,
)


# --- files and ports -----------------------------------------------------------------


@contextlib.contextmanager
def TemporaryFileName(*args, **kwargs):
    """The name of a file that exists within the context."""
    with tempfile.NamedTemporaryFile(*args, **kwargs) as file:
        yield file.name


@contextlib.contextmanager
def TemporaryDirectoryName(suffix=None):
    """The name of a folder that exists within the context."""
    with tempfile.TemporaryDirectory(suffix=suffix) as folder:
        yield folder


@contextlib.contextmanager
def set_cwd(path: str):
    """Another working directory within the context."""
    former = os.getcwd()
    try:
        os.chdir(path)
        yield
    finally:
        os.chdir(former)


def find_free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def find_library_location(lib_name: str) -> Path:
    """Where a library of the package lies."""
    return Path(torch.__file__).resolve().parent / "lib" / lib_name


# --- trying again --------------------------------------------------------------------


def retry(ExceptionToCheck, tries=3, delay=3, skip_after_retries=False):  # noqa: N803
    """Calls a function again after an exception.

    Args:
        ExceptionToCheck: the exception.
        tries: how often to call it.
        delay: seconds in between.
        skip_after_retries: whether to skip the test in the end, instead of raising.
    """

    def decorator(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            for _ in range(tries - 1):
                try:
                    return fn(*args, **kwargs)
                except ExceptionToCheck as error:
                    print(f"{error}, Retrying in {delay} seconds...")
                    time.sleep(delay)
            try:
                return fn(*args, **kwargs)
            except ExceptionToCheck as error:
                if skip_after_retries:
                    raise unittest.SkipTest(f"Skipping after {tries} consecutive {error}") from error
                raise

        return wrapper

    return decorator


def retry_on_connect_failures(func=None, connect_errors="Address already in use"):
    """Calls a function again, up to ten times, where a RuntimeError says that a port is taken."""
    if func is None:
        return functools.partial(retry_on_connect_failures, connect_errors=connect_errors)
    texts = (connect_errors,) if isinstance(connect_errors, str) else connect_errors

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        for left in reversed(range(10)):
            try:
                return func(*args, **kwargs)
            except RuntimeError as error:
                if not left or not any(text in str(error) for text in texts):
                    raise
                time.sleep(0.1)

    return wrapper


# --- guards --------------------------------------------------------------------------


class DeterministicGuard:
    """Deterministic algorithms within the context, or not.

    Args:
        deterministic, warn_only: as of `torch.use_deterministic_algorithms`.
        fill_uninitialized_memory: as of `torch.utils.deterministic`.
    """

    def __init__(self, deterministic, *, warn_only=False, fill_uninitialized_memory=True):
        self.deterministic, self.warn_only = deterministic, warn_only
        self.fill_uninitialized_memory = fill_uninitialized_memory

    @classmethod
    def _current_state(cls):
        return cls(
            torch.are_deterministic_algorithms_enabled(),
            warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
            fill_uninitialized_memory=torch.utils.deterministic.fill_uninitialized_memory,
        )

    def _update(self):
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = self.fill_uninitialized_memory

    def __enter__(self):
        self._restore = self._current_state()
        self._update()

    def __exit__(self, *_):
        self._restore._update()


class SwapTensorsGuard:
    """`torch.__future__.set_swap_module_params_on_conversion` within the context."""

    def __init__(self, use_swap_tensors):
        self.use_swap_tensors = use_swap_tensors

    def __enter__(self):
        future = torch.__future__
        self._former = future.get_swap_module_params_on_conversion()
        if self.use_swap_tensors is not None:
            future.set_swap_module_params_on_conversion(self.use_swap_tensors)

    def __exit__(self, *_):
        torch.__future__.set_swap_module_params_on_conversion(self._former)


@contextlib.contextmanager
def disable_gc():
    """No garbage collection within the context."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def suppress_warnings(fn):
    """Runs a test without warnings."""
    import warnings

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fn(*args, **kwargs)

    return wrapper


@contextlib.contextmanager
def enable_profiling_mode_for_profiling_tests():
    """TorchScript's profiling mode: functions are always specialised by what they are called with here."""
    yield


enable_profiling_mode = enable_profiling_mode_for_profiling_tests


# --- gradients -----------------------------------------------------------------------


def gradcheck(fn, inputs, **kwargs):
    """`torch.autograd.gradcheck`, with gradients of several samples at once and forward mode as the tests want them."""
    defaults = {"check_batched_grad": True, "fast_mode": not TEST_WITH_SLOW_GRADCHECK}
    return torch.autograd.gradcheck(fn, inputs, **defaults | {k: v for k, v in kwargs.items() if v is not None})


def gradgradcheck(fn, inputs, grad_outputs=None, **kwargs):
    """`torch.autograd.gradgradcheck`, with gradients of several samples at once."""
    defaults = {"check_batched_grad": True, "fast_mode": not TEST_WITH_SLOW_GRADCHECK}
    chosen = defaults | {k: v for k, v in kwargs.items() if v is not None}
    return torch.autograd.gradgradcheck(fn, inputs, grad_outputs, **chosen)


def _assertGradAndGradgradChecks(test_case, apply_fn, inputs, **kwargs):
    """Asserts that first and second derivatives are right."""
    for check in (gradcheck, gradgradcheck):
        test_case.assertTrue(check(apply_fn, inputs, nondet_tol=GRADCHECK_NONDET_TOL, **kwargs))


def outs_and_grads(fn, graph_inps, inps):
    """What a function gives, and the gradients of the sum with respect to those inputs that want them."""
    outs = fn(*graph_inps)
    leaves = [out for out in torch.utils._pytree.tree_leaves(outs) if isinstance(out, torch.Tensor) and out.requires_grad]
    for out in leaves:
        out.sum().backward(retain_graph=True)
    grads = [inp.grad for inp in torch.utils._pytree.tree_leaves(inps) if isinstance(inp, torch.Tensor)]
    for inp in torch.utils._pytree.tree_leaves(inps):
        if isinstance(inp, torch.Tensor):
            inp.grad = None
    return outs, grads


def compare_equal_outs_and_grads(test, m1, m2, inps):
    """Asserts that two functions give the same, and the same gradients."""
    for ours, theirs in zip(outs_and_grads(m1, inps, inps), outs_and_grads(m2, inps, inps), strict=True):
        test.assertEqual(ours, theirs)


# --- tensors -------------------------------------------------------------------------


def iter_indices(tensor):
    """The indices of a tensor's elements."""
    if tensor.dim() == 0:
        return range(0)
    if tensor.dim() == 1:
        return range(tensor.size(0))
    import itertools

    return itertools.product(*(range(s) for s in tensor.size()))


def is_iterable(obj) -> bool:
    """Whether `iter` takes an object."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def is_iterable_of_tensors(iterable, include_empty=False) -> bool:
    """Whether an object is an iterable (no tensor itself) of tensors alone."""
    if isinstance(iterable, torch.Tensor) or not is_iterable(iterable):
        return False
    found = list(iterable)
    return all(isinstance(t, torch.Tensor) for t in found) if found else include_empty


def get_tensors_from(args, kwargs) -> set:
    """The tensors among arguments."""
    return {value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)}


def to_gpu(obj, type_map=None):
    """Tensors, modules and containers of them as leaves on the GPU."""
    if isinstance(obj, torch.Tensor):
        kind = (type_map or {}).get(obj.dtype, obj.dtype)
        moved = obj.detach().to("cuda", kind)
        return moved.requires_grad_(obj.requires_grad) if obj.is_leaf else moved
    if isinstance(obj, (list, tuple)):
        return type(obj)(to_gpu(part, type_map) for part in obj)
    if isinstance(obj, torch.nn.Module):
        import copy

        return copy.deepcopy(obj).cuda()
    return obj


def clone_input_helper(input):
    """A copy of a tensor, or of the tensors of a sequence."""
    if isinstance(input, torch.Tensor):
        return torch.clone(input)
    if isinstance(input, (list, tuple)):
        return tuple(map(clone_input_helper, input))
    return input


def bytes_to_scalar(byte_list: list[int], dtype, device):
    """A tensor without dimensions of the value that some bytes stand for.

    Raises:
        AssertionError: a wrong number of bytes, or values that are none.
    """
    if len(byte_list) != dtype.itemsize:
        kind = f"== {dtype.itemsize}" + (" for complex dtype" if dtype.is_complex else "")
        raise AssertionError(f"expected len(byte_list) {kind}, got {len(byte_list)}")
    for byte in byte_list:
        if not 0 <= byte <= 255:
            raise AssertionError(f"byte value out of range: expected 0 <= byte <= 255, got {byte}")
    return torch.frombuffer(bytearray(byte_list), dtype=dtype)[0].clone().to(device)


def coalescedonoff(f):
    """Runs a test with ``coalesced=True`` and with ``coalesced=False``."""

    @functools.wraps(f)
    def wrapper(self, *args, **kwargs):
        f(self, *args, **kwargs, coalesced=True)
        f(self, *args, **kwargs, coalesced=False)

    return wrapper


def is_coalesced_indices(s) -> bool:
    """Whether a COO tensor's indices are unique and sorted."""
    indices = s._indices()
    strides = torch.tensor([int(torch.tensor(s.shape[i + 1:indices.shape[0]]).prod()) for i in range(indices.shape[0])])
    flat = (indices * strides.unsqueeze(1)).sum(0)
    return bool((flat[1:] > flat[:-1]).all())


# --- test classes --------------------------------------------------------------------


def copy_func(f):
    """A copy of a function."""
    copied = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    copied = functools.update_wrapper(copied, f)
    copied.__kwdefaults__ = f.__kwdefaults__
    return copied


def xfail_inherited_tests(tests):
    """Expects those tests of a class to fail that it has from its bases."""

    def decorator(cls):
        for name in tests:
            setattr(cls, name, unittest.expectedFailure(copy_func(getattr(cls, name))))
        return cls

    return decorator


def mock_wrapper(method):
    """A method that also tells a mock object of its calls, which is its attribute ``mock``."""
    from unittest.mock import MagicMock

    mock = MagicMock()

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        mock(*args, **kwargs)
        return method(self, *args, **kwargs)

    wrapper.mock = mock  # type: ignore[attr-defined]
    return wrapper


def first_sample(self: unittest.TestCase, samples):
    """The first of some samples; without one the test is skipped."""
    try:
        return next(iter(samples))
    except StopIteration as error:
        raise unittest.SkipTest("Skipped! Need at least 1 sample input") from error


def get_function_arglist(func) -> list[str]:
    """The names of a function's arguments."""
    import inspect

    return inspect.getfullargspec(func).args


@contextlib.contextmanager
def custom_op(opname, symbolic_fn, opset_version):
    """An operator's symbolic function for ONNX within the context."""
    torch.onnx.register_custom_op_symbolic(opname, symbolic_fn, opset_version)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic(opname, opset_version)


class NestedTensorTestCase(TestCase):
    """A test case for nested tensors."""

    __test__ = False

    def assertEqualNoncontigAware(self, a, b) -> None:
        """Asserts that two nested tensors have equal parts, wherever they lie."""
        self.assertEqual(list(a.unbind()), list(b.unbind()))


class BytesIOContext:
    """A file in memory, as a context."""

    def __new__(cls, *args):
        import io

        return contextlib.nullcontext(io.BytesIO(*args))

