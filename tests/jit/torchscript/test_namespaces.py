"""Functions of `fft`, `linalg` and `special` in scripts: each is the op of its namespace, whatever its name begins with."""

import linecache
import re

import pytest
import torch

import ftorch

OF_SIZES = {"fftfreq", "rfftfreq"}
OF_TWO = {
    "linalg": "cross householder_product ldl_solve lstsq lu_solve matmul solve solve_ex solve_triangular vecdot",
    "special": "gammainc gammaincc xlog1py xlogy zeta chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
    "chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w",
}
NAMES = [(space, name) for space in ("fft", "linalg", "special") for name in dir(getattr(torch, space))
         if not name.startswith("_") and callable(getattr(getattr(torch, space), name)) and name[0].islower()
         and getattr(getattr(torch, space), name).__module__ in (None, "torch._C._fft", "torch._C._linalg", "torch._C._special")
         and not re.search("inv$|^tensorsolve|^multi_dot|^ldl_solve|^lu_solve|^householder", name)]


ARGUMENTS = {
    "matrix_power": "x, 2", "multigammaln": "x, 2", "polygamma": "1, x", "softmax": "x, 0", "log_softmax": "x, 0",
    "logsumexp": "x, 0",
}


def scripted(lib, space, name):
    second = ", y" if name in OF_TWO.get(space, "").split() else ""
    given = "4" if name in OF_SIZES else ARGUMENTS.get(name, "x" + second)
    given += ", upper=True" if name == "solve_triangular" else ""
    text = f"def f(x: torch.Tensor, y: torch.Tensor):\n    return torch.{space}.{name}({given})\n"
    file = f"<{lib.__name__}.{space}.{name}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope = {"torch": lib, "__name__": __name__}
    exec(compile(text, file, "exec"), scope)
    x = lib.tensor([[3.0, 1.0, 0.5], [1.0, 4.0, 0.25], [0.5, 0.25, 5.0]])
    program = lib.jit.script(scope["f"])
    if name in ("eig", "svd", "eigh", "qr"):  # signs are free
        result = program(x, x + 1)[0].abs().sum(-1)
    else:
        result = program(x, x + 1)
    several = result if isinstance(result, tuple) else (result,)
    flat = [t for t in several if t.numel() and t.is_floating_point() | t.is_complex()]
    ops = sorted(set(re.findall(r"aten::fft\w+", str(program.graph))))
    return ops, [lib.view_as_real(t.resolve_conj()).tolist() if t.is_complex() else t.tolist() for t in flat]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("space, name", NAMES, ids=[f"{space}.{name}" for space, name in NAMES])
def test_functions_of_namespaces(space, name):
    (theirs, expected), (ours, found) = (scripted(lib, space, name) for lib in (torch, ftorch))
    assert ours == theirs
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-4, atol=1e-4, equal_nan=True)
