"""Gradients as the calls of ATen's ops that PyTorch's formulas make, for whoever sees calls.

The engine computes a gradient by one kernel. Users' ``__torch_dispatch__`` and `make_fx` get what PyTorch's
autograd calls instead: `of_op` makes those calls for the ops that have a rule here, from what the node saved.
A rule that lacks something (the kernel saves other tensors than PyTorch's node) declines: the gradient is one
call then. Numbers beside tensors are ``.Scalar`` overloads, as in calls from C++ (`composing`).
"""

from __future__ import annotations

import threading

from .. import _ops
from ..eager.core.formats import strided
from ..eager.core.registry import OpDef
from ..eager.native.contexts import repeatable


class _Composing(threading.local):
    """Whether a rule runs in this thread."""

    active = False

    def __enter__(self):
        self.active = True

    @repeatable
    def __exit__(self, *_):
        self.active = False


composing = _Composing()
RULES: dict = {}
WHOLE: dict = {}  # rules that give all gradients at once


class Missing(Exception):
    """What a rule reads was not saved."""


class Saved:
    """What a gradient is computed from: operands, results and static values of the call.

    ``saved["self"]`` is an operand or a static value, by the argument's name.

    Attributes:
        beside: the results of ATen's op for the call, where that was seen (``mean`` of a normalization).
    """

    def __init__(self, derivative, operands, beside=(), given=()):
        self.plan, self.mask, self.beside, self._given = derivative.plan, derivative.mask, beside, given
        at, m = len(derivative.inputs), len(derivative.plan.scalars)
        self._inputs = dict(zip(derivative.inputs, operands))
        results = operands[at : at + len(derivative.results)]
        self._results = dict(zip(derivative.results, results))
        at += len(derivative.results)
        self.numbers, self.grads = list(operands[at : at + m]), list(operands[at + m :])

    def __getitem__(self, name):
        slot = self._slot(name)
        kind = slot[0]
        if kind == "t":
            return self.tensor(slot[1])
        if kind == "s":
            return self.numbers[slot[1]]
        return slot[1] if kind == "v" else None

    def _slot(self, name):
        names = self.plan.op.definition.argument_names
        return self.plan.structure.slots[names.index(name)]

    def has_tensor(self, name):
        """Whether an argument is a tensor."""
        return self._slot(name)[0] == "t"

    def place(self, name):
        """The number of a tensor argument among the inputs."""
        return self._slot(name)[1]

    def places(self, name):
        """The numbers of the tensors of a list among the inputs, None where there is none."""
        return self._slot(name)[1]

    def tensor(self, index):
        """An input, if it was saved or seen."""
        if index in self._inputs:
            return self._inputs[index]
        if index >= len(self._given):
            raise Missing
        return self._given[index]  # the gradient does not depend on it

    def result(self, index=0):
        """A result, if it was saved."""
        if index not in self._results:
            raise Missing
        return self._results[index]

    def shape(self, index=0):
        """The sizes of an input."""
        return list(self.plan.inputs[index].shape)

    def fitted(self, index, grad):
        """A gradient in the shape and dtype of an input that was broadcast or promoted."""
        g = self.plan.inputs[index]
        if grad.shape != g.shape:
            grad = _summed_to(grad, list(g.shape))
        if grad.dtype is not g.dtype:
            kwargs = {"dtype": g.dtype, "layout": strided, "device": grad.device}
            grad = _ops.ops.aten._to_copy.default(grad, **kwargs)
        return grad


def _summed_to(grad, shape):
    if not shape:
        return grad.sum()
    lead = grad.dim() - len(shape)
    if lead < 0:
        raise Missing
    dims = [*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1)]
    grad = grad.sum(dims, keepdim=True) if dims else grad
    return grad.view(shape) if lead else grad


def of_op(definition, operands, beside=(), given=()):
    """The gradients that a derived op gives, one or a tuple, by ATen's calls; None where no rule fits.

    Args:
        beside, given: the results and operands of the ATen op that stood for the call, where that was seen.
    """
    derivative = definition.kernel
    mask = getattr(derivative, "mask", None)
    if mask is None:
        return None
    if not isinstance(derivative.plan.op.definition, OpDef):  # of a transform
        return None
    name = derivative.plan.op.name
    name = name if name in WHOLE or name in RULES else derivative.plan.op.definition.name
    whole, rule = WHOLE.get(name), RULES.get(name)
    if (whole or rule) is None or any(g.dtype.is_complex for g in derivative.plan.inputs):
        return None
    saved = Saved(derivative, operands, beside, given)
    wanted = [i for i, m in enumerate(mask) if m]
    if saved.grads[0] is None:
        return None
    was_active = composing.active
    try:
        with composing:
            if whole is not None:
                found = whole(saved, saved.grads[0], mask)
                found = None if found is None else [saved.fitted(i, found[i]) for i in wanted]
            else:  # in the order of the arguments' names, as PyTorch's
                names = derivative.plan.structure.tensor_names
                given = {i: rule(saved, saved.grads[0], i) for i in sorted(wanted, key=lambda i: names[i])}
                found = [saved.fitted(i, given[i]) for i in wanted]
    except Missing:
        return None
    finally:
        composing.active = was_active
    if found is None:
        return None
    return found[0] if len(found) == 1 else tuple(found)


def rule(names):
    """Declares ``(saved, grad, index) -> gradient`` of the input of an index, for ops of some names."""

    def declare(function):
        for name in names.split():
            RULES[name] = function
        return function

    return declare


def whole(names):
    """Declares ``(saved, grad, mask) -> gradients`` of all inputs."""

    def declare(function):
        for name in names.split():
            WHOLE[name] = function
        return function

    return declare


def aten_op(name, overload="default"):
    """ATen's op of a name, its default overload or another."""
    return getattr(getattr(_ops.ops.aten, name), overload)


def options_of(grad):
    """How PyTorch's C++ makes a tensor beside another."""
    return {"dtype": grad.dtype, "layout": strided, "device": grad.device}


def number_like(value, grad):
    """A number as a tensor beside a gradient."""
    return aten_op("scalar_tensor")(value, **options_of(grad))


def product_reversed(second, first):
    """A product whose second factor is computed before the first, as in C++."""
    return first() * second


def product_sum(x, y):
    """``x * x + y * y``, whose second product is computed before the first, as in C++."""
    second = y * y
    return x * x + second
