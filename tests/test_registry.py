"""Properties that every op of the registry owes, checked on its samples, one test for each.

PyTorch is the oracle of values, errors and gradients; the other properties follow from ftorch's own
function: all forms agree, ``vmap`` is a loop, a compiled call is the eager one, and a call on meta
tensors says what the real one gives.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import zlib

import numpy as np
import pytest
import torch as pt

import ftorch as ft
import ftorch.nn.functional  # noqa: F401
from ftorch.eager.core.registry import OPS
from ftorch.eager.tensor import from_array
from tests import samples as _samples
from tests.known import KNOWN
from tests.oracle import (
    assert_same,
    assert_same_outcome,
    dtypes,
    is_tensor,
    outcome,
    tensors,
    to_ftorch,
    to_torch,
)
from tests.samples import SAMPLES, T

for _module in pkgutil.walk_packages(_samples.__path__, "tests.samples."):
    importlib.import_module(_module.name)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")



def _is_judged(name, definition):
    """Names with an underscore and gradients are parts of public functions, and judged through them, unless they
    are ATen's too."""
    if not name.startswith("_") and not name.endswith("_backward"):
        return bool(definition.forms)
    packet = getattr(pt.ops.aten, definition.name, None)
    found = getattr(packet, definition.schema.overload or "default", None)
    return name in SAMPLES and found is not None and (
        [a.name for a in found._schema.arguments] == [a.name for a in definition.schema.arguments]
    )


PUBLIC = sorted(name for name, definition in OPS.items() if _is_judged(name, definition))
SECOND_ORDER_SAMPLES = 1
GRADIENT_SAMPLES = 4
DERIVED_SAMPLES = 2  # of vmap, compile and meta: each costs compilations

# Results that mathematics leaves open (the sign or phase of vectors): magnitudes are compared.
UNDETERMINED = {"linalg_eig", "linalg_eigh", "linalg_svd", "svd", "linalg_qr", "qr", "geqrf"}
# Sums in another order, at sizes or in dtypes where that shows.
LOOSE = {
    "conv_transpose2d.input": (8e-3, 8e-3), "conv_transpose3d.input": (8e-3, 2e-2),
    "linalg_matrix_exp": (1e-3, 1e-3), "matrix_exp": (1e-3, 1e-3),
}


def each_op(check, names=PUBLIC):
    """Parametrises a check by op; what is known to fail is expected to."""
    parameters = []
    for name in names:
        reason = KNOWN[check].get(name)
        marks = [pytest.mark.xfail(reason=reason)] if reason else []
        parameters.append(pytest.param(name, marks=marks, id=name))
    return pytest.mark.parametrize("name", parameters)


# --- calls ---------------------------------------------------------------------------


class Sample:
    """A sample of an op with its tensors drawn; ``call`` runs it in either library."""

    def __init__(self, name, index, wide=False):
        self.definition = OPS[name]
        self.sample = SAMPLES[name][index]
        self.where = f"{name} sample {index}: {self.sample}"
        self.seed = zlib.crc32(f"{name} {index}".encode())
        self.wide = wide
        self.specs: list[T] = []
        self._visit(self.sample.args, self.specs.append)
        self._visit(list(self.sample.kwargs.values()), self.specs.append)

    def _visit(self, value, function):
        """``value`` with `function` applied to each `T`."""
        if isinstance(value, T):
            return function(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._visit(v, function) for v in value)
        return value

    def draw(self, copy=0) -> list[np.ndarray]:
        """The tensors' values; with ``wide`` those to differentiate are double precision."""
        rng = np.random.default_rng(self.seed + copy)
        arrays = []
        for spec in self.specs:
            drawn = spec.draw(rng)
            if self.wide and drawn.dtype in (np.float32, np.complex64):
                drawn = drawn.astype({"f": np.float64, "c": np.complex128}[drawn.dtype.kind])
            arrays.append(drawn)
        return arrays

    def arguments(self, module, values):
        """(args, kwargs) with the values in the places of the tensors."""
        remaining = iter(values)

        def fill(value):
            return self._visit(value, lambda _: next(remaining))

        def convert(value):
            if isinstance(value, (list, tuple)):
                return type(value)(convert(v) for v in value)
            return dtypes(module, value)

        args = convert(fill(self.sample.args))
        kwargs = {k: convert(v) for k, v in zip(
            self.sample.kwargs, fill(list(self.sample.kwargs.values())))}
        if isinstance(kwargs.get("dtype"), str):
            kwargs["dtype"] = getattr(module, kwargs["dtype"])
        return args, kwargs

    def call(self, module, values, function=None):
        args, kwargs = self.arguments(module, values)
        module.manual_seed(0)
        return (function or find(module, self.definition))(*args, **kwargs)


