"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...eager.core import api as torch
from ...eager.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters' elements, one after the other (``torch.nn.utils.parameters_to_vector``).

    Raises:
        TypeError: if parameters are on different devices.

    >>> import ftorch as torch
    >>> torch.nn.utils.parameters_to_vector([torch.ones(2), torch.zeros(1, 1)])
    tensor([1., 1., 0.])
    """
    return torch.cat([parameter.view(-1) for parameter in _on_one_device(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes slices of a vector the data of parameters (``torch.nn.utils.vector_to_parameters``).

    Raises:
        TypeError: if ``vec`` is no tensor, or if parameters are on different devices.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in _on_one_device(parameters):
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end


def _on_one_device(parameters) -> Iterator[Tensor]:
    device = None
    for parameter in parameters:
        device = device or parameter.device
        if parameter.device != device:
            raise TypeError(
                "Found two parameters on different devices, this is currently not supported."
            )
        yield parameter
