"""How masked tensors are made."""

from __future__ import annotations

from .core import MaskedTensor, attached


def masked_tensor(data: object, mask: object, requires_grad: bool = False) -> MaskedTensor:
    """A new masked tensor, a leaf of the graph.

    Args:
        data: a tensor of a real dtype; mask: a bool tensor of its shape, True where it is specified.

    Raises:
        TypeError: for other data and masks. ValueError: if the shapes differ.

    >>> import warnings; warnings.simplefilter("ignore")
    >>> import ftorch as torch
    >>> torch.masked.masked_tensor(torch.arange(3), torch.tensor([True, False, True])).sum()
    MaskedTensor(2, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: object, mask: object) -> MaskedTensor:
    """A masked tensor of data, differentiable with respect to the data.

    >>> import warnings; warnings.simplefilter("ignore")
    >>> import ftorch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.masked.as_masked_tensor(x, torch.tensor([True, False])).sum().backward()
    >>> x.grad
    MaskedTensor(
      [  1.0000,       --]
    )
    """
    return attached(data, mask)