def _short_name(definition, path):
    prefix = f"{path}_"
    if definition.name.startswith(prefix):
        return definition.name[len(prefix) :]
    return definition.name


def find(module, definition):
    """The public function of an op, or its method, or the op itself: what both libraries have."""
    # By `_VF` PyTorch may choose another overload (that of stft without ``center``): the op itself says which it is.
    places = [[] if path == "." else path.split(".") for path in definition.public if path != "_VF"]
    names = [(*place, _short_name(definition, ".".join(place))) for place in places]
    if "method" in definition.forms:
        names.append(("Tensor", definition.name))
    if "inplace" in definition.forms:
        names.append(("Tensor", definition.name + "_"))
    for name in names:
        try:
            found = [functools.reduce(getattr, name, library) for library in (ft, pt)]
        except AttributeError:
            continue
        return found[module is pt]
    return aten(module, definition)


def aten(module, definition):
    packet = getattr(module.ops.aten, definition.name)
    return getattr(packet, definition.schema.overload or "default")


def cases(name, wide=False, limit=None):
    if name not in SAMPLES:
        pytest.fail(f"{name} has no samples: register some in tests/samples")
    return [Sample(name, i, wide) for i in range(len(SAMPLES[name]))][:limit]


def is_random(definition):
    return any(a.name == "generator" for a in definition.schema.arguments) or (
        definition.kernel.__module__.endswith((".random", ".dropout"))
    )


# --- the properties ------------------------------------------------------------------


@each_op("values")
def test_values(name):
    """The function gives PyTorch's values, dtypes and shapes, or raises its type of error."""
    for case in cases(name):
        values = case.draw()
        mine = outcome(case.call, ft, [to_ftorch(v) for v in values])
        theirs = outcome(case.call, pt, [to_torch(v) for v in values])
        if isinstance(theirs[1], TypeError) and hasattr(pt.ops.aten, case.definition.name):
            # Python's binding takes less than the op does: None among indices, numbers.
            operator = aten(pt, case.definition)
            found = outcome(case.call, pt, [to_torch(v) for v in values], operator)
            theirs = theirs if found[1] is not None else found
        if name in UNDETERMINED and not theirs[1]:
            mine, theirs = ((_magnitudes(result), None) for result, _ in (mine, theirs))
        assert_same_outcome(mine, theirs, where=case.where, tolerance=LOOSE.get(name))


def _magnitudes(result):
    return [t.abs() if t.is_floating_point() or t.is_complex() else t for t in tensors(result)]


def _form(name, form):
    return [n for n in name if form in OPS[n].forms]


@each_op("method", [n for n in PUBLIC if {"method", "function"} <= OPS[n].forms])
def test_method(name):
    """The method gives what the function gives."""
    for case in cases(name, limit=DERIVED_SAMPLES):
        values = [to_ftorch(v) for v in case.draw()]
        if not (case.sample.args and isinstance(case.sample.args[0], T)):
            continue
        expected = outcome(case.call, ft, values)
        method = getattr(ft.Tensor, OPS[name].name)
        assert_same_outcome(outcome(case.call, ft, values, method), expected, where=case.where)


