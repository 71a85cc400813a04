"""The older name of ``torch.ao.nn.quantized``."""

from ..._old_names import stand_for as _stand_for

globals().update(_stand_for(__name__, "ao.nn.quantized", {"_reference": "ao.nn.quantized.reference"}))
