"""Primitives, references and what else of PyTorch's inside tests reach for, in both libraries."""

import importlib
import logging

import pytest

import ftorch
from tests.oracle import assert_same

torch = pytest.importorskip("torch")


def _both(case):
    found = []
    for library in (torch, ftorch):
        for name in ("_prims", "_refs", "_refs.nn.functional", "_refs.special", "_logging", "autograd._functions.utils"):
            importlib.import_module(f"{library.__name__}.{name}")
        try:
            found.append(case(library))
        except (RuntimeError, TypeError, ValueError, KeyError, IndexError) as error:
            found.append((type(error).__name__, str(error).splitlines()[:1]))
    return found


_range = lambda t, *shape: t.arange(float(t.Size(shape).numel())).reshape(shape)  # noqa: E731

CASES = {
    "broadcast_in_dim": lambda t: t._prims.broadcast_in_dim(_range(t, 2, 1), (2, 4, 3), (0, 2)),
    "collapse_view": lambda t: t._prims.collapse_view(_range(t, 2, 3, 4), 0, 1),
    "collapse": lambda t: t._prims.collapse(_range(t, 2, 3, 4).transpose(1, 2), 1, 2),
    "split_dim": lambda t: t._prims.split_dim(_range(t, 2, 6), 1, 2),
    "split_dim, wrong": lambda t: t._prims.split_dim(_range(t, 2, 6), 1, 4),
    "transpose": lambda t: t._prims.transpose(_range(t, 2, 3, 4), (2, 0, 1)),
    "squeeze": lambda t: t._prims.squeeze(_range(t, 1, 3, 1), (0, 2)),
    "expand_dims": lambda t: t._prims.expand_dims(_range(t, 2, 3), (0, 1)),
    "expand_dims, wrong": lambda t: t._prims.expand_dims(_range(t, 2, 3), (0, 2)),
    "rev": lambda t: t._prims.rev(_range(t, 2, 3), (1,)),
    "convert_element_type": lambda t: t._prims.convert_element_type(t.tensor([1.7, -2.2]), t.int32),
    "shift_right_logical": lambda t: t.ops.prims.shift_right_logical(t.tensor([8, 5, 1]), t.tensor([1, 0, 3]))
    if t is ftorch else t.tensor([4, 5, 0]),  # PyTorch has no implementation of it
    "div of integers": lambda t: t._prims.div(t.tensor([7, -7]), t.tensor([2, 2])),
    "cbrt": lambda t: t._prims.cbrt(t.tensor([8.0, -27.0, 0.0])),
    "sum": lambda t: t._prims.sum(_range(t, 2, 3), (0,)),
    "sum of integers": lambda t: t._prims.sum(t.ones(2, 3, dtype=t.int32), (0, 1)),
    "prod": lambda t: t._prims.prod(_range(t, 2, 3) + 1, (0, 1)),
    "amax": lambda t: t._prims.amax(_range(t, 2, 3), (1,)),
    "xor_sum": lambda t: t._prims.xor_sum(t.tensor([[1, 2, 4], [1, 7, 9]]), (1,)) if t is ftorch else t.tensor([7, 15]),
    "var": lambda t: t._prims.var(_range(t, 2, 3), (1,), 1),
    "iota": lambda t: t._prims.iota(4, start=3, step=2, dtype=t.int64, device=t.device("cpu"), requires_grad=False),
    "svd": lambda t: t._prims.svd(_range(t, 3, 2), full_matrices=False)[1],
    "bessel_i0": lambda t: t._prims.bessel_i0(t.tensor([0.5, 2.0])),
    "fft_r2c": lambda t: t._prims.fft_r2c(_range(t, 6), dim=(0,), onesided=True),
    "fft_c2r": lambda t: t._prims.fft_c2r(t.tensor([3 + 0j, 1 - 1j]), dim=(0,), last_dim_size=2),
    "copy_strided": lambda t: t._prims.copy_strided(_range(t, 2, 3), (1, 2)),
    "maximum_value": lambda t: [t._prims.maximum_value(d) for d in (t.bool, t.uint8, t.int64, t.float16)],
    "the op's name": lambda t: str(t.ops.prims.convert_element_type.default),
    "references": lambda t: (t._refs.rpow(t.tensor([1.0, 2.0]), 2), t._refs.special.entr(t.ones(2) / 2),
                             t._refs.nn.functional.softplus(t.zeros(2)), t._refs.sub(t.ones(2), t.ones(2), alpha=3)),
    "reference in place": lambda t: t._refs.nn.functional.mish_(t.ones(2)),
    "unexpand": lambda t: t.autograd._functions.utils.maybe_unexpand(t.ones(4, 2, 3), (2, 1)),
    "nested": lambda t: t.autograd.function._nested_map(lambda x: isinstance(x, int), str)({"a": [1, (2, None)]}),
    "not nested": lambda t: t.autograd.function._nested_map(lambda x: isinstance(x, int), str)(["a"]),
    "function state": lambda t: _states(t),
    "scripted list": lambda t: _changes(t.jit.script([1, 2])),
    "scripted dictionary": lambda t: _changes(t.jit.script({"a": 1})),
    "no list": lambda t: t._C.ScriptList(5),
    "artifact": lambda t: t._logging.getArtifactLogger("m", "no such thing"),
}


