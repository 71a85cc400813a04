"""Packages of compiled programs (``torch._inductor.package``)."""

from ...export._aot_package import AOTICompiledModel
from ...export._aot_package import read_package as _read

__all__ = ["AOTICompiledModel", "load_package"]


def load_package(path, model_name="model", run_single_threaded=False, num_runners=1, device_index=-1):
    """`ftorch._inductor.aoti_load_package`; a package has one model, ``"model"``.

    Raises:
        RuntimeError: there is no such model, or it is no package.
    """
    if model_name != "model":
        raise RuntimeError(f"Failed to find a compiled model named {model_name} in the package")
    return _read(path, device_index)
