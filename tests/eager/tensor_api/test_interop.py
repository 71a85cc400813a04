"""NumPy, JAX, DLPack, pickling and Python numbers."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch as reference

import ftorch as ft
from tests.oracle import assert_says_same, both, both_with_text, outcome


def test_from_numpy_shares_memory():
    array = np.arange(4.0)
    t = ft.from_numpy(array)
    array[0] = 9
    assert t.tolist() == [9, 1, 2, 3]
    t[1] = 8
    t.mul_(2)
    assert array.tolist() == [18, 16, 4, 6]


def test_numpy_shares_memory():
    t = ft.arange(3.0)
    array = t.numpy()
    array[0] = 5
    assert (t + 0).tolist() == [5, 1, 2]
    t[2] = 7
    assert array.tolist() == [5, 1, 7]


def test_a_view_of_shared_memory():
    array = np.zeros((2, 3))
    ft.from_numpy(array)[:, 1] = 4
    assert array[:, 1].tolist() == [4, 4]


def test_jax_both_ways():
    t = ft.from_jax(jnp.arange(3.0))
    assert isinstance((t * 2).jax(), jax.Array)
    assert jnp.sin(t).shape == (3,)
    assert jax.jit(lambda a: a + 1)(t.jax()).tolist() == [1, 2, 3]


def test_dlpack():
    t = ft.arange(3.0)
    assert np.from_dlpack(t).tolist() == [0, 1, 2]
    assert ft.from_dlpack(np.arange(3.0)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "options",
    [
        {"requires_grad": False},
        {"copy": True, "requires_grad": False},
        {"copy": False},
        {"device": "cpu"},
        {"device": "cpu", "copy": True},
        {"device": "meta"},
        {"device": 3},
    ],
    ids=str,
)
def test_dlpack_copies(options):
    def program(t):
        seen = []
        for source in np.arange(3.0), t.arange(3.0):
            tensor = t.from_dlpack(source, **options)
            source[0] = 9
            seen.append(tensor.tolist())
        return seen

    mine, theirs = outcome(program, ft), outcome(program, reference)
    assert [str(part) for part in mine] == [str(part) for part in theirs]
    assert type(mine[1]) is type(theirs[1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [
    lambda t: t.ones(2, requires_grad=True), lambda t: t.tensor([1 + 2j]).conj(), lambda t: t.ones(2).to_sparse(),
    lambda t: t.quantize_per_tensor(t.ones(2), 0.1, 0, t.quint8)])
def test_dlpack_refuses(make):
    assert both_with_text(lambda t: t.from_dlpack(make(t))) == both_with_text(lambda t: make(t).__dlpack__())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex32", "bfloat16", "float16", "bool", "uint16"])
def test_dlpack_shares_memory_of_any_dtype(dtype):
    def program(t):
        x = t.arange(4).to(getattr(t, dtype))
        y = t.from_dlpack(x[1:])
        y[0] = 1
        return y.dtype, y.shape, y.float().tolist() if dtype != "complex32" else None, x.data_ptr() + x.itemsize == y.data_ptr()

    both(program)


def test_deepcopy_keeps_sharing():
    t = ft.arange(4.0)
    a, b = copy.deepcopy([t, t[1:]])
    a[1] = 9
    assert b[0].item() == 9
    assert t[1].item() == 1


def test_pickle():
    both(lambda m: pickle.loads(pickle.dumps([m.arange(4.0)[1:], m.ones(2, 3).T])))


def test_values():
    both(lambda m: (m.tensor([1, 2]).tolist(), m.tensor(1.5).item(), int(m.tensor(3)),
                    float(m.tensor(2)), bool(m.tensor([0])), complex(m.tensor(1j)),
                    m.tensor([[1.0], [2.0]]).tolist(), list(range(5))[m.tensor(3)]))


def test_arrays_and_numpy_scalars_as_operands():
    both(lambda m: (m.ones(2) * np.float64(2), m.ones(2) + np.float32(1), m.tensor(np.int64(3)),
                    m.tensor(np.arange(3)), m.as_tensor(np.ones(2, np.float16))))


ERRORS = {
    "item": lambda m: m.ones(2).item(),
    "bool": lambda m: bool(m.ones(2)),
    "bool of nothing": lambda m: bool(m.ones(0)),
    "ragged": lambda m: m.tensor([[1, 2], [3]]),
    "numpy of a gradient": lambda m: m.ones(2, requires_grad=True).numpy(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    both_with_text(ERRORS[name])


LAYOUTS = {
    "permuted": lambda: np.ones((2, 3, 4)).transpose(2, 0, 1),
    "permuted, with gaps": lambda: np.ones((2, 3, 4)).transpose(2, 0, 1)[::2],
    "Fortran": lambda: np.asfortranarray(np.ones((3, 4, 1, 2))),
    "Fortran, with gaps": lambda: np.asfortranarray(np.ones((3, 4)))[::2],
    "steps": lambda: np.ones((3, 4))[:, ::2],
    "repeated": lambda: np.broadcast_to(np.ones(3), (2, 3)).copy("K"),
    "backwards": lambda: np.ones(3)[::-1],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_order_of_elements(name):
    """Copies of an array keep its order in memory, also in another dtype."""
    for make in ("tensor", "as_tensor", "from_numpy"):
        assert_says_same(lambda m: getattr(m, make)(LAYOUTS[name]()).stride())
    for dtype in ("float32", "int32"):
        assert_says_same(lambda m: m.tensor(LAYOUTS[name](), dtype=getattr(m, dtype)).stride())


ARRAYS = {
    "an array": lambda m, a, **k: m.asarray(a, **k),
    "a number": lambda m, a, **k: m.asarray(3.5, **k),
    "a NumPy number": lambda m, a, **k: m.asarray(np.float32(3), **k),
    "a list": lambda m, a, **k: m.asarray([1.0, 2.0], **k),
    "a buffer": lambda m, a, **k: m.asarray(bytearray(b"abcdefgh"), **k),
    "a tensor": lambda m, a, **k: m.asarray(m.ones(2), **k),
    "a result": lambda m, a, **k: m.asarray(m.ones(2, requires_grad=True) * 2, **k),
    "a text": lambda m, a, **k: m.asarray("abc", **k),
}
OPTIONS = [
    {"requires_grad": False}, {"copy": True, "requires_grad": False}, {"copy": False, "requires_grad": False},
    {"requires_grad": True}, {"dtype": "float32", "copy": False, "requires_grad": False},
    {"dtype": "int32", "requires_grad": True}, {"device": "meta", "requires_grad": False},
    {"device": "meta", "copy": False, "requires_grad": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ARRAYS)
def test_asarray(name, options):
    def run(m):
        given = {k: getattr(m, v) if k == "dtype" else v for k, v in options.items()}
        x = ARRAYS[name](m, np.arange(3.0), **given)
        return x if x.device.type == "cpu" else (x.device.type, x.dtype, tuple(x.shape))

    assert_says_same(run)


def test_asarray_shares():
    a = np.zeros(2)
    shared, copied = ft.asarray(a), ft.asarray(a, copy=True)
    a[0] = 5
    assert shared.tolist() == [5, 0] and copied.tolist() == [0, 0]
    x = ft.ones(2)
    assert ft.asarray(x) is x and ft.asarray(x, copy=True) is not x


LEAVES = {
    "tensor": lambda m: m.tensor([1], requires_grad=True),
    "frombuffer": lambda m: m.frombuffer(bytearray(8), dtype=m.int32, requires_grad=True),
    "Parameter": lambda m: m.nn.Parameter(m.ones(2, dtype=m.int32)),
    "sparse": lambda m: m.sparse_coo_tensor([[0]], [1], (2,), requires_grad=True),
    "method": lambda m: m.ones(2, dtype=m.int32).requires_grad_(),
}


@pytest.mark.parametrize("name", LEAVES)
def test_integers_require_no_grad(name):
    both_with_text(LEAVES[name])
