"""How patterns are observed (``torch.ao.quantization.fx.quantize_handler``)."""

from __future__ import annotations

from collections.abc import Callable

from ftorch.ao.quantization.backend_config import BackendConfig, ObservationType
from ftorch.fx.node import Node

from .utils import all_node_args_have_no_tensors

__all__ = [
    "BatchNormQuantizeHandler", "BinaryOpQuantizeHandler", "CatQuantizeHandler", "ConvReluQuantizeHandler",
    "CopyNodeQuantizeHandler", "CustomModuleQuantizeHandler", "DefaultNodeQuantizeHandler", "EmbeddingQuantizeHandler",
    "FixedQParamsOpQuantizeHandler", "GeneralTensorShapeOpQuantizeHandler", "LinearReLUQuantizeHandler",
    "QuantizeHandler", "RNNDynamicQuantizeHandler", "StandaloneModuleQuantizeHandler",
]


def _default_root_node_getter(node_pattern):
    """The first call of a pattern."""
    if node_pattern is None:
        return None
    while not isinstance(node_pattern, Node):
        node_pattern = node_pattern[-1]
    return node_pattern


class QuantizeHandler:
    """What is known of a pattern that was found.

    Args:
        node_pattern: its nodes.
        root_node_getter: finds the first call.
    """

    def __init__(self, node_pattern, modules, root_node_getter: Callable | None = None, is_custom_module=False,
                 is_standalone_module=False):
        self.node_pattern, self.modules = node_pattern, modules
        self.root_node = (root_node_getter or _default_root_node_getter)(node_pattern)
        self.is_custom_module_, self.is_standalone_module_ = is_custom_module, is_standalone_module
        arguments = self.root_node.args if isinstance(self.root_node, Node) else ()
        self.num_tensor_args = sum(
            isinstance(a, Node) and not all_node_args_have_no_tensors(a, modules, {}) for a in arguments
        )

    def is_general_tensor_value_op(self) -> bool:
        """Whether results have the scale of the inputs."""
        return False

    def is_custom_module(self):
        """Whether the module is quantized by a class of its own."""
        return self.is_custom_module_

    def is_standalone_module(self):
        """Whether the module is quantized apart."""
        return self.is_standalone_module_


def _get_quantize_handler_cls(observation_type, dtype_configs, num_tensor_args_to_observation_type):
    """The handlers of a pattern's config."""

    class ConfigurableQuantizeHandler(QuantizeHandler):
        def __init__(self, node_pattern, modules, root_node_getter=None):
            super().__init__(node_pattern, modules, root_node_getter)
            self.observation_type, self.dtype_configs = observation_type, dtype_configs
            if num_tensor_args_to_observation_type:
                if self.num_tensor_args not in num_tensor_args_to_observation_type:
                    raise AssertionError(
                        f"Must provide observation_type config for tensor number {self.num_tensor_args}"
                        f" in num_tensor_args_to_observation_type for {node_pattern}"
                    )
                self.observation_type = num_tensor_args_to_observation_type[self.num_tensor_args]

        def is_general_tensor_value_op(self) -> bool:
            return self.observation_type == ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT

    return ConfigurableQuantizeHandler


def _get_pattern_to_quantize_handlers(backend_config: BackendConfig) -> dict:
    """{pattern: class of its handlers}."""
    return {
        pattern: _get_quantize_handler_cls(c.observation_type, c.dtype_configs, c._num_tensor_args_to_observation_type)
        for pattern, c in backend_config._pattern_complex_format_to_config.items()
    }


def _named(name):
    return type(
        name, (QuantizeHandler,), {"__doc__": "A kind of handler, of earlier versions.", "__module__": __name__}
    )


BinaryOpQuantizeHandler = _named("BinaryOpQuantizeHandler")
CatQuantizeHandler = _named("CatQuantizeHandler")
ConvReluQuantizeHandler = _named("ConvReluQuantizeHandler")
LinearReLUQuantizeHandler = _named("LinearReLUQuantizeHandler")
BatchNormQuantizeHandler = _named("BatchNormQuantizeHandler")
EmbeddingQuantizeHandler = _named("EmbeddingQuantizeHandler")
RNNDynamicQuantizeHandler = _named("RNNDynamicQuantizeHandler")
DefaultNodeQuantizeHandler = _named("DefaultNodeQuantizeHandler")
FixedQParamsOpQuantizeHandler = _named("FixedQParamsOpQuantizeHandler")
CopyNodeQuantizeHandler = _named("CopyNodeQuantizeHandler")
GeneralTensorShapeOpQuantizeHandler = _named("GeneralTensorShapeOpQuantizeHandler")
CustomModuleQuantizeHandler = _named("CustomModuleQuantizeHandler")
StandaloneModuleQuantizeHandler = _named("StandaloneModuleQuantizeHandler")
