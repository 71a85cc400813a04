"""TorchScript for phones (``torch.utils.mobile_optimizer``).

A module is frozen, which is what helps here. For phones export ONNX (`ftorch.onnx.export`), which onnxruntime runs there.
"""

from __future__ import annotations

import enum

from .. import jit

__all__ = ["LintCode", "MobileOptimizerType", "generate_mobile_module_lints", "optimize_for_mobile"]


class MobileOptimizerType(enum.Enum):
    """Passes that ``optimization_blocklist`` names."""

    CONV_BN_FUSION = 0
    INSERT_FOLD_PREPACK_OPS = 1
    REMOVE_DROPOUT = 2
    FUSE_ADD_RELU = 3
    HOIST_CONV_PACKED_PARAMS = 4
    VULKAN_AUTOMATIC_GPU_TRANSFER = 6


class LintCode(enum.Enum):
    """What `generate_mobile_module_lints` finds."""

    BUNDLED_INPUT = 1
    REQUIRES_GRAD = 2
    DROPOUT = 3
    BATCHNORM = 4


def _check(script_module):
    if not isinstance(script_module, jit.ScriptModule):
        raise TypeError(f"Got {type(script_module)}, but ScriptModule is expected.")


def optimize_for_mobile(script_module, optimization_blocklist=None, preserved_methods=None, backend="CPU"):
    """A frozen copy of a scripted or traced module.

    Args:
        optimization_blocklist: passes of PyTorch's that are not wanted: has no effect, XLA chooses.
        preserved_methods: names of methods to keep beside ``forward``.
        backend: ``"CPU"``, ``"Vulkan"`` or ``"Metal"``; the device is not fixed here.

    Raises:
        TypeError: it is no scripted module, or the backend is unknown.
        AttributeError: a method is not there.

    >>> import ftorch as torch
    >>> from ftorch.utils.mobile_optimizer import optimize_for_mobile
    >>> traced = torch.jit.trace(torch.nn.ReLU().eval(), torch.zeros(1))
    >>> optimize_for_mobile(traced)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    _check(script_module)
    methods = [m.decode() if isinstance(m, bytes) else str(m) for m in preserved_methods or ()]
    absent = [m for m in methods if not hasattr(script_module, m)]
    if absent:
        raise AttributeError(
            f"The following methods to preserve do not exist in script_module: {', '.join(absent)}"
        )
    if backend.lower() not in ("cpu", "vulkan", "metal"):
        raise TypeError("Unknown backend, must be one of 'CPU', 'Vulkan' or 'Metal'")
    if getattr(script_module, "training", False):
        script_module = script_module.eval()
    return jit.freeze(script_module, methods)


def generate_mobile_module_lints(script_module) -> list[dict[str, str]]:
    """What keeps a scripted module from being small and quick: ``[{"name", "message"}]``.

    Raises:
        TypeError: it is no scripted module.
    """
    _check(script_module)
    found = []
    if not hasattr(script_module, "_generate_bundled_inputs_for_forward"):
        found.append((LintCode.BUNDLED_INPUT, "there are no example inputs in the module"))
    for name, parameter in script_module.named_parameters():
        if parameter.requires_grad:
            found.append((LintCode.REQUIRES_GRAD, f"the parameter {name} requires grad"))
    for op in jit.export_opnames(script_module):
        for code, word in ((LintCode.DROPOUT, "dropout"), (LintCode.BATCHNORM, "batch_norm")):
            if word in op:
                found.append((code, f"the module calls {op}: call eval() and optimize_for_mobile before saving"))
    return [{"name": code.name, "message": message} for code, message in found]
