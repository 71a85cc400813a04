"""Printing against PyTorch's, over random arrays and options."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import torch

from ftorch.eager.core import device, dtype
from ftorch.eager.tensor_api import printing
from tests.oracle import both

DTYPES = {
    torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16,
    torch.bfloat16: ml_dtypes.bfloat16, torch.int64: np.int64, torch.int32: np.int32,
    torch.uint8: np.uint8, torch.int8: np.int8, torch.int16: np.int16, torch.bool: np.bool_,
    torch.complex64: np.complex64, torch.complex128: np.complex128, torch.uint16: np.uint16,
    torch.float8_e5m2: ml_dtypes.float8_e5m2, torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
}
SHAPES = [
    (), (1,), (5,), (40,), (0,), (2, 3), (0, 3), (2, 0), (3, 40), (2, 1, 4), (1, 1, 1), (2, 2, 2, 2),
    (1001,), (7, 200), (2, 3, 200), (12, 12, 12), (1, 2000), (5, 1, 3, 100),
]
OPTIONS = [
    {}, {"precision": 2}, {"precision": 8}, {"precision": 0}, {"sci_mode": True},
    {"sci_mode": False}, {"linewidth": 30}, {"linewidth": 5}, {"linewidth": 200},
    {"edgeitems": 1, "threshold": 3}, {"edgeitems": 0, "threshold": 3}, {"profile": "short"},
    {"profile": "full", "threshold": 2000}, {"profile": "full", "linewidth": 100, "precision": 6},
]


@pytest.fixture(autouse=True)
def default_options():
    yield
    for set_printoptions in (printing.set_printoptions, torch.set_printoptions):
        set_printoptions(profile="default")


def random_values(rng, shape, kind):
    """Floats of the kinds that the notation depends on."""
    values = {
        0: lambda: rng.normal(size=shape),
        1: lambda: np.round(rng.normal(size=shape) * 5),
        2: lambda: rng.normal(size=shape) * 10.0 ** rng.integers(-8, 9, shape),
        3: lambda: rng.normal(size=shape) * 1e5,
        4: lambda: np.round(rng.normal(size=shape) * 10.0 ** rng.integers(0, 10)),
        5: lambda: rng.normal(size=shape) * 1e-3,
        6: lambda: np.zeros(shape),
        7: lambda: rng.uniform(1e-4, 0.09, size=shape),
    }[kind]()
    values = np.asarray(values)
    for special in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        if rng.random() < 0.15:
            values[rng.random(shape) < 0.2] = special
    return values


def random_tensor(rng, shape, torch_dtype):
    with np.errstate(invalid="ignore"):
        values = random_values(rng, shape, rng.integers(8))
        if torch_dtype.is_complex:
            values = values + 1j * random_values(rng, shape, rng.integers(8))
        elif not torch_dtype.is_floating_point:
            values = rng.integers(-(10 ** rng.integers(1, 9)), 10 ** rng.integers(1, 9), shape)
    return torch.from_numpy(np.asarray(values)).to(torch_dtype)


def to_array(tensor):
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4:
        return tensor.double().numpy().astype(DTYPES[tensor.dtype])
    return tensor.numpy()


def ours(tensor, **options):
    ours_dtype = dtype.from_numpy(np.dtype(DTYPES[tensor.dtype]))
    return printing.tensor_repr(
        to_array(tensor.detach()), dtype=ours_dtype, device=device.CPU, **options
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_random_tensors_print_as_in_pytorch(options):
    rng = np.random.default_rng(len(str(options)))
    torch.set_printoptions(**options)
    printing.set_printoptions(**options)
    for torch_dtype, shape in itertools.product(DTYPES, SHAPES):
        tensor = random_tensor(rng, shape, torch_dtype)
        assert ours(tensor) == repr(tensor), (torch_dtype, shape)


@pytest.mark.parametrize("default", [torch.float64, torch.float16])
def test_the_default_dtype_goes_without_saying(default):
    before = dtype.get_default_dtype(), torch.get_default_dtype()
    try:
        torch.set_default_dtype(default)
        dtype.set_default_dtype(dtype.from_numpy(np.dtype(DTYPES[default])))
        for torch_dtype, shape in itertools.product(DTYPES, [(2,), (0,), (2, 0)]):
            tensor = torch.ones(shape, dtype=torch_dtype)
            assert ours(tensor) == repr(tensor)
    finally:
        dtype.set_default_dtype(before[0])
        torch.set_default_dtype(before[1])


@pytest.mark.parametrize("size", [1, 3, 11, 12, 13, 14, 15, 100])
def test_gradient_suffixes_break_lines_as_in_pytorch(size):
    leaf = torch.linspace(-1, 1, size, requires_grad=True)
    assert ours(leaf, requires_grad=True) == repr(leaf)
    result = leaf * 2
    assert ours(result, requires_grad=True, grad_fn_name="MulBackward0") == repr(result)
    double = result.double()
    assert ours(double, grad_fn_name="ToCopyBackward0") == repr(double)


def test_accelerators_and_other_names_are_shown():
    array = np.ones(2, np.float32)
    where = device.device("cuda:1")
    assert (
        printing.tensor_repr(array, dtype=dtype.float32, device=where)
        == "tensor([1., 1.], device='cuda:1')"
    )
    named = printing.tensor_repr(array, dtype=dtype.float32, device=device.CPU, prefix="Sub(")
    assert named == "Sub([1., 1.])"
    contents = printing.tensor_repr(array, dtype=dtype.half, device=device.CPU, contents="abc")
    assert contents == torch.ones(2, dtype=torch.half).__repr__(tensor_contents="abc")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_are_kept_as_in_pytorch(options):
    torch.set_printoptions(linewidth=77, sci_mode=True)
    printing.set_printoptions(linewidth=77, sci_mode=True)
    torch.set_printoptions(**options)
    printing.set_printoptions(**options)
    assert printing.get_printoptions() == vars(torch._tensor_str.PRINT_OPTS)


def test_printoptions_are_restored():
    before = printing.get_printoptions()
    with printing.printoptions(precision=1, sci_mode=True):
        assert printing.PRINT_OPTS.precision == 1
    assert printing.get_printoptions() == before


def test_long_descriptions_of_meta_tensors_are_broken():
    both(lambda t: repr(t.empty(1024, 5, 65535, 65535, device="meta", requires_grad=True) * 2))
    both(lambda t: repr(t.empty(3, device="meta")))
