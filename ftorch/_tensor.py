"""`Tensor`, under the name that pickles and annotations have (``torch._tensor``)."""

from .eager.tensor import Tensor  # noqa: F401
