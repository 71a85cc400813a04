"""Generators of programs by family: functions of a ``random.Random`` that give a program's text."""

from __future__ import annotations

from . import (
    arguments,
    graphs,
    layouts,
    levels,
    memory,
    python_state,
    quantized,
    quantized_layers,
    sparse,
    training,
    transforms,
    values,
)

FAMILIES = {
    "out": memory.out,
    "indexing": memory.indexing,
    "strided": memory.strided,
    "conversions": values.conversions,
    "numpy": values.numpy_operators,
    "special": values.special,
    "printing": values.printing,
    "modes": levels.modes,
    "captured": levels.captured,
    "forward": levels.forward,
    "vmap": levels.vmap,
    "hooks": graphs.hooks,
    "python_state": python_state.python_state,
    "changed_state": python_state.changed_state,
    "formats": layouts.formats,
    "linalg": arguments.linalg,
    "reductions": arguments.reductions,
    "optimizers": arguments.optimizers,
    "training": training.training,
    "transforms": transforms.transforms,
    "sparse": sparse.sparse,
    "quantized": quantized.quantized,
    "quantized_dynamic": quantized_layers.dynamic,
    "quantized_layers": quantized_layers.layers,
    "quantized_movements": quantized_layers.movements,
    "quantized_observers": quantized_layers.observers,
    "quantized_workflows": quantized_layers.workflows,
}
