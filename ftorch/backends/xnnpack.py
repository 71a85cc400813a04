"""``torch.backends.xnnpack``: kernels for phones, which XLA does not use."""

from . import make_flags

make_flags(__name__, enabled=False)
