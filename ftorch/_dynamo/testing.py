"""Backends that count, for tests (``torch._dynamo.testing``)."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import unittest
import unittest.mock

from .utils import same


class CompileCounter:
    """A backend that counts graphs and the functions in them.

    >>> import ftorch as torch
    >>> from ftorch._dynamo.testing import CompileCounter
    >>> counter = CompileCounter()
    >>> f = torch.compile(torch.sin, backend=counter)
    >>> _ = f(torch.zeros(2)), f(torch.ones(2)), f(torch.zeros(3))
    >>> counter.frame_count, counter.op_count
    (2, 2)
    """

    def __init__(self):
        self.clear()

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        return gm.forward

    def clear(self):
        """Counts from zero."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend:
    """Counts, and compiles with a backend; ``graphs`` keeps what it was given."""

    def __init__(self, backend):
        self.backend = backend
        self.clear()

    def __call__(self, gm, example_inputs):
        from .backends import lookup_backend

        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self):
        """Counts from zero."""
        self.frame_count = self.op_count = 0
        self.graphs = []


class EagerAndRecordGraphs:
    """A backend that keeps the graphs and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs:
    """A backend that keeps the graphs of calls, and those of ATen's ops of both passes, and runs them."""

    def __init__(self):
        self.graphs, self.fw_graphs, self.bw_graphs = [], [], []

    def __call__(self, gm, example_inputs):
        from .backends import aot_autograd

        self.graphs.append(gm)
        backend = aot_autograd(_keeping(self.fw_graphs), _keeping(self.bw_graphs))
        return backend(gm, example_inputs)


def _keeping(graphs):
    def compiler(gm, example_inputs):
        graphs.append(gm)
        return gm

    return compiler


def normalize_gm(gm_str: str) -> str:
    """A graph's code without empty lines, comments and spaces behind lines."""
    lines = (re.sub(r"#.*$", "", line).rstrip() for line in gm_str.splitlines())
    return "\n".join(line for line in lines if line) + "\n"


def reset_rng_state(use_xla: bool = False) -> None:
    """Seeds the generators of this package, of NumPy and of Python with 1337."""
    import random

    import numpy as np

    from ..random import manual_seed

    manual_seed(1337)
    random.seed(1337)
    np.random.seed(1337)


def rand_strided(size, stride, dtype=None, device="cpu", extra_size: int = 0):
    """Random numbers in a tensor of strides that are given; zeros where the dtype is no floating-point one.

    Args:
        extra_size: how many elements the storage has behind them.

    >>> from ftorch._dynamo.testing import rand_strided
    >>> rand_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    from ..eager.core import api as torch
    from ..eager.core import dtype as dtypes

    dtype = dtype or dtypes.float32
    count = extra_size
    if all(n > 0 for n in size):
        count += sum((n - 1) * step for n, step in zip(size, stride)) + 1
    if not dtype.is_floating_point:
        flat = torch.zeros(count, dtype=dtype, device=device)
    elif dtype.itemsize == 1:
        flat = torch.randn(count, dtype=dtypes.float16, device=device).to(dtype)
    else:
        flat = torch.randn(count, dtype=dtype, device=device)
    return flat.as_strided(size, stride)


def clone_me(x):
    """A copy that is a leaf and requires gradients as the tensor does; None for None."""
    return None if x is None else x.detach().clone().requires_grad_(x.requires_grad)


def requires_bwd_pass(out) -> bool:
    """Whether a tensor in a result requires gradients."""
    from ..eager.tensor import TensorBase

    if isinstance(out, TensorBase):
        return out.requires_grad
    if isinstance(out, (list, tuple)):
        return any(map(requires_bwd_pass, out))
    if out is None or isinstance(out, int):
        return False
    raise NotImplementedError("Don't know how to reduce", type(out))


def reduce_to_scalar_loss(out):
    """The mean of a result's means: something that ``backward`` can be called on.

    >>> import ftorch as torch
    >>> from ftorch._dynamo.testing import reduce_to_scalar_loss
    >>> reduce_to_scalar_loss([torch.ones(2), {"a": torch.full((3,), 3.)}])
    tensor(2.)
    """
    from ..eager.tensor import TensorBase

    if isinstance(out, TensorBase):
        return out.sum() / out.numel()
    if isinstance(out, (list, tuple)):
        return sum(map(reduce_to_scalar_loss, out)) / len(out)
    if hasattr(out, "logits"):
        return reduce_to_scalar_loss(out.logits)
    if isinstance(out, dict):
        return sum(map(reduce_to_scalar_loss, out.values())) / len(out)
    raise NotImplementedError("Don't know how to reduce", type(out))


def remove_optimized_module_prefix(name: str) -> str:
    """A parameter's name without what compiled modules put before it."""
    return re.sub(r"^_orig_mod[.]", "", name)