@each_op("inplace", _form(PUBLIC, "inplace"))
def test_inplace(name):
    """The in-place form writes PyTorch's values into its argument, or raises its error."""
    method = OPS[name].name + "_"
    for case in cases(name, limit=DERIVED_SAMPLES):
        if not (case.sample.args and isinstance(case.sample.args[0], T)):
            continue
        values = case.draw()
        results, written = [], []
        for module, convert in (ft, to_ftorch), (pt, to_torch):
            operands = [convert(v) for v in values]
            function = getattr(module.Tensor, method, None) or getattr(module, method)
            result = outcome(case.call, module, operands, function)
            assert result[1] is not None or result[0] is operands[0], case.where
            results.append(result)
            written.append(operands[0])
        assert_same_outcome(*results, where=case.where)
        if results[1][1] is None:
            assert_same(*written, where=case.where)


@each_op("versions", _form(PUBLIC, "inplace"))
def test_versions(name):
    """The in-place form counts as in PyTorch, for the tensor only that it was called on, not for others in its memory."""
    method = OPS[name].name + "_"
    for case in cases(name, limit=1):
        if not (case.sample.args and isinstance(case.sample.args[0], T)):
            continue
        values, counts = case.draw(), []
        for module, convert in (ft, to_ftorch), (pt, to_torch):
            function = getattr(module.Tensor, method, None) or getattr(module, method)
            tensor, rest = convert(values[0]), [convert(v) for v in values[1:]]
            outside = convert(values[0])
            moved = module.empty(0, dtype=tensor.dtype)
            moved.data = outside
            told = tensor, tensor.data, moved, outside
            counts.append([
                (outcome(case.call, module, [t, *rest], function)[1] is None, [t._version for t in told])
                for t in (tensor.data, told[1], moved, tensor)
            ])
        assert counts[0] == counts[1], case.where


@each_op("out", _form(PUBLIC, "out"))
def test_out(name):
    """``out=`` takes the result: the same objects come back, with the function's values."""
    for case in cases(name, limit=DERIVED_SAMPLES):
        values = [to_ftorch(v) for v in case.draw()]
        expected, error = outcome(case.call, ft, values)
        if error is not None or not tensors(expected):
            continue
        outs = tuple(ft.empty_like(t) for t in tensors(expected))
        given = outs if isinstance(expected, (tuple, list)) else outs[0]
        function = find(ft, case.definition)
        function = getattr(function, "overloadpacket", function)  # which chooses the overload with `out`
        result = case.call(ft, values, lambda *a, f=function, o=given, **k: f(*a, out=o, **k))
        assert all(a is b for a, b in zip(tensors(result), outs)), case.where
        assert_same(result, expected, where=case.where)


def _differentiate(module, case, values, create_graph=False):
    """((outputs that require grad, inputs, gradients), None) or (None, error)."""
    convert = to_ftorch if module is ft else to_torch
    operands = [convert(v) for v in values]
    inputs = []
    for spec, t in zip(case.specs, operands):
        if spec.grad and (t.is_floating_point() or t.is_complex()):
            inputs.append(t.requires_grad_())
    result = case.call(module, operands)
    outputs = [t for t in tensors(result) if t.requires_grad]
    if not inputs or not outputs:
        return outputs, inputs, ()
    rng = np.random.default_rng(case.seed)
    weights = []
    for t in outputs:
        weight = rng.uniform(-1, 1, tuple(t.shape))
        if t.is_complex():
            weight = weight + 1j * rng.uniform(-1, 1, tuple(t.shape))
        weights.append(convert(np.asarray(weight)).to(t.dtype))
    gradients = module.autograd.grad(
        outputs, inputs, weights, allow_unused=True, create_graph=create_graph
    )
    return outputs, inputs, gradients


def _second_order(module, case, values):
    _, inputs, gradients = _differentiate(module, case, values, create_graph=True)
    total = None
    for g in gradients:
        if g is not None and g.requires_grad:
            part = (g.real + g.imag if g.is_complex() else g).sin().sum()
            total = part if total is None else total + part
    if total is None:
        return ()
    return module.autograd.grad(total, inputs, allow_unused=True)


def _zero_for_none(gradients, others):
    """Gradients with None as zeros where the other library has a tensor: both mean no influence."""
    return [
        o.detach().new_zeros(o.shape) if g is None and o is not None else g
        for g, o in zip(gradients, others)
    ]


