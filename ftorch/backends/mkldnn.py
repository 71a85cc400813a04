"""``torch.backends.mkldnn``: XLA brings its own convolutions for the CPU."""

from __future__ import annotations

from . import make_flags
from .mkl import VERBOSE_OFF as VERBOSE_OFF
from .mkl import VERBOSE_ON as VERBOSE_ON
from .mkl import verbose as verbose
from .precision import Precision

VERBOSE_ON_CREATION = 2

conv, matmul, rnn = Precision("mkldnn", "conv"), Precision("mkldnn", "matmul"), Precision("mkldnn", "rnn")


def is_available() -> bool:
    """False."""
    return False


def is_acl_available() -> bool:
    """False."""
    return False


make_flags(
    __name__, precision="mkldnn", enabled=True, deterministic=False, allow_tf32=True,
    bools={
        "enabled": "set_enabled_mkldnn", "deterministic": "set_deterministic_mkldnn",
        "allow_tf32": "_set_onednn_allow_tf32",
    },
)
