"""`ModuleTracker`: which modules are running, in the forward and the backward pass."""

from __future__ import annotations

import weakref

from ..autograd.graph import register_multi_grad_hook
from ..eager.tensor import Tensor
from ..nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


def _with_grad(values):
    return [t for t in tree_leaves(values) if isinstance(t, Tensor) and t.requires_grad]


class ModuleTracker:
    """Knows, while it is active, the names of the modules whose calls or backward passes run.

    Attributes:
        parents: their names, ``"Global"`` among them; those of submodules by their path.
        is_bw: whether a backward pass runs them.

    >>> import ftorch as torch
    >>> from ftorch.utils.module_tracker import ModuleTracker
    >>> class Look(torch.nn.Module):
    ...     def forward(self, x):
    ...         print(sorted(tracker.parents))
    ...         return x
    >>> with ModuleTracker() as tracker:
    ...     _ = torch.nn.Sequential(Look())(torch.ones(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    def __init__(self):
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._handles: list = []
        self._in_backward: set[str] = set()

    @property
    def is_bw(self):
        return bool(self._in_backward)

    def _name_of(self, module):
        if module not in self._names:
            for name, below in module.named_modules(prefix=type(module).__name__):
                self._names[below] = name
        return self._names[module]

    def _entering(self, name, backward):
        def enter(*_):
            self.parents.add(name)
            if backward:
                self._in_backward.add(name)

        return enter

    def _leaving(self, name):
        def leave(*_):
            self.parents.discard(name)
            self._in_backward.discard(name)

        return leave

    def _before(self, module, inputs):
        name = self._name_of(module)
        self.parents.add(name)
        # The module's backward pass is over when its inputs have their gradients.
        tensors = _with_grad(inputs)
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, self._leaving(name)))

    def _after(self, module, inputs, output):
        name = self._name_of(module)
        self.parents.discard(name)
        tensors = _with_grad(output)
        if tensors:
            enter = self._entering(name, True)
            self._handles.append(register_multi_grad_hook(tensors, enter, mode="any"))

    def __enter__(self):
        self.parents = {"Global"}
        self._in_backward.clear()
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *_):
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
