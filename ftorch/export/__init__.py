"""Whole programs as graphs of ATen ops (``torch.export``): to inspect, change, save and run elsewhere.

>>> import ftorch as torch
>>> class Net(torch.nn.Module):
...     def forward(self, x):
...         return x.reshape(x.shape[0], -1).sum(1)
>>> batch = torch.export.Dim("batch")
>>> program = torch.export.export(Net(), (torch.ones(2, 3, 4),), dynamic_shapes={"x": {0: batch}})
>>> program.module()(torch.ones(5, 3, 4))
tensor([12., 12., 12., 12., 12.])
"""

from __future__ import annotations

import contextlib
import inspect
import warnings

from ..amp.autocast_mode import autocast, is_autocast_enabled
from ..eager.dispatch.autocast import DEVICE_TYPES
from ..fx._sources import argument_names
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from ..nn import Module
from ..utils import _pytree as pytree
from . import custom_ops, dynamic_shapes, exported_program, graph_signature, passes  # noqa: F401
from ._generalize import trace_dynamic
from ._modules import input_names, order_state
from ._size_comparisons import guard_code
from .decomp_utils import CustomDecompTable
from .dynamic_shapes import (
    AdditionalInputs,
    ConstraintViolationError,
    Dim,
    ShapesCollection,
    UserError,
    dims,
)
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import ExportBackwardSignature, ExportGraphSignature, InputKind
from .unflatten import FlatArgsAdapter, InterpreterModule, UnflattenedModule, unflatten


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
           preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):
    """Records what a module computes.

    Args:
        mod: the module.
        args, kwargs: an example call: nested containers of tensors and constants.
        dynamic_shapes: for each argument the sizes that may differ: ``{"x": {0: Dim("batch")}}``, or a
            tuple in the order of the arguments; ``Dim.AUTO`` finds out, ``Dim.DYNAMIC`` insists.
        strict: the program has no parameters and buffers but those that it uses, in that order. The module runs in either
            case, and what it calls is recorded.
        preserve_module_call_signature: paths of modules whose signatures `unflatten` keeps.

    Returns:
        An `ExportedProgram`.

    Raises:
        ValueError: ``mod`` is no module.
        UserError: the example and ``dynamic_shapes`` do not fit, or the program needs one size.
        ConstraintViolationError, ValueError: a size of the example is not what ``dynamic_shapes`` says of it.
        GuardOnDataDependentSymNode: Python looks at the value of a tensor.
    """
    if not isinstance(mod, Module):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}."
        )
    try:
        with contextlib.ExitStack() as stack:
            # A program computes as its caller asks, not as autocast was when it was made.
            for kind in filter(is_autocast_enabled, DEVICE_TYPES):
                stack.enter_context(autocast(kind, enabled=False))
            return _exported(mod, args, kwargs, dynamic_shapes, strict)
    except (UserError, ConstraintViolationError, GuardOnDataDependentSymNode) as error:
        error.args = (f"{error}\n\n{_ADVICE}",)
        raise


_ADVICE = (
    "The error above occurred when calling torch.export.export. If you would like to view some more "
    "information about this error, and get a list of all other errors that may occur in your export "
    "call, you can replace your `export()` call with `draft_export()`."
)


