"""``torch.backends.miopen``: AMD's kernels, which XLA chooses itself."""

from . import make_flags

make_flags(__name__, immediate=False)
