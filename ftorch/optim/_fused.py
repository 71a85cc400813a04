"""Optimizers that follow a rule of `_rules`: a step over a group is one program."""

from __future__ import annotations

import itertools
from types import FunctionType

from ..eager.call.op import fused_update
from ..eager.core import api as torch
from ..eager.core import dtype as dtypes
from ..eager.runtime import capture_trace, executor
from ..eager.tensor import DISPATCHING, Tensor, modes
from . import _operations, _rules
from ._math import TENSORS
from .optimizer import Optimizer

# What the hyperparameters that come in pairs are called in the rules.
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
    "eps": ("eps1", "eps2"),
}


def check(message, value, is_valid=True) -> None:
    """Raises PyTorch's ValueError, ``message: value``, unless the value is valid."""
    if not is_valid:
        raise ValueError(f"{message}: {value}")


def check_not_negative(**values) -> None:
    """Checks hyperparameters by name, with PyTorch's wording for each."""
    wording = {"lr": "Invalid learning rate", "eps": "Invalid epsilon value"}
    for name, value in values.items():
        if name == "lr" and isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check(wording.get(name, f"Invalid {name} value"), value, bool(value >= 0.0))


def check_betas(betas) -> None:
    """Checks that both are in [0, 1)."""
    for i, beta in enumerate(betas):
        check(f"Invalid beta parameter at index {i}", beta, bool(0.0 <= beta < 1.0))


def number(value):
    """A hyperparameter as a Python number; a one-element tensor becomes 0-d."""
    return value.squeeze() if isinstance(value, Tensor) and value.dim() != 0 else value


