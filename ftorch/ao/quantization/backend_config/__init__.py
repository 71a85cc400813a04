"""What backends can quantize (``torch.ao.quantization.backend_config``).

>>> from ftorch.ao.quantization.backend_config import get_native_backend_config
>>> len(get_native_backend_config().configs) > 100
True
"""

from .backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)
from .executorch import get_executorch_backend_config
from .fbgemm import get_fbgemm_backend_config
from .native import get_native_backend_config, get_native_backend_config_dict
from .onednn import get_onednn_backend_config
from .qnnpack import get_qnnpack_backend_config
from .tensorrt import get_tensorrt_backend_config, get_tensorrt_backend_config_dict

__all__ = [
    "BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType",
    "get_executorch_backend_config", "get_fbgemm_backend_config", "get_native_backend_config",
    "get_native_backend_config_dict", "get_onednn_backend_config", "get_qnnpack_backend_config",
    "get_tensorrt_backend_config", "get_tensorrt_backend_config_dict",
]
