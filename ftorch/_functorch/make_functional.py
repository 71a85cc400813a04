"""functorch's first interface for modules: they become functions of their parameters.

New code uses `ftorch.func.functional_call` and `ftorch.func.stack_module_state`.
"""

from __future__ import annotations

import copy

from ..eager.core import api
from ..functional import functional_call


class FunctionalModuleWithBuffers:
    """A module as a function: ``f(parameters, buffers, *args)``."""

    def __init__(self, module, parameter_names, buffer_names):
        self.stateless_model = module
        self.param_names, self.buffer_names = parameter_names, buffer_names

    def __call__(self, params, buffers, *args, **kwargs):
        state = dict(zip(self.param_names, params)) | dict(zip(self.buffer_names, buffers))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function: ``f(parameters, *args)``."""

    def __call__(self, params, *args, **kwargs):
        return super().__call__(params, (), *args, **kwargs)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """``(function, parameters, buffers)`` of a module.

    >>> import ftorch as torch
    >>> from ftorch._functorch.make_functional import make_functional_with_buffers
    >>> function, params, buffers = make_functional_with_buffers(torch.nn.Linear(2, 1))
    >>> function(params, buffers, torch.ones(2)).shape
    torch.Size([1])
    """
    return _made(FunctionalModuleWithBuffers, model, disable_autograd_tracking)


def make_functional(model, disable_autograd_tracking=False):
    """``(function, parameters)`` of a module without buffers.

    Raises:
        RuntimeError: if it has buffers.
    """
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return _made(FunctionalModule, model, disable_autograd_tracking)[:2]


def _made(kind, model, detached):
    module = copy.deepcopy(model)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    values = tuple(
        p.detach() if detached else p.detach().clone().requires_grad_(p.requires_grad)
        for p in parameters.values()
    )
    return kind(module, tuple(parameters), tuple(buffers)), values, tuple(buffers.values())


def combine_state_for_ensemble(models):
    """``(function, parameters, buffers)`` of several models of one class, stacked for `vmap`.

    Raises:
        RuntimeError: for no models, or different classes or modes.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    functions, parameters, buffers = zip(*(make_functional_with_buffers(m) for m in models))
    stacked = (tuple(api.stack(group).detach() for group in zip(*state)) for state in (parameters, buffers))
    return (functions[0], *stacked)
