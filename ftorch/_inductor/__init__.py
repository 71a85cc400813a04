"""PyTorch's compiler back end (``torch._inductor``): here it is XLA."""

from __future__ import annotations

import os
from typing import Any

from . import config

__all__ = [
    "aot_compile", "aoti_compile_and_package", "aoti_load_package", "check_options", "compile", "config",
    "list_mode_options", "list_options",
]

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {
        "fallback_by_default": True, "selective_decompose": True, "reorder_for_peak_memory": False,
        "reorder_for_compute_comm_overlap": False,
        "triton.reorder_for_reducing_graph_partitions": False, "use_pre_grad_passes": False,
        "use_joint_graph_passes": False, "use_post_grad_passes": False, "use_dce": False,
        "allow_buffer_reuse": False,
    },
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def compile(gm, example_inputs=None, options=None):
    """A graph as an XLA program."""
    from .._dynamo.backends import inductor

    return inductor(gm, example_inputs)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """What a mode of ``torch.compile`` sets in `config`, or all of them by mode. XLA reads none of it.

    Raises:
        RuntimeError: there is no such mode.

    >>> import ftorch as torch
    >>> torch._inductor.list_mode_options("reduce-overhead")
    {'triton.cudagraphs': True}
    """
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode])


def list_options() -> list[str]:
    """The names that ``torch.compile(options=...)`` takes."""
    return list(config._names())  # type: ignore[attr-defined]


def check_options(options) -> None:
    """Checks what is given to ``torch.compile(options=...)``.

    Raises:
        RuntimeError: an option does not exist, or its value has another type.
    """
    known = None
    for key, value in options.items():
        name = key.replace("-", "_")
        known = known or set(list_options())
        if name not in known:
            raise RuntimeError(
                f"Unexpected optimization option {key}, known options are {list_options()}"
            )
        kind = config.get_type(name)  # type: ignore[attr-defined]
        if kind is not None and type(value) is not kind:
            raise RuntimeError(
                f"Unexpected type of attr {key}, got {type(value).__name__} should be {kind.__name__}"
            )


def cudagraph_mark_step_begin() -> None:
    """Does nothing: there are no CUDA graphs whose memory a new step could take."""


def aoti_compile_and_package(exported_program, _deprecated_unused_args=None, _deprecated_unused_kwargs=None, *,
                             package_path=None, inductor_configs=None):
    """Compiles an exported program and writes it as a package that runs without the model's code.

    The package holds a serialized XLA executable for this machine and the example's sizes, and StableHLO for other
    machines and sizes, which is compiled there when needed. A program that StableHLO cannot say (values decide how large a
    result is, operators of one's own) runs by its graph.

    Args:
        exported_program: what `ftorch.export.export` gave.
        package_path: where to write: a path that ends with ``.pt2`` or a binary file; by default a new folder.
        inductor_configs: options as in ``torch.compile(options=...)``; ``"aot_inductor.metadata"`` is kept in the
            package.

    Returns:
        The path.

    Raises:
        AssertionError: it is no exported program, or the path ends otherwise.
        RuntimeError: the program has no example inputs, or an op has no form in StableHLO.

    >>> import ftorch as torch, tempfile, os
    >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> path = os.path.join(tempfile.mkdtemp(), "relu.pt2")
    >>> package = torch._inductor.aoti_compile_and_package(program, package_path=path)
    >>> torch._inductor.aoti_load_package(package)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    from ..export import ExportedProgram
    from ..export._aot_package import write_package

    if not isinstance(exported_program, ExportedProgram):
        raise AssertionError(f"Expected an ExportedProgram, got {type(exported_program)}")
    if exported_program.example_inputs is None:
        raise RuntimeError(
            "exported_program.example_inputs is required to be set in order for AOTInductor compilation."
        )
    if isinstance(package_path, (str, os.PathLike)) and not os.fspath(package_path).endswith(".pt2"):
        raise AssertionError(
            f"Expect package path to be a file ending in .pt2, is None, or is a buffer. Instead got {package_path}"
        )
    configs = dict(inductor_configs or {})
    metadata = configs.pop("aot_inductor.metadata", None)
    check_options(configs)
    return write_package(exported_program, package_path, metadata)


def aoti_load_package(path, run_single_threaded=False, device_index=-1):
    """Loads a package that `aoti_compile_and_package` wrote.

    Like a compiled library, the executable in it is run as it is: load packages from where you trust.

    Args:
        path: a path or a binary file.
        run_single_threaded: has no effect.
        device_index: the GPU to run on.

    Returns:
        An ``AOTICompiledModel``, called as the module was.

    Raises:
        RuntimeError: it is no package, or PyTorch wrote it.
    """
    from ..export._aot_package import read_package

    return read_package(path, device_index)


def aot_compile(gm, args, kwargs=None, *, options=None) -> str:
    """Compiles a module for example arguments; gives the path of a package for `aoti_load_package`."""
    from ..export import export

    return aoti_compile_and_package(export(gm, args, kwargs), inductor_configs=options)
