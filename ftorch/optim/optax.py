"""optax, both ways: its transformations as optimizers, and optimizers as its transformations.

    optimizer = OptaxOptimizer(model.parameters(), optax.lion(1e-4))
    transformation = as_gradient_transformation(torch.optim.NAdam, lr=1e-3)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..autograd import enable_grad, no_grad
from ..eager.call.op import fused_update
from ..eager.core.jax_scope import scope, scoped
from ..eager.tensor import from_array
from . import _rules
from ._fused import _PAIRS, RuleOptimizer, _step_end
from ._math import ARRAYS
from .optimizer import Optimizer

__all__ = ["OptaxOptimizer", "as_gradient_transformation"]


def _step(mutable, inputs, scalars, transformation, state_tree, count):
    """The kernel of a step: ``mutable`` are the parameters, then the leaves of the state."""
    params, leaves = mutable[:count], mutable[count:]
    state = jax.tree.unflatten(state_tree, leaves)
    updates, state = transformation.update(list(inputs), state, list(params))
    return [*optax.apply_updates(list(params), updates), *jax.tree.leaves(state)]


class OptaxOptimizer(Optimizer):
    """Any ``optax.GradientTransformation`` as an optimizer of one parameter group.

    A step over all parameters is one program. The state's arrays are tensors, so it is saved and
    loaded with `state_dict` like any other.

    Args:
        params: parameters; every one needs a gradient in each step.
        transformation: ``optax.adamw(1e-3)``, ``optax.chain(...)`` or the like.

    Raises:
        ValueError: there are several groups.
        RuntimeError: in a step, a parameter has no gradient.

    >>> import ftorch as torch, optax
    >>> from ftorch.optim.optax import OptaxOptimizer
    >>> w = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = OptaxOptimizer([w], optax.sgd(0.5))
    >>> (w * 3).sum().backward(); optimizer.step(); w.tolist()
    [-0.5]
    """

    def __init__(self, params, transformation: optax.GradientTransformation):
        super().__init__(params, {})
        if len(self.param_groups) != 1:
            raise ValueError("OptaxOptimizer doesn't support parameter groups")
        self._transformation = transformation
        self._params = self.param_groups[0]["params"]
        with no_grad(), scope():
            state = transformation.init([p.detach().__jax_array__() for p in self._params])
        leaves, self._state_tree = jax.tree.flatten(state)
        # Under the first parameter, as LBFGS keeps its own: state_dict then has them by name.
        entry = self.state[self._params[0]]
        for i, leaf in enumerate(leaves):
            entry[f"leaf_{i}"] = from_array(jnp.asarray(leaf))

    def step(self, closure=None):
        """Updates the parameters from their gradients; see `Optimizer.step`."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            gradients = [p.grad for p in self._params]
            if any(gradient is None for gradient in gradients):
                raise RuntimeError("OptaxOptimizer needs a gradient of every parameter")
            entry = self.state[self._params[0]]
            fused_update(
                _step, [*self._params, *entry.values()], gradients, (),
                (self._transformation, self._state_tree, len(self._params)),
            )
        _step_end()
        return loss


class RuleState(NamedTuple):
    """What a transformation of `as_gradient_transformation` remembers, for each array."""

    entries: Any


def _initial(kind, p):
    if isinstance(kind, _rules.Scalar):
        return jnp.full((), float(kind.fill), jnp.float32)
    if isinstance(kind, _rules.Shaped):
        return jnp.zeros(kind.shape, p.dtype)
    fill = complex(kind.fill, kind.fill) if jnp.iscomplexobj(p) and kind.fill else kind.fill
    return jnp.full(p.shape, fill, p.dtype)


def as_gradient_transformation(
    optimizer_class: type[RuleOptimizer], **hyperparameters
) -> optax.GradientTransformation:
    """The update rule of an optimizer, for trees of JAX arrays.

    Args:
        optimizer_class: any of ``torch.optim`` but LBFGS and SparseAdam.
        hyperparameters: as for the class: ``lr=1e-3, betas=(0.9, 0.95)``.

    Returns:
        a transformation whose ``update`` needs the parameters.

    Raises:
        TypeError: the class has no rule.
        ValueError: a hyperparameter out of range.

    >>> import ftorch as torch, jax.numpy as jnp, optax
    >>> from ftorch.optim.optax import as_gradient_transformation
    >>> sgd = as_gradient_transformation(torch.optim.SGD, lr=0.5)
    >>> params = {"w": jnp.ones(1)}
    >>> updates, _ = sgd.update({"w": jnp.full(1, 3.0)}, sgd.init(params), params)
    >>> optax.apply_updates(params, updates)["w"].tolist()
    [-0.5]
    """
    rule = getattr(optimizer_class, "_ftorch_rule", None)
    if rule is None:
        raise TypeError(f"{optimizer_class.__name__} is not an optimizer with an update rule")
    # The class checks the hyperparameters and knows their defaults; a matrix is fine for all.
    example = optimizer_class([from_array(jnp.zeros((1, 1)))], **hyperparameters)
    values = dict(example.defaults)
    for key, names in _PAIRS.items():
        if isinstance(values.get(key), (tuple, list)):
            values.update(zip(names, values[key], strict=True))
    on = tuple(s for s in rule.switches if values[s] != 0)
    h = _rules.hyperparameters(**values, on=on)

    @scoped
    def init(params):
        return RuleState(
            [
                {name: _initial(kind, p) for name, kind in rule.state(p, h).items()}
                for p in jax.tree.leaves(params)
            ]
        )

    @scoped
    def update(updates, state, params=None):
        if params is None:
            raise ValueError(optax.NO_PARAMS_MSG)
        gradients, tree = jax.tree.flatten(updates)
        steps, entries = [], []
        for p, g, entry in zip(jax.tree.leaves(params), gradients, state.entries, strict=True):
            new_p, new = _rules.apply(ARRAYS, rule, p, g, entry, h)
            steps.append(new_p.astype(p.dtype) - p)
            entries.append({k: new[k].astype(v.dtype) for k, v in entry.items()})
        return jax.tree.unflatten(tree, steps), RuleState(entries)

    return optax.GradientTransformation(init, update)
