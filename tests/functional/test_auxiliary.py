"""What a function gives beside its output, assignments that do not fit, and make_fx of products: as in PyTorch."""

import pytest

from tests.differential.observing import compare

_START = """
from torch.func import grad, vjp, jvp, jacrev, jacfwd, grad_and_value
from torch.fx.experimental.proxy_tensor import make_fx
x = torch.tensor([1., 2.])
z = torch.zeros(3)
w = torch.ones(2, 2)
"""


@pytest.mark.parametrize(
    "program",
    [
        "grad(lambda x: ((x ** 2).sum(), x + 1), has_aux=True)(x)",
        "grad(lambda x: (x.sum(), {'a': 3}), has_aux=True)(x)",
        "grad(lambda x: (x.sum(), None), has_aux=True)(x)",
        "vjp(lambda x: (x, 3), x, has_aux=True)",
        "jvp(lambda x: (x, 3), (x,), (x,), has_aux=True)",
        "jacrev(lambda x: (x, 's'), has_aux=True)(x)",
        "jacfwd(lambda x: (x, 's'), has_aux=True)(x)",
        "jacrev(lambda x: (x, x * 2), has_aux=True)(x)",
        "jacfwd(lambda x: (x, x * 2), has_aux=True)(x)",
        "jacrev(lambda x: x.long())(x)",
        "jacrev(lambda x: (x, x > 0))(x)",
        "vjp(lambda x: x.long(), x)",
        "grad(lambda x: x.sum().long())(x)",
        "jacfwd(lambda x: x.long())(x)",
        "jacfwd(lambda x: x * 2)(x.long())",
        "jvp(lambda x: x * 2, (x,), (x.long(),))",
        "jvp(lambda x: x.long(), (x,), (x,))",
        "z[0] = torch.ones(2)",
        "z[:2] = torch.ones(3)",
        "z[:2] = torch.ones(1, 2)",
        "del z[0]",
        "z[:] = torch.ones(2, 3)",
        "print(make_fx(lambda x: F.linear(x, x).relu())(w).code)",
        "print(make_fx(lambda x: F.linear(x, x, x[0]))(w).code)",
        "print(make_fx(lambda x: x @ x)(w).code, make_fx(lambda x: x @ x[0])(w).code, make_fx(lambda x: x[0] @ x[1])(w).code)",
    ],
)
def test_as_pytorch(program):
    assert [d for d in compare(_START + program) if d[0] not in ("version", "is_view")] == []
