"""What layers of quantized tensors refuse, in the words of the kernels that PyTorch's engine would use."""

from __future__ import annotations

from ..eager.core import dtype as _dtype
from . import _quantizer as q

_ENGINES = {"x86": "X86", "fbgemm": "FBGEMM", "qnnpack": "QNNPACK", "none": "NoQEngine"}


def engine() -> str:
    """``torch.backends.quantized.engine``."""
    from ..backends import quantized as backend

    return backend.engine


def check_linear_input(x):
    if engine() == "onednn" and x.dtype not in (_dtype.quint8, _dtype.qint8):
        raise RuntimeError("qlinear (ONEDNN): data type of input should be QUInt8 or QInt8.")
    if engine() != "onednn" and x.dtype is not _dtype.quint8:
        kernels = "quantized::linear (qnnpack): " if engine() == "qnnpack" else ""
        raise RuntimeError(f"{kernels}Expected input data type QUInt8 but got {x.dtype.scalar_name}")


def check_convolved(x, packed, name):
    if x.dtype is _dtype.quint8:
        return
    if packed.is_onednns():
        raise RuntimeError(f"quantized::{name.replace('1d', '2d')} (ONEDNN): data type of input should be QUint8.")
    kind = "conv_transpose" if packed.transpose() else "conv"
    kernels = "qnnpack" if engine() == "qnnpack" else "FBGEMM"
    raise RuntimeError(f"quantized::{kind}({kernels}): Expected activation data type QUInt8 but got {x.dtype.scalar_name}")


def check_weight(weight):
    """FBGEMM's kernels have weights of int8; others do not look."""
    if weight.dtype is not _dtype.qint8:
        raise RuntimeError(f"expected scalar type QInt8 but found {weight.dtype.scalar_name}")


def refuse_points(weight, name):
    if engine() == "onednn" and isinstance(weight._quantizer, q.PerTensor) and weight._quantizer.zero_point:
        got = f", but got {weight._quantizer.zero_point}" if name == "linear_prepack" else "."
        raise RuntimeError(f"quantized::{name}: ONEDNN only supports symmetric quantization of weight, whose zero point must "
                           f"be 0{got}")


def require_onednn(name):
    if engine() != "onednn":
        raise RuntimeError(f"Didn't find engine for operation quantized::{name}{_ENGINES.get(engine(), engine())}")


def check_rows(x):
    if x.dim() < 2:
        raise RuntimeError("The dimension of input tensor should be larger than or equal to 2")
