"""Compiled extensions (``torch.utils.cpp_extension``).

An extension is C++ against PyTorch's library of tensors, which is not here. Operators for ftorch are written in
Python (`torch.library.custom_op`), for XLA (`jax.ffi`) or for GPUs in Pallas or Triton (``jax.experimental.pallas``).
"""

from __future__ import annotations

import logging
import os
import sys

__all__ = [
    "BuildExtension", "CUDAExtension", "CUDA_HOME", "CppExtension", "ROCM_HOME", "check_compiler_ok_for_platform",
    "get_cxx_compiler", "include_paths", "is_ninja_available", "library_paths", "load", "load_inline",
    "verify_ninja_availability",
]

_log = logging.getLogger(__name__)
CUDA_HOME: str | None = os.environ.get("CUDA_HOME")
ROCM_HOME: str | None = os.environ.get("ROCM_HOME")
IS_HIP_EXTENSION = False
IS_WINDOWS = os.name == "nt"


def _instead(what):
    return RuntimeError(
        f"{what}: extensions are C++ against PyTorch's own library, which is not here. Write the operator in "
        "Python (torch.library.custom_op), or in C++ against XLA's interface (jax.ffi)"
    )


def load(name, sources, *args, **kwargs):
    """Builds and loads an extension: not possible here.

    Raises:
        RuntimeError: always, with what to do instead.
    """
    raise _instead(f"torch.utils.cpp_extension.load({name!r})")


def load_inline(name, cpp_sources, *args, **kwargs):
    """The same for sources that are given as text.

    Raises:
        RuntimeError: always.
    """
    raise _instead(f"torch.utils.cpp_extension.load_inline({name!r})")


def CppExtension(name, sources, *args, **kwargs):
    """An extension for ``setup.py``: not possible here.

    Raises:
        RuntimeError: always.
    """
    raise _instead(f"CppExtension({name!r})")


def CUDAExtension(name, sources, *args, **kwargs):
    """The same with CUDA.

    Raises:
        RuntimeError: always.
    """
    raise _instead(f"CUDAExtension({name!r})")


class BuildExtension:
    """The command of ``setup.py`` that builds extensions: not possible here.

    Raises:
        RuntimeError: when made.
    """

    def __init__(self, *args, **kwargs):
        raise _instead("BuildExtension")

    @classmethod
    def with_options(cls, **options):
        """The class itself."""
        return cls


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """The folders of PyTorch's headers: none; those of XLA's interface are ``jax.ffi.include_dir()``."""
    return []


def library_paths(device_type: str = "cpu", *_, **__) -> list[str]:
    """The folders of PyTorch's libraries: none."""
    return []


def get_default_build_root() -> str:
    """The folder of the user's cache in which extensions are built."""
    return os.path.realpath(os.path.expanduser(os.path.join("~", ".cache", "torch_extensions")))


def _get_build_directory(name: str, verbose: bool) -> str:
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        root = os.path.join(get_default_build_root(), f"py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}_cpu")
    if verbose:
        _log.info("Using %s as PyTorch extensions root...", root)
    folder = os.path.join(root, name)
    if not os.path.exists(folder):
        if verbose:
            _log.info("Creating extension directory %s...", folder)
        os.makedirs(folder, exist_ok=True)
    return folder


def is_ninja_available() -> bool:
    """Whether the build tool ninja is installed."""
    import shutil

    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raises RuntimeError if `is_ninja_available` is false."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def get_cxx_compiler() -> str:
    """The C++ compiler: what the variable CXX says, or c++."""
    return os.environ.get("CXX", "c++")


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether a compiler is installed."""
    import shutil

    return shutil.which(compiler) is not None
