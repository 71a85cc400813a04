"""Removed functions: calls say what to use now, in PyTorch's words."""

from __future__ import annotations

from ..core.composite import composite

_START = "This function was deprecated since version 1.9 and is now removed. "
_TRIANGLE = "UPLO='U' if upper else 'L'"


@composite("function method")
def solve(input, A, *, out=None):
    """Removed: see `torch.linalg.solve`."""
    raise RuntimeError(
        f"{_START}`torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` "
        "has its arguments reversed and does not return the LU factorization.\n\n"
        "To get the LU factorization see `torch.lu`, which can be used with `torch.lu_solve` or "
        "`torch.lu_unpack`.\nX = torch.solve(B, A).solution should be replaced with:\n"
        "X = torch.linalg.solve(A, B)"
    )


@composite("function method")
def lstsq(input, A, *, out=None):
    """Removed: see `torch.linalg.lstsq`."""
    raise RuntimeError(
        f"{_START}`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.\n"
        "`torch.linalg.lstsq` has reversed arguments and does not return the QR decomposition in the "
        "returned tuple (although it returns other information about the problem).\n\n"
        "To get the QR decomposition consider using `torch.linalg.qr`.\n\n"
        "The returned solution in `torch.lstsq` stored the residuals of the solution in the last "
        "m - n columns of the returned value whenever m > n. In torch.linalg.lstsq, the residuals are "
        "in the field 'residuals' of the returned named tuple.\n\nThe unpacking of the solution, as "
        "in\nX, _ = torch.lstsq(B, A).solution[:A.size(1)]\nshould be replaced with:\n"
        "X = torch.linalg.lstsq(A, B).solution"
    )


@composite("function method")
def symeig(input, eigenvectors=False, upper=True, *, out=None):
    """Removed: see `torch.linalg.eigh`."""
    raise RuntimeError(
        f"{_START}The default behavior has changed from using the upper triangular portion of the "
        "matrix by default to using the lower triangular portion.\n\n"
        "L, _ = torch.symeig(A, upper=upper) should be replaced with:\n"
        f"L = torch.linalg.eigvalsh(A, {_TRIANGLE})\n\nand\n\n"
        "L, V = torch.symeig(A, eigenvectors=True) should be replaced with:\n"
        f"L, V = torch.linalg.eigh(A, {_TRIANGLE})"
    )


@composite("function method")
def eig(self, eigenvectors=False, *, e=None, v=None):
    """Removed: see `torch.linalg.eig`."""
    raise RuntimeError(
        f"{_START}`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather "
        "than real tensors mimicking complex tensors.\n\n"
        "L, _ = torch.eig(A) should be replaced with:\nL_complex = torch.linalg.eigvals(A)\n\n"
        "and\n\nL, V = torch.eig(A, eigenvectors=True) should be replaced with:\n"
        "L_complex, V_complex = torch.linalg.eig(A)"
    )