def extract_graph(fn, *args, **kwargs):
    """A call's result, its captured graphs, and those of ATen's ops of the forward and the backward pass."""
    from ..compiler import compile

    backend = AotEagerAndRecordGraphs()
    result = compile(backend=backend)(fn)(*args, **kwargs)
    return result, backend.graphs, backend.fw_graphs, backend.bw_graphs


three = 3  # a number that tests read of another module


def unsupported(x, *_):
    """Its first argument, after a graph break."""
    from . import graph_break

    graph_break()
    return x


def dummy_fx_compile(gm, example_inputs):
    """A backend that runs graphs as they are."""
    return gm.forward


def strip_comment(code: str) -> str:
    """Code without lines that are comments."""
    return re.sub(r"(?m)^ *#.*\n?", "", code)


def remove_trailing_space(code: str) -> str:
    """Code whose lines end without spaces."""
    return "\n".join(line.rstrip() for line in code.split("\n"))


def empty_line_normalizer(code: str) -> str:
    """Code without empty lines."""
    return re.sub(r"[\r\n]+", "\n", code)


def check_dynamic_shape_capture() -> bool:
    """Whether sizes are symbols at once."""
    from . import config

    return not config.assume_static_by_default


def standard_test(self, fn, nargs: int, expected_ops: int | None = None, expected_ops_dynamic: int | None = None,
                  expected_frame_count: int = 1) -> None:
    """Asserts in a test case that a compiled function of matrices gives the same, from that many graphs and calls."""
    from ..eager.core import api as torch

    dynamo = sys.modules[__package__]
    counter = CompileCounter()
    arguments = [[torch.randn(10, 10) for _ in range(nargs)] for _ in range(2)]
    expected = [fn(*given) for given in arguments]
    dynamo.reset()
    compiled = dynamo.optimize_assert(counter)(fn)
    found = [compiled(*given) for given in arguments * 2]
    dynamo.reset()
    for given, wanted in zip(found, expected * 2):
        self.assertTrue(same(given, wanted))
    self.assertEqual(counter.frame_count, expected_frame_count)
    if check_dynamic_shape_capture() and expected_ops_dynamic is not None:
        expected_ops = expected_ops_dynamic
    if expected_ops is not None:
        self.assertEqual(counter.op_count, expected_ops)


def _make_fn_with_patches(fn, *patches):
    @functools.wraps(fn)
    def patched(*args, **kwargs):
        with contextlib.ExitStack() as stack:
            for module, name, value in patches:
                stack.enter_context(unittest.mock.patch.object(module, name, value))
            return fn(*args, **kwargs)

    return patched


def make_test_cls_with_patches(cls: type, cls_prefix: str, fn_suffix: str, *patches, xfail_prop: str | None = None,
                               decorator=lambda test: test) -> type:
    """A class of the same tests, which run while attributes have other values.

    Args:
        cls_prefix: comes before the class's name, ``fn_suffix`` behind those of the tests.
        patches: triples of a module, a name and a value.
        xfail_prop: tests with an attribute of this name are expected to fail.
        decorator: is given the tests.
    """
    made = type(f"{cls_prefix}{cls.__name__}", cls.__bases__, {})
    made.__qualname__ = made.__name__
    for name in dir(cls):
        value = getattr(cls, name)
        if name.startswith("test_") and callable(value):
            test = _make_fn_with_patches(value, *patches)
            test.__name__ = f"{name}{fn_suffix}"
            if xfail_prop is not None and hasattr(value, xfail_prop):
                test = unittest.expectedFailure(test)
            setattr(made, test.__name__, decorator(test))
        elif name.startswith("test_") or not hasattr(made, name):
            setattr(made, name, value)
    return made


def _only(condition, reason):
    return lambda fn: fn if condition else unittest.skip(reason)(fn)


skipIfNotPy311 = _only(sys.version_info >= (3, 11), "requires Python 3.11+")  # noqa: N816
skipIfNotPy312 = _only(sys.version_info >= (3, 12), "requires Python 3.12+")  # noqa: N816
skipIfOnlyNotPy312 = _only(sys.version_info[:2] == (3, 12), "requires Python 3.12")  # noqa: N816
skipIfPy312 = _only(sys.version_info < (3, 12), "Not supported in Python 3.12+")  # noqa: N816


def xfailIfPy312(fn):  # noqa: N802
    """A test that is expected to fail from Python 3.12 on."""
    return unittest.expectedFailure(fn) if sys.version_info >= (3, 12) else fn


def _marked(attribute):
    def mark(fn):
        setattr(fn, attribute, True)
        return fn

    return mark


# Tests that `make_test_cls_with_patches` expects to fail in classes of that kind.
expectedFailureDynamic = _marked("_expected_failure_dynamic")  # noqa: N816
expectedFailureCodegenDynamic = _marked("_expected_failure_codegen_dynamic")  # noqa: N816
expectedFailureDynamicWrapper = _marked("_expected_failure_dynamic_wrapper")  # noqa: N816


def __getattr__(name):
    if name in ("optimize_assert", "reset"):  # the package imports this module first
        return getattr(sys.modules[__package__], name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
