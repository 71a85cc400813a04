"""Gradients of each example by a wrapped module (``torch.nn.utils._per_sample_grad``)."""

from __future__ import annotations

import functools

from ...autograd import no_grad
from ...eager.core import api as torch
from ...eager.tensor import Tensor
from ...overrides import TorchFunctionMode
from ...utils._pytree import tree_flatten, tree_unflatten


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """A function that calls a module so that ``backward`` gives each parameter the gradients of each example.

    They arrive as ``parameter.grad_sample``, with the examples along the first dimension.

    Args:
        batch_size: the number of examples; None to take it from the first tensor given.
        loss_reduction: how the loss is made of the examples': for "mean" the gradients are multiplied by
            their number.
        batch_first: whether examples lie along the first dimension of inputs (else the second).

    Raises:
        RuntimeError: for other reductions, for modules that are none, and (by the function that is returned) for functions of
            parameters other than layers' own (`linear`, convolutions, `embedding`, norms of single examples, recurrent
            layers), of which nobody knows where the examples lie.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not hasattr(module, "named_parameters"):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    dim = 0 if batch_first else 1

    def size_of(args, kwargs):
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor):
                return value.shape[dim]
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. Please pass batch_size")

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        from ...eager.transforms.functional_call import functional_call

        count = batch_size or size_of(args, kwargs)
        expanded = {}
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            copies = parameter.detach().expand(count, *parameter.shape).requires_grad_()
            copies.register_hook(functools.partial(_keep, parameter, count, loss_reduction))
            expanded[name] = parameter.detach().view_as(parameter), copies
        with _PerExample({id(stands): copies for stands, copies in expanded.values()}, count, dim):
            return functional_call(module, {name: stands for name, (stands, _) in expanded.items()}, args, kwargs)

    return wrapper


# What is computed for each example by itself, and along which dimension of its input and result the examples lie
# (None: as in the module's input).
_FUNCTIONS = {
    "linear": None, "layer_norm": None, "conv1d": 0, "conv2d": 0, "conv3d": 0, "embedding": 0, "group_norm": 0,
    "instance_norm": 0, "gru": None, "lstm": None, "rnn_tanh": None, "rnn_relu": None,
}
_READ = ("shape", "dtype", "device", "data", "is_cuda")  # of a parameter: as the module's own


class _PerExample(TorchFunctionMode):
    """Functions of parameters are computed with each example's own copy; all others see the batch as it is.

    Args:
        copies: by the id of the tensor that stands for a parameter.
    """

    def __init__(self, copies, count, dim):
        super().__init__()
        self.copies, self.count, self.dim = copies, count, dim

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves, structure = tree_flatten((args, kwargs))
        own = [id(leaf) in self.copies for leaf in leaves]
        if not any(own):
            return func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if name == "__get__" and any(func == getattr(Tensor, read).__get__ for read in _READ):
            return func(*args, **kwargs)
        if name not in _FUNCTIONS:
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {name}")
        from ...eager.transforms.vmap import vmap

        if name == "instance_norm":
            kwargs = self._with_statistics_written(args, kwargs)
            args, (leaves, structure) = (), tree_flatten(((), kwargs))
            own = [id(leaf) in self.copies for leaf in leaves]
        at = _FUNCTIONS[name]
        at = self.dim if at is None else at
        if name in _RECURRENT:
            at = 0 if args[-1] else 1
        dims = [0 if mine else None for mine in own]
        dims[0] = at
        if name in _RECURRENT:  # the states: one, or two
            states = 2 if name == "lstm" else 1
            dims[1 : 1 + states] = [1] * states
        if leaves[0].shape[at] != self.count:
            raise RuntimeError(
                f"Expected ExpandedWeights to have batch size matching input but got input batch size of {leaves[0].shape[at]} "
                f"with ExpandedWeight of batch size {self.count}"
            )
        tensors = [self.copies[id(leaf)] if mine else leaf for leaf, mine in zip(leaves, own)]
        mapped = [i for i, d in enumerate(dims) if d is not None]

        def one(*values):
            given = list(tensors)
            for i, value in zip(mapped, values):
                given[i] = value if own[i] else value.unsqueeze(dims[i])
            arguments, named = tree_unflatten(given, structure)
            result = func(*arguments, **named)
            if name in _RECURRENT:
                return result[0].squeeze(at), *(state.squeeze(1) for state in result[1:])
            return result.squeeze(at)

        out = (at, *[1] * (2 if name == "lstm" else 1)) if name in _RECURRENT else at
        return vmap(one, tuple(dims[i] for i in mapped), out, randomness="different")(*(tensors[i] for i in mapped))


    def _with_statistics_written(self, args, kwargs):
        """The arguments of `instance_norm`; running statistics have been taken of the whole batch, and are left out then."""
        from .. import functional

        names = ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps")
        given = dict(zip(names, args)) | kwargs
        if given.get("running_mean") is not None and given.get("use_input_stats", True):
            with no_grad():
                functional.instance_norm(**given | {"weight": None, "bias": None})
            given |= {"running_mean": None, "running_var": None}
        return {name: given[name] for name in names if name in given}


_RECURRENT = ("gru", "lstm", "rnn_tanh", "rnn_relu")


def _keep(parameter, count, reduction, grad):
    grad = grad * count if reduction == "mean" else grad
    before = getattr(parameter, "grad_sample", None)
    parameter.grad_sample = grad.detach() if before is None else torch.add(before, grad.detach())
