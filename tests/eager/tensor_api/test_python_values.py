"""Tensors and what Python gives: functions of elements, sizes, buffers, more dimensions than NumPy's arrays have."""


import pytest

from tests.oracle import assert_prints_same


def test_functions_of_elements():
    assert_prints_same("""
z = torch.ones(3, requires_grad=True)
x = torch.ones(3)
t(lambda: x.clone().map2_(x, z, lambda a, b, c: a)), t(lambda: x.clone().map2_(z, x, lambda a, b, c: a))
t(lambda: x.clone().map_(z, lambda a, b: a)), t(lambda: z.map_(z, lambda a, b: a)), t(lambda: z.apply_(lambda a: a))
t(lambda: x.clone().map2_(x * 2, x * 3, lambda a, b, c: a + b * c)), t(lambda: x.clone().map_(x * 5, lambda a, b: a - b))
for value in ("'str'", "None", "1.5", "True", "2"):
    for dtype in (torch.int64, torch.float32, torch.bool):
        if (value, dtype) != ("1.5", torch.bool):
            t(lambda: torch.ones(2, dtype=dtype).apply_(lambda a: eval(value)))
""")


@pytest.mark.parametrize("call", ["torch.ones(a)", "torch.ones(*a)", "torch.zeros(2).new_zeros(a)", "torch.empty(a)"])
def test_sizes_of_numpy(call):
    assert_prints_same(f"""
for a in ((np.array(3), np.int64(4)), (np.int64(3), np.array(4)), (torch.tensor(3), np.array(2)), (np.array(3),)):
    t(lambda: {call}.shape)
for a in ((np.array(3.), 2), (np.array([3, 4]), 2)):
    try:
        {call}
    except TypeError:
        print("refused")
""")


def test_buffers():
    assert_prints_same("""
four = bytearray([1, 2, 3, 4])
for call in (
    lambda: torch.ShortStorage.from_buffer(four, "big").tolist(),
    lambda: torch.ByteStorage.from_buffer(four).tolist(),
    lambda: torch.IntStorage.from_buffer(four * 2, "little", 1, 4).tolist(),
    lambda: torch.UntypedStorage.from_buffer(four, "big", dtype=torch.int).tolist(),
    lambda: torch.BoolStorage.from_buffer(bytearray([0, 1, 2]), "big").tolist(),
    lambda: torch.FloatStorage.from_buffer(bytearray(3), "big"),
    lambda: torch.FloatStorage.from_buffer(bytearray(8), "big", count=3),
    lambda: torch.FloatStorage.from_buffer(bytearray(8), "mid"),
):
    t(call)
""")


def test_more_dimensions_than_numpy_has():
    assert_prints_same("""
def made(size):
    return torch.testing.make_tensor(size, dtype=torch.float, device="cpu")
for make in (torch.randn, torch.rand, torch.ones, torch.empty, made):
    print(make([1] * 65).dim())
x = torch.ones(1).view([1] * 65)
for name in ("sum", "amax", "std", "prod", "logsumexp", "norm"):
    t(lambda: getattr(torch, name)(x, dim=0))
    t(lambda: getattr(torch, name)(x[0], dim=0).shape)
""")


def test_references_of_reductions():
    assert_prints_same("""
x = torch.arange(6.).view(2, 3)
for name in ("sum", "prod", "mean", "std", "var"):
    f = getattr(torch._refs, name)
    for options in ({}, {"dim": None}, {"dim": None, "keepdim": True}, {"dim": (0, 1)}, {"dim": 1},
                    {"dim": [0], "keepdim": True}, {"keepdim": True}):
        t(lambda: f(x, **options))
    if name in ("std", "var"):
        t(lambda: f(x, unbiased=False, keepdim=True))
""")
