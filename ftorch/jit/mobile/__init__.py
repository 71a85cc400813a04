"""PyTorch's interpreter for phones (``torch.jit.mobile``): its files are read where TorchScript's code is in them.

There is no such interpreter here. Save TorchScript with `ftorch.jit.save` for a process with ftorch or PyTorch; for phones
export ONNX (`ftorch.onnx.export`), which onnxruntime runs there.
"""

from __future__ import annotations

import os

from ..torchscript.files import serialization

__all__ = ["LiteScriptModule"]


class LiteScriptModule:
    """A module that is only called."""

    def __init__(self, cpp_module):
        self._c = cpp_module

    def __call__(self, *input):
        return self._c(*input)

    def forward(self, *input):
        """The module's result."""
        return self._c(*input)

    def find_method(self, method_name) -> bool:
        """Whether the module has a method of this name."""
        return hasattr(self._c, method_name)

    def run_method(self, method_name, *input):
        """Calls a method by its name."""
        return getattr(self._c, method_name)(*input)


def _load_for_lite_interpreter(f, map_location=None):
    """Reads a ``.ptl`` file, as TorchScript.

    Raises:
        ValueError: there is no such file. RuntimeError: the file has byte code only.
    """
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
    try:
        return LiteScriptModule(serialization.load(f, map_location))
    except RuntimeError as error:
        raise RuntimeError(
            "The file has no TorchScript code beside PyTorch's byte code for phones. Save the module with "
            f"torch.jit.save, or export it to ONNX ({error})"
        ) from None
