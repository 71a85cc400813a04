"""`Tensor`, under the name that pickles and annotations have (``torch._tensor``)."""

from ._serialization.pickling import _rebuild_from_type_v2  # noqa: F401
from .eager.tensor import Tensor  # noqa: F401