def _states(t):
    found, before = [], t._C._get_torch_function_state()
    with t._C.DisableTorchFunctionSubclass():
        found.append(t._C._get_torch_function_state().name)
    with t._C.DisableTorchFunction():
        found.append(t._C._get_torch_function_state().name)
    t._C._set_torch_function_state(t._C._TorchFunctionState.ALL_DISABLED)
    found.append(t._C._get_torch_function_state().name)
    t._C._set_torch_function_state(before)
    return [*found, t._C._get_torch_function_state().name]


def _changes(container):
    said = [type(container).__name__, len(container), str(container)]
    for change in (
        lambda: container.append(3), lambda: container.append("x"), lambda: container[0], lambda: container["b"],
        lambda: container.pop(9), lambda: container.pop(0), lambda: container.__setitem__("z", 5), lambda: list(container),
        lambda: list(container.items()), lambda: "a" in container, lambda: container.__delitem__("zz"),
    ):
        try:
            said.append(change())
        except Exception as error:  # noqa: BLE001
            said.append(type(error).__name__)
    return [*said, str(container)]


@pytest.mark.parametrize("name", CASES)
def test_as_in_pytorch(name):
    theirs, ours = _both(CASES[name])
    if isinstance(theirs, torch.Tensor):
        theirs, ours = (theirs,), (ours,)
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours):
        if isinstance(a, torch.Tensor):
            assert_same(b, a)
            assert b.stride() == a.stride()
        else:
            assert a == b


def test_all_primitives_are_there():
    theirs, ours = (importlib.import_module(f"{library.__name__}._prims") for library in (torch, ftorch))
    assert [name for name in theirs.__all__ if hasattr(theirs, name) and not hasattr(ours, name)] == []


def test_all_references_are_there():
    for part in ("", ".nn.functional", ".linalg", ".fft", ".special", "._conversions"):
        theirs, ours = (importlib.import_module(f"{library.__name__}._refs{part}") for library in (torch, ftorch))
        assert [name for name in theirs.__all__ if not hasattr(ours, name)] == []
        assert ours.__all__


def test_programs_change_lists_that_they_are_given():
    unit = ftorch.jit.CompilationUnit("def f(x: List[int], y: Dict[str, int]):\n    x.append(3)\n    y['b'] = len(x)\n")
    numbers, sizes = ftorch.jit.script([1, 2]), ftorch.jit.script({"a": 1})
    unit.f(numbers, sizes)
    assert (list(numbers), dict(sizes.items())) == ([1, 2, 3], {"a": 1, "b": 3})


def test_broadcast_adds_gradients_up():
    from ftorch.nn.parallel._functions import Broadcast

    x = ftorch.ones(2, requires_grad=True)
    a, b = Broadcast.apply(("cpu", "cpu"), x)
    (a + 2 * b).sum().backward()
    assert type(a.grad_fn).__name__ == "BroadcastBackward"
    assert x.grad.tolist() == [3, 3]


def test_events_reach_handlers():
    from ftorch._logging import _internal

    kept = []

    class Keep(logging.Handler):
        def emit(self, record):
            kept.append((record.metadata, record.payload))

    handler = Keep()
    _internal.trace_log.addHandler(handler)
    level = _internal.trace_log.level
    _internal.trace_log.setLevel(logging.DEBUG)
    try:
        ftorch._logging.trace_structured("artifact", lambda: {"name": "n"}, payload_fn=lambda: [1])
    finally:
        _internal.trace_log.removeHandler(handler)
        _internal.trace_log.setLevel(level)
    assert kept == [({"artifact": {"name": "n"}}, "[\n1\n]")]
