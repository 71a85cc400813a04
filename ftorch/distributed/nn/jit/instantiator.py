"""Writes the modules of `templates.remote_module_template` (``torch.distributed.nn.jit.instantiator``)."""

from __future__ import annotations

import importlib.util
import inspect
import sys

from .templates.remote_module_template import get_remote_module_template

_FILE_PREFIX = "_remote_module_"


def _is_interface(module_interface):
    return getattr(module_interface, "_script_interface", False)


def _written(annotation):
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def get_arg_return_types_from_interface(module_interface) -> tuple[str, str, str]:
    """Of an interface's ``forward``: its arguments' names, those with their types, and the type of its result, as text.

    Raises:
        AssertionError: for a class that `torch.jit.interface` did not mark, or one without ``forward``.
    """
    if not _is_interface(module_interface):
        raise AssertionError("Expect a TorchScript class interface decorated by @torch.jit.interface.")
    methods = [name for name, value in vars(module_interface).items() if inspect.isfunction(value)]
    if "forward" not in methods:
        raise AssertionError(f"Expect forward in interface methods, while it has {methods}")
    signature = inspect.signature(module_interface.forward)
    given = list(signature.parameters.values())[1:]
    typed = [
        f"{p.name}: {_written(p.annotation)}" + ("" if p.default is p.empty else f" = {p.default!r}") for p in given
    ]
    return ", ".join(p.name for p in given), ", ".join(typed), _written(signature.return_annotation)


def _written_module(name, parts, moves):
    """A module of the template; one that was written before is used again."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_loader(name, loader=None, origin="torch-git")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    text = get_remote_module_template(moves).format(**parts)
    exec(compile(text, f"<{name}>.py", "exec", dont_inherit=True), module.__dict__)
    sys.modules[name] = module
    return module


def instantiate_scriptable_remote_module_template(module_interface_cls, enable_moving_cpu_tensors_to_cuda=True):
    """The module for an interface, whose ``forward`` and ``forward_async`` have the interface's arguments.

    Raises:
        ValueError: for a class that `torch.jit.interface` did not mark.
    """
    if not _is_interface(module_interface_cls):
        raise ValueError(
            f"module_interface_cls {module_interface_cls} must be a type object decorated by @torch.jit.interface"
        )
    args, typed, result = get_arg_return_types_from_interface(module_interface_cls)
    where, own = module_interface_cls.__module__, module_interface_cls.__qualname__
    parts = {
        "assign_module_interface_cls": f"from {where} import {own} as module_interface_cls",
        "arg_types": typed, "args": args, "kwargs": "", "arrow_and_return_type": f" -> {result}",
        "arrow_and_future_return_type": f" -> Future[{result}]", "jit_script_decorator": "",
    }
    name = f"{_FILE_PREFIX}{where}.{own}".replace(".", "_")
    return _written_module(name, parts, enable_moving_cpu_tensors_to_cuda)


def instantiate_non_scriptable_remote_module_template():
    """The module for any arguments.

    >>> [f.__name__ for f in instantiate_non_scriptable_remote_module_template()._generated_methods]
    ['forward_async', 'forward']
    """
    parts = {
        "assign_module_interface_cls": "module_interface_cls = None", "arg_types": "*args, **kwargs", "args": "*args",
        "kwargs": "**kwargs", "arrow_and_return_type": "", "arrow_and_future_return_type": "", "jit_script_decorator": "",
    }
    return _written_module(f"{_FILE_PREFIX}non_scriptable", parts, True)
