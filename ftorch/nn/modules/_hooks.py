"""Hooks of modules: registration, the global ones, and full backward hooks.

A hook table is an ``OrderedDict`` from the id of its `RemovableHandle` to the function. What
distinguishes a hook (it takes keyword arguments, it runs even after an error) is kept in further
tables under the same id, as PyTorch keeps it, so that modules pickle alike.
"""

from __future__ import annotations

import warnings
import weakref

from ..._old_names import place_in
from ...autograd import Function, is_grad_enabled
from ...eager.core.handles import RemovableHandle
from ...eager.tensor import Tensor

_TWO_KINDS = (
    "Cannot use both regular backward hooks and full backward hooks on a {}. "
    "Please use only one of them."
)


def add_hook(table, hook, *marks, prepend=False) -> RemovableHandle:
    """Enters ``hook`` into ``table``, and into each table of ``marks`` that is wanted.

    Args:
        marks: pairs of a table and whether this hook belongs in it.
        prepend: whether it runs before the hooks that are already there.
    """
    handle = RemovableHandle(table, extra_dict=[extra for extra, _ in marks])
    table[handle.id] = hook
    for extra, is_marked in marks:
        if is_marked:
            extra[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _table(name):
    return property(lambda self: self.namespace[name])


class GlobalHooks:
    """The hooks of all modules: the tables of a namespace, under the names that they have there.

    The namespace is `module`'s, and a table is looked up at each use: programs put other tables
    under these names, as they do with PyTorch.
    """

    def __init__(self):
        self.namespace = {}

    forward_pre = _table("_global_forward_pre_hooks")
    forward = _table("_global_forward_hooks")
    forward_with_kwargs = _table("_global_forward_hooks_with_kwargs")
    forward_always_called = _table("_global_forward_hooks_always_called")
    backward_pre = _table("_global_backward_pre_hooks")
    backward = _table("_global_backward_hooks")
    buffer_registration = _table("_global_buffer_registration_hooks")
    module_registration = _table("_global_module_registration_hooks")
    parameter_registration = _table("_global_parameter_registration_hooks")

    @property
    def is_full_backward(self) -> bool | None:
        return self.namespace["_global_is_full_backward_hook"]

    @is_full_backward.setter
    def is_full_backward(self, value: bool):
        self.namespace["_global_is_full_backward_hook"] = value


GLOBAL = GlobalHooks()


def register_module_forward_pre_hook(hook) -> RemovableHandle:
    """Calls ``hook(module, args)`` before the forward of every module.

    It may return new arguments (one value or a tuple).
    """
    return add_hook(GLOBAL.forward_pre, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False) -> RemovableHandle:
    """Calls ``hook(module, args, output)`` after the forward of every module.

    Args:
        with_kwargs: the hook is ``hook(module, args, kwargs, output)``.
        always_call: it also runs when the forward raised.
    """
    return add_hook(
        GLOBAL.forward, hook,
        (GLOBAL.forward_with_kwargs, with_kwargs), (GLOBAL.forward_always_called, always_call),
    )


def register_module_full_backward_pre_hook(hook) -> RemovableHandle:
    """Calls ``hook(module, grad_output)`` when the gradients of a module's outputs are known."""
    return add_hook(GLOBAL.backward_pre, hook)


def _register_global_backward(hook, is_full):
    if GLOBAL.is_full_backward is (not is_full):
        raise RuntimeError(_TWO_KINDS.format("global Module hook").replace(" on a ", " as a "))
    GLOBAL.is_full_backward = is_full
    return add_hook(GLOBAL.backward, hook)


def register_module_full_backward_hook(hook) -> RemovableHandle:
    """Calls ``hook(module, grad_input, grad_output)`` in the backward pass of every module."""
    return _register_global_backward(hook, True)


def register_module_backward_hook(hook) -> RemovableHandle:
    """The older form of `register_module_full_backward_hook`, on one node of the graph."""
    return _register_global_backward(hook, False)


def register_module_buffer_registration_hook(hook) -> RemovableHandle:
    """Calls ``hook(module, name, buffer)`` at every `Module.register_buffer`."""
    return add_hook(GLOBAL.buffer_registration, hook)


def register_module_module_registration_hook(hook) -> RemovableHandle:
    """Calls ``hook(module, name, submodule)`` whenever a submodule is assigned."""
    return add_hook(GLOBAL.module_registration, hook)


def register_module_parameter_registration_hook(hook) -> RemovableHandle:
    """Calls ``hook(module, name, parameter)`` at every `Module.register_parameter`."""
    return add_hook(GLOBAL.parameter_registration, hook)


def run_registration_hooks(table, module, name, value):
    """The value that is registered: the hooks of ``table`` may replace it."""
    for hook in table.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


class WrappedHook:
    """A hook that may get the module as its first argument, without keeping it alive."""

    def __init__(self, hook, module=None):
        self.hook = hook
        self.__name__ = getattr(hook, "__name__", type(hook).__name__)
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        return self.hook, None if self.module is None else self.module()

    def __setstate__(self, state):
        self.__init__(*state)


class HookRegistration:
    """The part of `Module` that registers hooks. See `Module` for the tables."""

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls ``hook(module, args)`` before each forward; it may return new arguments.

        Args:
            prepend: it runs before this module's other hooks.
            with_kwargs: the hook is ``hook(module, args, kwargs)`` and returns None or both.

        Returns:
            a handle whose ``remove()`` takes the hook away.
        """
        marks = (self._forward_pre_hooks_with_kwargs, with_kwargs)
        return add_hook(self._forward_pre_hooks, hook, marks, prepend=prepend)

    def register_forward_hook(
        self, hook, *, prepend=False, with_kwargs=False, always_call=False
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after each forward; it may return a new output.

        Args:
            prepend: it runs before this module's other hooks.
            with_kwargs: the hook is ``hook(module, args, kwargs, output)``.
            always_call: it runs even if the forward raised.

        >>> import ftorch as torch
        >>> layer, shapes = torch.nn.Linear(2, 3), []
        >>> handle = layer.register_forward_hook(lambda m, args, out: shapes.append(out.shape))
        >>> _ = layer(torch.zeros(4, 2)); handle.remove()
        >>> shapes
        [torch.Size([4, 3])]
        """
        return add_hook(
            self._forward_hooks, hook,
            (self._forward_hooks_with_kwargs, with_kwargs),
            (self._forward_hooks_always_called, always_call), prepend=prepend,
        )

    def register_full_backward_pre_hook(self, hook, prepend=False) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` when the outputs' gradients are known.

        It may return new ones.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)``; it may return a new ``grad_input``.

        Raises:
            RuntimeError: the module has hooks of `register_backward_hook`.
        """
        return self._ftorch_register_backward(hook, True, prepend)

    def register_backward_hook(self, hook) -> RemovableHandle:
        """The older form of `register_full_backward_hook`, on the output's ``grad_fn``."""
        return self._ftorch_register_backward(hook, False, False)

    def _ftorch_register_backward(self, hook, is_full, prepend):
        if self._is_full_backward_hook is (not is_full):
            raise RuntimeError(_TWO_KINDS.format("single Module"))
        self._is_full_backward_hook = is_full
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def _get_backward_hooks(self):
        """The full hooks and the older ones, global ones first."""
        kinds = (
            (GLOBAL.is_full_backward, GLOBAL.backward),
            (self._is_full_backward_hook, self._backward_hooks),
        )
        return tuple(
            [hook for is_full, table in kinds if is_full is wanted for hook in table.values()]
            for wanted in (True, False)
        )

    def _get_backward_pre_hooks(self):
        return [*GLOBAL.backward_pre.values(), *self._backward_pre_hooks.values()]


class BackwardHookFunction(Function):
    """Hands tensors through: one node that sees the gradients of all of them together."""

    @staticmethod
    def forward(ctx, *args):
        ctx.mark_non_differentiable(*(arg for arg in args if not arg.requires_grad))
        return args

    @staticmethod
    def backward(ctx, *grads):
        return grads


def _spread(indices, values, size):
    """A tuple of ``size`` with the values at their indices and None elsewhere."""
    places = dict(zip(indices, values, strict=True))
    return tuple(places.get(i) for i in range(size))


class BackwardHook:
    """Brings a module's output gradients and input gradients together for its full hooks.

    An identity node goes in front of the module and one behind it. The one behind fires first in
    the backward pass and keeps the output gradients; the one in front then calls the hooks.
    """

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs = None
        self.inputs = self.outputs = None  # positions of the tensors; None: no gradient flows
        self.n_inputs = self.n_outputs = 0

    def setup_input_hook(self, args):
        self.n_inputs = len(args)
        args, self.inputs = self._ftorch_insert(args, self._on_grad_input)
        return args

    def setup_output_hook(self, result):
        results = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(results)
        results, self.outputs = self._ftorch_insert(results, self._on_grad_output)
        return results if isinstance(result, tuple) else results[0]

    @staticmethod
    def _ftorch_insert(values, hook):
        positions = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        tensors = [values[i] for i in positions]
        if not (is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return values, None
        passed = BackwardHookFunction.apply(*tensors)
        next(t.grad_fn for t in passed if t.grad_fn is not None).register_hook(hook)
        new = list(values)
        for position, tensor in zip(positions, passed, strict=True):
            new[position] = tensor
        # A named tuple is made from separate arguments.
        return (tuple(new) if type(values) is tuple else type(values)(*new)), positions

    def _on_grad_input(self, grad_input, _):
        if self.grad_outputs is None:  # the gradient did not come through the module's output
            return None
        grads = _spread(self.inputs, grad_input, self.n_inputs)
        for hook in self.hooks:
            out = hook(self.module, grads, self.grad_outputs)
            if out is None:
                continue
            if len(out) != len(grads):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(out)}, but expected {len(grads)}"
                )
            grads = out
        self.grad_outputs = None
        return tuple(grads[i] for i in self.inputs)

    def _on_grad_output(self, _, grad_output):
        grads = _spread(self.outputs, grad_output, self.n_outputs)
        for hook in self.pre_hooks:
            out = hook(self.module, grads)
            if out is None:
                continue
            if len(out) != len(grads):
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(out)}, but expected {len(grads)}"
                )
            grads = out
        self.grad_outputs = grads
        if self.inputs is None:
            self._call_without_inputs(grads)
        return tuple(grads[i] for i in self.outputs)

    def _call_without_inputs(self, grads):
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients. See "
            "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=5,
        )
        for hook in self.hooks:
            out = hook(self.module, (None,) * self.n_inputs, grads)
            if out is not None and not (isinstance(out, tuple) and all(x is None for x in out)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None


def _missed_by_older_hooks(args, result, grad_fn):
    """What hooks on ``grad_fn`` will not see of the gradients, in PyTorch's words, or None."""
    groups = []
    of_both = (result, "return", "of the grad_output"), (args, "take as input", "of the grad_input")
    for values, does_not, lacks in of_both:
        values = (values,) if isinstance(values, Tensor) else values
        if not (isinstance(values, tuple) and all(isinstance(v, Tensor) for v in values)):
            return f"hooks on a Module that does not {does_not} a single Tensor or a tuple of Tensors", lacks
        groups.append({v.grad_fn for v in values if v.grad_fn is not None})
    results, inputs = groups
    if len(results) > 1:
        return "hook when outputs are generated by different autograd Nodes", "grad_output"
    if inputs != {node for node, _ in grad_fn.next_functions}:
        return "hook when the forward contains multiple autograd Nodes", "grad_input"
    return None


def attach_older_backward_hooks(module, hooks, args, result):
    """Hangs hooks of `Module.register_backward_hook` on the node that made the first tensor."""
    tensor = result
    while not isinstance(tensor, Tensor):
        if isinstance(tensor, dict):
            tensor = next(v for v in tensor.values() if isinstance(v, Tensor))
        else:
            tensor = tensor[0]
    if tensor.grad_fn is not None:
        for hook in hooks:
            tensor.grad_fn.register_hook(WrappedHook(hook, module))
        missed = _missed_by_older_hooks(args, result, tensor.grad_fn)
        if missed is not None:
            use, lacks = missed
            warnings.warn(
                f"Using {'a ' if use.startswith('hook ') else ''}non-full backward {use} is deprecated and "
                f"will be removed in future versions. This hook will be missing some {lacks}. Please use "
                "register_full_backward_hook to get the documented behavior.",
                FutureWarning,
                stacklevel=4,
            )

place_in("utils.hooks", BackwardHook)
