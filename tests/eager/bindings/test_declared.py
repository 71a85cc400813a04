"""Composites' arguments: what PyTorch's parser says of calls that do not fit, and the schemas that it is said from."""

import pytest
import torch as pt

import ftorch as torch
from ftorch.eager.bindings import declared

CALLS = """
zeros() | zeros(1.5) | zeros(2, foo=1) | zeros((2, "x")) | zeros(2, dtype=3)
ones(2, 3, out=3) | full((2,)) | full((2,), "x") | eye(1.5) | eye(2, 2, 2) | arange() | arange("x") | empty_strided((2,))
rand_like(3) | rand_like(T, 1) | randint(1.5, (2,)) | randperm("x") | linspace(1, 2, 1.5) | zeros_like() | full_like(T, [1])
hann_window() | hann_window(4, True, 1) | kaiser_window(4, True, "x") | fft.fftfreq("x") | fft.fftfreq(3, foo=1)
unbind(1) | unbind(T, 1.5) | chunk(T, T) | split_with_sizes(T, 1) | hstack(T) | hstack() | column_stack([T, 1])
T.unbind(1, 2) | T.chunk() | T.chunk(2, dim="x") | T.new_zeros("x") | T.new_full((2,)) | unbind(T, axis=1)[1]
flatten(T, 0, 1, 2) | T.flatten("x") | T.ravel(1) | T.adjoint(out=1) | T.positive(foo=1)
bernoulli(T, torch.float32) | multinomial(T) | multinomial(T, 1.5) | poisson(1) | T.uniform_("x") | T.normal_(1, 2, 3)
result_type(1) | result_type(T, "x") | linalg.diagonal(1) | quantize_per_tensor(T, "x", 1, 2) | rand(2, generator=1)
special.exp2("x") | fix_([True]) | matrix_power(T, [T, T]) | T.lu_solve(torch.float32, T) | sin(T, out=3)
mm(T, torch.ones(3, 3)) | sin() | sin(T, 1) | T.sin(1) | T.sin(out=T) | T.hypot() | add(T) | add(T, 1, 2, 3) | T.mul()
gather(T) | gather(T, 0) | T.gather(index=T) | cumsum(T) | tril(axis=0) | baddbmm() | baddbmm(foo=1, bar=2)
bitwise_or(axis=1, out=[True]) | bitwise_or(out=[True], axis=1) | T.angle(1, out=2) | T.log10_(keepdims=1) | matmul(T)
special.i0e([1], True) | special.hermite_polynomial_h(0, 0, dtype=1j) | squeeze(T, 2.5, dtype=[], foo=1)
T.floor_divide([T, T]) | as_strided_scatter(input=(1,), src=T, size=(1,), stride=(1,)) | special.log1p(torch.device("cpu"))
"""
PROGRAMS = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")]


def _said(library, program):
    scope = {name: getattr(library, name) for name in dir(library)} | {"torch": library, "T": library.ones(2, 2)}
    try:
        return str(eval(program, scope))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_that_do_not_fit(program):
    assert _said(torch, program) == _said(pt, program)


@pytest.mark.parametrize("program", [
    "ones(2, 2, dtype=torch.float64)", "where(T)[0].shape", "T.nonzero(as_tuple=True)[0].shape", "unbind(T, axis=1)[1]",
    "randn(2, 2, out=T).shape", "split_copy(T, 1, out=[T[:1].clone(), T[1:].clone()])", "chunk(T, torch.tensor(2))[1]",
    "zeros(2, dtype=float)", "nn.functional.batch_norm(T, torch.zeros(2), torch.ones(2))",
])
def test_calls_that_fit(program):
    assert _said(torch, program) == _said(pt, program)


def test_errors_about_values_stay():
    """Arguments that fit, and those about which the composite itself has something to say."""
    for program in ("chunk(T, 0)", "unbind(T, 5)", "split_with_sizes(T, [1])", "nn.functional.ctc_loss(T, T, 1, 2)"):
        said = _said(torch, program)
        assert said.split(":")[0] == _said(pt, program).split(":")[0], said


def test_methods_of_the_class_ask_for_an_object():
    assert _said(torch, "Tensor.ravel()") == _said(pt, "Tensor.ravel()")


def test_the_schemas_are_pytorchs():
    for name, lines in declared.lines().items():
        known = {str(s).removeprefix("aten::") for s in pt._C._jit_get_schemas_for_operator(f"aten::{name}")}
        for forms, schema in lines:
            assert schema in known
            assert set(forms) <= {"function", "method", "out"}


METHODS = """
T.reshape() | T.reshape("a") | T.reshape(2.0, 2) | T.reshape([2, 2.0]) | T.reshape(2, torch.tensor(2)) | T.contiguous(1)
T.type_as(1) | T.type(3) | T.float(1) | T.size("a") | T.size(1.5) | T.size(torch.tensor(1)) | T.requires_grad_("x")
T.requires_grad_(1) | setattr(T, "requires_grad", "a") | T.map_(1, 2) | is_floating_point(1) | numel([1])
device() | device(1.5) | device("cpu", "a") | promote_types(torch.float32, 1) | can_cast(1, 2) | finfo(torch.long)
iinfo(torch.float32) | finfo("a") | autograd.backward("a") | nn.functional.cross_entropy(T) | nn.functional.relu()
nn.functional.mse_loss(T, T, foo=1) | nn.functional.softmax(T, 1, 2, 3, 4, 5) | nn.functional.gelu() | set_default_dtype(3)
"""


@pytest.mark.parametrize("program", [call for line in METHODS.strip().splitlines() for call in line.split(" | ")])
def test_methods_that_do_not_fit(program):
    """Written by hand or Python in PyTorch, too: the same type of error, and the same text where it is not Python's own."""
    ours, theirs = _said(torch, program), _said(pt, program)
    binders = ("T.contiguous", "T.float", "set_default")  # whose texts are Python's
    assert ours == theirs or program.startswith(binders) and ours.split(":")[0] == theirs.split(":")[0]


@pytest.mark.parametrize("program", ["float", "double", "cpu"])
def test_conversions_take_memory_formats(program):
    for library in (torch, pt):
        x = library.zeros(1, 2, 3, 3, dtype=library.int32)
        assert getattr(x, program)(memory_format=library.channels_last).stride() == (18, 1, 6, 2)
