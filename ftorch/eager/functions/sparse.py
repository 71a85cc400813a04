"""Sparse conversions of dense tensors, and errors of methods that need a sparse one.

Sparse tensors stand above the engine (`ftorch.sparse`); they are imported when first asked for.
"""

from __future__ import annotations

from ..call import op as _op
from ..core import api as torch
from ..core import formats
from ..core.composite import composite


def _sparse():
    return _op.hooks.sparse()


@composite("method")
def to_dense(self, dtype=None, *, masked_grad=True):
    """The tensor itself, cast if asked: it is dense."""
    return self if dtype is None else self.to(dtype)


@composite("method")
def sparse_dim(self):
    """How many dimensions are sparse: none."""
    return 0


@composite("method")
def dense_dim(self):
    """How many dimensions are dense: all."""
    return self.dim()


@composite("method")
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The tensor in a sparse layout.

    Args:
        sparse_dim: as coordinates of that many first dimensions; or ``layout``, any sparse one, with
            ``blocksize`` (rows, columns) for block layouts.

    Raises:
        RuntimeError: for sizes and layouts that do not fit.

    >>> import ftorch as torch
    >>> torch.tensor([[0., 7.], [0., 0.]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([7.]),
           size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    return _sparse()._to_sparse(
        self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
    )


@composite("method")
def to_sparse_coo(self):
    """The tensor as coordinates."""
    return _sparse()._to_sparse(self)


def _line_conversion(name):
    def convert(self, dense_dim=None):
        layout = getattr(formats, name)
        return _sparse()._to_compressed(self, layout, None, dense_dim)

    convert.__doc__ = f"The tensor in layout ``torch.{name}``."
    return convert


def _block_conversion(name):
    def convert(self, blocksize=None, dense_dim=None):
        layout = getattr(formats, name)
        return _sparse()._to_compressed(self, layout, blocksize, dense_dim)

    convert.__doc__ = f"The tensor in layout ``torch.{name}``, in blocks of a size."
    return convert


def _refusal(name, wanted):
    def method(self):
        raise RuntimeError(f"{name} expected {wanted} layout but got Strided")

    method.__doc__ = f"Raises RuntimeError: {name} is for sparse tensors."
    return method


def _missing(name):
    def method(self, *args):
        kind = self.device.type.upper()
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the '{kind}' backend: it is for sparse "
            f"tensors; call to_sparse() first. 'aten::{name}' is only available for these backends: "
            f"[Sparse{kind}, SparseCsr{kind}]."
        )

    method.__doc__ = f"Raises NotImplementedError: {name} is for sparse tensors."
    return method


def _declare(name, function):
    function.__name__ = function.__qualname__ = name
    composite("method")(function)


for _name in ("sparse_csr", "sparse_csc"):
    _declare(f"to_{_name}", _line_conversion(_name))
for _name in ("sparse_bsr", "sparse_bsc"):
    _declare(f"to_{_name}", _block_conversion(_name))
_COO = "sparse coordinate tensor"
_ROW, _COLUMN = (f"sparse {way} compressed tensor" for way in ("row", "column"))
for _name, _wanted in {
    "coalesce": _COO, "indices": _COO, "is_coalesced": _COO, "values": "sparse tensor",
    "crow_indices": _ROW, "col_indices": _ROW, "ccol_indices": _COLUMN, "row_indices": _COLUMN,
}.items():
    _declare(_name, _refusal(_name, _wanted))
for _name in ("_nnz", "_indices", "_values", "sparse_resize_", "sparse_resize_and_clear_",
              "_coalesced_"):
    _declare(_name, _missing(_name))


@composite("function method")
def resize_as_sparse_(input, the_template):
    """Gives a sparse tensor the size of another, in place.

    Raises:
        NotImplementedError: if ``input`` is dense.
    """
    return _missing("resize_as_sparse_")(input)


@composite("method")
def sparse_mask(self, mask):
    """The elements at the places of a sparse tensor, as a tensor of its layout.

    >>> import ftorch as torch
    >>> torch.arange(4.).reshape(2, 2).sparse_mask(torch.eye(2).to_sparse()).values()
    tensor([0., 3.])
    """
    return _sparse()._sparse_mask(self, mask)


@composite("function method")
def smm(input, mat2):
    """A sparse matrix times a dense one, as a sparse matrix.

    Raises:
        NotImplementedError: if ``input`` is dense.
    """
    return _missing("sspaddmm")(input)


@composite("function method", aliases="saddmm")
def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat1 @ mat2)`` of sparse ``input`` and ``mat1``.

    Raises:
        NotImplementedError: if they are dense.
    """
    return _missing("sspaddmm")(input)


@composite("function", aliases="dsmm")
def spmm(input, mat2):
    """``torch.mm`` by a former name."""
    return torch.mm(input, mat2)


@composite("function", aliases="hsmm")
def hspmm(mat1, mat2, *, out=None):
    """A sparse matrix times a dense one, as a tensor of rows.

    Raises:
        NotImplementedError: if ``mat1`` is dense.
    """
    return _missing("hspmm")(mat1)
