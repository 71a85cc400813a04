"""Shapes of gradients (``torch.autograd._functions.utils``)."""


def maybe_view(tensor, size, check_same_size=True):
    """The tensor in another shape; itself where it has that shape."""
    return tensor if check_same_size and tensor.size() == size else tensor.contiguous().view(size)


def maybe_unexpand(tensor, old_size, check_same_size=True):
    """The sums over what broadcasting had repeated.

    >>> import ftorch as torch
    >>> from ftorch.autograd._functions.utils import maybe_unexpand
    >>> maybe_unexpand(torch.ones(2, 3), (1,))
    tensor([6.])
    """
    return tensor if check_same_size and tensor.size() == old_size else tensor.sum_to_size(old_size)