class RuleOptimizer(Optimizer):
    """An optimizer whose step is its `rule`, run over all parameters of a group at once.

    ``foreach``, ``fused`` and ``capturable`` choose among PyTorch's implementations; here there is one
    program in any case, whose scalars may be tensors on the device.

    Attributes:
        rule: the update rule.
        reads: what PyTorch's step reads of a group, and of a state (with a dot before), in its order; a star: a pair.
        late_defaults: options that groups saved by older versions do not have.
    """

    _ftorch_rule: _rules.Rule
    _ftorch_reads = ""
    _ftorch_late_defaults = (("foreach", None), ("maximize", False), ("differentiable", False))
    _ftorch_step_name = "step"

    def __init_subclass__(cls, **kwargs):
        """Each optimizer has a `step` that errors and hooks name by its class; subclasses of it inherit that one."""
        super().__init_subclass__(**kwargs)
        if RuleOptimizer in cls.__bases__ and "step" not in cls.__dict__:
            shared = RuleOptimizer.step
            cls.step = FunctionType(shared.__code__, shared.__globals__, "step", shared.__defaults__)
            cls.step.__doc__, cls.step.__module__ = shared.__doc__, cls.__module__
            cls.step.__qualname__ = f"{cls.__qualname__}.step"

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self._ftorch_late_defaults:
                group.setdefault(name, default)
            for p in group["params"]:
                entry = self.state.get(p)
                for name in ("step", "eta", "mu", "mu_product"):  # numbers in older versions
                    if entry and f".{name}" in self._ftorch_reads.split():
                        entry[name]  # another optimizer's state is refused here
                    if entry and isinstance(entry.get(name), (int, float)):
                        entry[name] = torch.tensor(float(entry[name]), dtype=_scalar_dtype(group))

    def _ftorch_check_fused(self, fused, foreach, differentiable):
        """What ``fused=True`` excludes, after construction as in PyTorch."""
        if not fused:
            return
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        self._step_supports_amp_scaling = True

    def step(self, closure=None):
        """Updates the parameters from their gradients; see `Optimizer.step`."""
        loss = None
        outer, differentiable = modes.grad, bool(self.defaults.get("differentiable"))
        try:  # without calls, between which an interrupt could come
            if closure is not None:
                modes.grad = True
                loss = closure()
            modes.grad = differentiable
            for group in self.param_groups:
                self._ftorch_update_group(group)
        finally:
            modes.grad = outer
        _step_end()
        return loss

    # hyperparameters

    def _ftorch_hyperparameters(self, group):
        """The group's hyperparameters by the rule's names."""
        values = {}
        for key, value in group.items():
            pair = _PAIRS.get(key) if isinstance(value, (tuple, list)) else None
            if pair is None:
                values[key] = value
            else:
                values.update(zip(pair, value, strict=True))
        return values

    # state

    def _ftorch_new_state(self, p, grad, values):
        """The initial state of a parameter, as tensors."""
        state = {}
        h = _rules.hyperparameters(**values)
        for name, kind in self._ftorch_rule.state(grad, h).items():
            if isinstance(kind, _rules.Scalar):
                state[name] = torch.full((), float(kind.fill), dtype=_scalar_dtype(values))
            elif isinstance(kind, _rules.Shaped):
                state[name] = grad.new_zeros(kind.shape)
            elif kind.fill == 0:
                state[name] = torch.zeros_like(p)
            else:
                fill = float(kind.fill)
                state[name] = torch.full_like(p, complex(fill, fill) if p.is_complex() else fill)
        return state

    def _ftorch_check_parameter(self, p, grad):
        """Raises for what the optimizer cannot do."""
        if grad.is_sparse:
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _ftorch_gather(self, group, values):
        """The parameters that have gradients, as triples with these and their states."""
        gathered = []
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            self._ftorch_check_parameter(p, grad)
            state = self.state[p]
            if not state:
                with capture_trace.outside_capture():  # a compiled step has the state as an input
                    state.update(self._ftorch_new_state(p, p.detach(), values))
            gathered.append((p, grad, state))
        return gathered

    # the step

    def _ftorch_update_group(self, group):
        try:
            values = self._ftorch_hyperparameters(group)
            self._ftorch_update(self._ftorch_gather(group, values), group, values)
        except (KeyError, AttributeError, ValueError):
            self._ftorch_read(group)
            raise

    def _ftorch_read(self, group):
        """Reads what PyTorch's step does, in its order: of what is missing (another optimizer's states) the first is named.

        Raises:
            KeyError: for a hyperparameter or a state that is missing.
            ValueError, TypeError: for a pair that is none.
        """
        states = [self.state[p] for p in group["params"] if p.grad is not None and self.state.get(p)]
        for name in self._ftorch_reads.split():
            if name.startswith("."):
                for state in states:
                    state[name[1:]]
            elif name.endswith("*"):
                _, _ = group[name[:-1]]
            else:
                group[name]

    def _ftorch_update(self, gathered, group, values, **overrides):
        """Updates parameters; ``overrides`` are hyperparameters other than the group's."""
        if not gathered:
            return
        if len({id(p._ftorch_storage) for p, _, _ in gathered}) < len(gathered):
            rounds = _in_turn(gathered)
            if len(rounds) > 1:
                for entries in rounds:
                    self._ftorch_update(entries, group, values, **overrides)
                return
        values = {**values, **overrides}
        if group.get("differentiable"):
            self._ftorch_update_recorded(gathered, values)
            return
        if _operations.watched() and _operations.find(self._ftorch_rule) is not None:
            self._ftorch_update_by_calls(gathered, values)
            return
        if DISPATCHING:  # tensors whose elements only their class knows: it sees each operation
            alone = [entry for entry in gathered if _is_dispatching(entry)]
            if alone:
                self._ftorch_update_by_calls(alone, values)
                gathered = [entry for entry in gathered if not _is_dispatching(entry)]
                if not gathered:
                    return
        where = gathered[0][0]._ftorch_geometry.device
        if any(entry[0]._ftorch_geometry.device is not where for entry in gathered):  # a program for each device
            apart: dict = {}
            for entry in gathered:
                apart.setdefault(entry[0]._ftorch_geometry.device, []).append(entry)
            for entries in apart.values():
                self._ftorch_update(entries, group, values)
            return
        rule = self._ftorch_rule
        mutable, inputs, layout = [], [], []
        for (p, grad, _), state in zip(gathered, _own_states(rule, gathered, values), strict=True):
            keys = tuple(state)
            if hasattr(p, "_local_tensor"):  # each process updates its part of a `DTensor`
                mutable += [getattr(t, "_local_tensor", t) for t in (p, *state.values())]
                inputs.append(grad.redistribute(placements=p.placements)._local_tensor)
            else:
                mutable += (p, *state.values())
                inputs.append(grad)
            if layout and layout[-1][0] == keys:
                layout[-1][1] += 1
            else:
                layout.append([keys, 1])
        tensors, scalars, options = {}, {}, []
        for name in rule.scalars:
            value = values[name]
            if isinstance(value, Tensor):
                tensors[name] = value
            elif value is None:
                options.append((name, None))
            else:
                scalars[name] = float(value)
        options += [(name, _frozen(values[name])) for name in rule.options]
        on = tuple(s for s in rule.switches if isinstance(values[s], Tensor) or values[s] != 0)
        inputs += tensors.values()
        grad_scale, found_inf = (getattr(self, name, None) for name in ("grad_scale", "found_inf"))
        scaled = found_inf is not None
        if scaled:
            inputs += [torch.ones_like(found_inf) if grad_scale is None else grad_scale, found_inf]
        static = (
            rule, tuple(map(tuple, layout)), (*tensors, *scalars), tuple(options), on, scaled,
        )

        def current():
            # A compiled step asks again: schedulers may have changed the group.
            now = {**self._ftorch_hyperparameters(group), **overrides}
            return [float(now[name]) for name in scalars]

        # Schedulers change the rate, and those that cycle the momentum leave a sign of it.
        cycles = "max_momentum" in group
        fixed = [i for i, name in enumerate(scalars) if name != "lr" and not cycles]
        fused_update(_rules.step, mutable, inputs, tuple(scalars.values()), static, current, fixed)

    def _ftorch_update_by_calls(self, gathered, values):
        """The step as calls that modes and the tensors' classes see."""
        step = _operations.find(self._ftorch_rule)
        if step is None:
            self._ftorch_update_recorded(gathered, values)
            return
        for p, grad, state in gathered:
            _operations.run(step, p, grad, state, _rules.hyperparameters(**values))

    def _ftorch_update_recorded(self, gathered, values):
        """The step as recorded operations, so that gradients flow through it."""
        rule = self._ftorch_rule
        on = tuple(s for s in rule.switches if isinstance(values[s], Tensor) or values[s] != 0)
        h = _rules.hyperparameters(**values, on=on)
        for (p, grad, _), state in zip(gathered, _own_states(rule, gathered, values), strict=True):
            if state.get("step") is not None and state["step"].requires_grad:
                raise RuntimeError(
                    "`requires_grad` is not supported for `step` in differentiable mode"
                )
            views = [p, -grad if values.get("maximize") else grad, *state.values()]
            if p.is_complex():
                views = [torch.view_as_real(v) if v.is_complex() else v for v in views]
            old_p, g, *old = views
            # Copies: what the graph keeps of the old values is not written over.
            before = {name: v.clone() for name, v in zip(state, old, strict=True)}
            new_p, new = rule.update(TENSORS, old_p.clone(), g, before, h)
            old_p.copy_(new_p)
            for name, view in zip(state, old, strict=True):
                view.copy_(new[name])