def _exported(mod, args, kwargs, dynamic_shapes, strict):
    if not isinstance(args, tuple):
        raise UserError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    kwargs = {} if kwargs is None else kwargs
    from .dynamic_shapes import of_example, per_leaf

    names = input_names(mod, args, kwargs)
    dims = per_leaf(mod, args, kwargs, dynamic_shapes)
    dims = of_example(pytree.tree_leaves((args, kwargs)), dims, argument_names(mod.forward, args, kwargs))
    traces, dynamic = trace_dynamic(mod, args, kwargs, dims, names)
    order_state(traces, strict)
    if traces.assigned:
        several = len(traces.assigned) > 1
        warnings.warn(
            f"The tensor attribute{'s' * several} {', '.join(traces.assigned)} {'were' if several else 'was'} assigned during "
            "export. Such attributes must be registered as buffers using the `register_buffer` API "
            "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer).", stacklevel=2,
        )
    saved = mod.state_dict(keep_vars=True)
    names_of_tensors = [n for n, _ in mod.named_parameters(remove_duplicate=False)]
    names_of_tensors += [n for n, _ in mod.named_buffers(remove_duplicate=False)]
    if strict:
        used = {s.target for s in traces.inputs}
        names_of_tensors = [n for n in names_of_tensors if n in used]
    state = {n: saved[n] for n in names_of_tensors if n in saved}  # without packed weights, say, and extra states
    in_spec = pytree.tree_structure((args, kwargs))
    parameters = list(inspect.signature(mod.forward).parameters.values())
    forward_names = _forward_names(parameters, args, kwargs)
    calls = [
        ModuleCallEntry(
            "", ModuleCallSignature([], [], in_spec, traces.out_spec, forward_names)
        )
    ]
    calls += [ModuleCallEntry(path) for path in traces.modules if path]
    program = ExportedProgram(
        traces.root, traces.graph, ExportGraphSignature(traces.inputs, traces.outputs), state,
        {**dynamic.range_constraints, **dynamic.derived_ranges}, calls, (args, kwargs), traces.constants,
    )
    program._guards_code = [guard_code(g, dynamic.sources) for g in dynamic.guards]
    return program


def _forward_names(parameters, args, kwargs):
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}_{i}" for i in range(len(args) - len(names))]
        elif len(names) < len(args) and p.kind is not p.KEYWORD_ONLY:
            names.append(p.name)
    return [*names, *kwargs]


def export_for_training(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False,
                        preserve_module_call_signature=()):
    """`export`: its graphs keep writes and layers as they are."""
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature)


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None,
                 preserve_module_call_signature=(), strict=False, **_):
    """`export`; where a size turns out to be constant, it becomes constant, with a warning."""
    try:
        return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes)
    except UserError as error:
        if dynamic_shapes is None:
            raise
        warnings.warn(f"exported with the example's sizes: {error}", stacklevel=2)
        return export(mod, args, kwargs)


def register_dataclass(cls, *, serialized_type_name=None) -> None:
    """Makes a dataclass a container of inputs and outputs.

    Args:
        serialized_type_name: its name in files; without one, programs that take or give it cannot be saved.

    >>> import dataclasses, ftorch as torch
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     a: torch.Tensor
    ...     b: torch.Tensor
    >>> torch.export.register_dataclass(Pair)
    >>> torch.utils._pytree.tree_leaves(Pair(torch.ones(1), torch.zeros(1)))
    [tensor([1.]), tensor([0.])]
    """
    pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


def default_decompositions() -> CustomDecompTable:
    """The table that `ExportedProgram.run_decompositions` uses, to change and give to it."""
    from ._functionalize import default_table

    return default_table()


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2) -> None:
    """Writes a program to a ``.pt2`` file, in the format of PyTorch.

    Args:
        f: a path or a binary file.
        extra_files: {name: text or bytes} to keep in the file.
    """
    from ._archive import save_program

    save_program(ep, f, extra_files)


def load(f, *, extra_files=None, expected_opset_version=None) -> ExportedProgram:
    """Reads a program that ftorch or PyTorch wrote.

    Args:
        extra_files: a dict; the values of its keys are filled in.
    """
    from ._archive import load_program

    return load_program(f, extra_files)


def save_stablehlo(ep, f, *, platforms=None) -> None:
    """Writes a program as StableHLO that runs with JAX alone: `ExportedProgram.to_stablehlo`."""
    from ._stablehlo import save_stablehlo

    save_stablehlo(ep, f, platforms=platforms)


__all__ = [
    "AdditionalInputs",
    "CustomDecompTable",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "FlatArgsAdapter",
    "InputKind",
    "InterpreterModule",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "UserError",
    "default_decompositions",
    "dims",
    "draft_export",
    "dynamic_shapes",
    "export",
    "export_for_training",
    "exported_program",
    "graph_signature",
    "load",
    "passes",
    "register_dataclass",
    "save",
    "save_stablehlo",
    "unflatten",
]
