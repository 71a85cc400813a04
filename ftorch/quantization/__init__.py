"""The older name of ``torch.ao.quantization``."""

from .._old_names import stand_for as _stand_for

globals().update(_stand_for(__name__, "ao.quantization", {
    "_numeric_suite": "ao.ns._numeric_suite", "_numeric_suite_fx": "ao.ns._numeric_suite_fx",
    "fx.fusion_patterns": "ao.quantization.fx.fuse_handler",
    "fx.quantization_patterns": "ao.quantization.fx.quantize_handler",
    "fx.quantization_types": "ao.quantization.utils",
}))