def _in_turn(gathered):
    """Lists of those that are updated at once: what lies in memory of one before (a weight and its transpose, a parameter that
    was given twice, columns of a matrix) is updated after it, as in PyTorch."""
    spans = [(id(p._ftorch_storage), *_span(p)) for p, _, _ in gathered]
    in_order = sorted(spans)
    if not any(one[0] == other[0] and other[1] <= one[2] for one, other in itertools.pairwise(in_order)):
        return [gathered]
    rounds: list = []
    before: dict = {}  # by storage: where its parameters lie, and in which round each is
    for entry, (storage, first, last) in zip(gathered, spans, strict=True):
        others = before.setdefault(storage, [])
        n = max([turn + 1 for f, to, turn in others if f <= last and first <= to], default=0)
        others.append((first, last, n))
        if n == len(rounds):
            rounds.append([])
        rounds[n].append(entry)
    return rounds


def _span(p):
    """The first and the last place of a storage that a tensor lies in."""
    geometry, first = p._ftorch_geometry, p._ftorch_offset
    if 0 in geometry.shape:
        return first, first - 1
    return first, first + sum([(n - 1) * s for n, s in zip(geometry.shape, geometry.stride)])


def _is_dispatching(entry):
    p, grad, _ = entry
    p, grad = getattr(p, "_local_tensor", p), getattr(grad, "_local_tensor", grad)
    return p.__class__ in DISPATCHING or grad.__class__ in DISPATCHING and not (grad.is_sparse or grad.is_nested)


def _own_states(rule, gathered, values):
    """The states of parameters without what others keep there (averages of Lookahead, weights before a step of SAM)."""
    names: dict = {}  # of the rule's, by what there is
    h, found = _rules.hyperparameters(**values), []
    for p, _, state in gathered:
        keys = tuple(state)
        own = names.get(keys)
        if own is None:
            own = names[keys] = tuple(rule.state(p, h))
        found.append(state if own == keys else {name: state[name] for name in own})
    return found


def _frozen(value):
    return tuple(value) if isinstance(value, list) else value


def _scalar_dtype(group):
    """The dtype of states that are numbers (PyTorch's ``_get_scalar_dtype``)."""
    return dtypes.float64 if dtypes.get_default_dtype() is dtypes.float64 and not group.get("fused") else dtypes.float32


def _step_end():
    """A step is where deferred work starts: the trace of one iteration ends here."""
    executor.flush()