DIFFERENTIABLE = [n for n in PUBLIC if OPS[n].differentiable and n not in UNDETERMINED]


@each_op("gradient", DIFFERENTIABLE)
def test_gradient(name):
    """Gradients are PyTorch's, in double precision; for a first sample also second ones."""
    seconds = 0
    for case in cases(name, wide=True, limit=GRADIENT_SAMPLES):
        values = case.draw()
        theirs, error = outcome(_differentiate, pt, case, values)
        if error is not None:
            continue  # judged by the values, or not differentiable in PyTorch
        mine = _differentiate(ft, case, values)
        assert len(mine[0]) == len(theirs[0]), f"{case.where}: results that require grad"
        assert [g is None for g in mine[2]] == [g is None for g in theirs[2]], case.where
        assert_same(mine[2], theirs[2], where=case.where)
        if theirs[2] and seconds < SECOND_ORDER_SAMPLES and all(v.size for v in values):
            seconds += 1
            check_second_order(case, values)


def check_second_order(case, values):
    """Holds the second gradients to PyTorch's; whether PyTorch has any."""
    expected, error = outcome(_second_order, pt, case, values)
    if error is not None or not expected:
        return False
    found = _second_order(ft, case, values) or [None] * len(expected)
    found, expected = _zero_for_none(found, expected), _zero_for_none(expected, found)
    assert_same(found, expected, where=f"second order of {case.where}", tolerance=(1e-6, 1e-6))
    return True


def _deterministic(names):
    return [n for n in names if not is_random(OPS[n]) and not OPS[n].host]


@each_op("vmap", _deterministic(PUBLIC))
def test_vmap(name):
    """A batched call is a loop over the batch.

    All arguments at once; tests/functional/test_registry_transforms.py maps each by itself, with
    more samples.
    """
    for case in cases(name, limit=1):
        if not case.specs:
            continue
        batch = [[from_array(v) for v in case.draw(copy)] for copy in (0, 1)]
        expected, error = outcome(lambda c=case, b=batch: [c.call(ft, values) for values in b])
        if error is not None or not all(map(_only_tensors, expected)):
            continue
        stacked = [ft.stack(pair) for pair in zip(*batch)]
        result = ft.vmap(lambda *ts, c=case: c.call(ft, ts))(*stacked)
        for i, own in enumerate(expected):
            for a, b in zip(tensors(result), tensors(own)):
                assert_same(a[i], b, where=case.where, tolerance=(1e-4, 1e-5))


def _only_tensors(result):
    return is_tensor(result) or (
        isinstance(result, (tuple, list)) and all(map(_only_tensors, result))
    )


@each_op("compile", _deterministic(PUBLIC))
def test_compile(name):
    """A compiled call gives what the eager one gives, as one program."""
    for case in cases(name, limit=DERIVED_SAMPLES):
        values = [to_ftorch(v) for v in case.draw()]
        expected, error = outcome(case.call, ft, values)
        if error is not None or not tensors(expected):
            continue
        function = find(ft, case.definition)
        compiled = ft.compile(lambda *ts, c=case, f=function: f(
            *c.arguments(ft, ts)[0], **c.arguments(ft, ts)[1]))
        for _ in range(3):
            result = compiled(*values)
            assert_same(result, expected, where=case.where, tolerance=(1e-5, 1e-5))


@each_op("meta", _deterministic(PUBLIC))
def test_meta(name):
    """A call on meta tensors gives the real one's shapes, dtypes and strides, and no values."""
    for case in cases(name, limit=DERIVED_SAMPLES):
        values = [to_ftorch(v) for v in case.draw()]
        if not values:
            continue
        expected, error = outcome(case.call, ft, values)
        if error is not None or not _only_tensors(expected):
            continue
        result = case.call(ft, [v.to("meta") for v in values])
        for a, b in zip(tensors(result), tensors(expected)):
            assert a.device.type == "meta", case.where
            assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride()), case.where


def test_known_failures_name_ops():
    """The table of known failures holds no op that does not exist."""
    assert {n for table in KNOWN.values() for n in table} <= set(OPS)
