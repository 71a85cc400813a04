"""``autograd.Function``: operations with a hand-written backward."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ..eager.autograd import inplace_history, nodes, saved_tensors, tape
from ..eager.autograd.views import view_call
from ..eager.call import op as _op
from ..eager.core.registry import OPS
from ..eager.core.user_warnings import warn_user
from ..eager.tensor import PLAIN, TensorBase, count_write, counter_of, extras, modes

NO_SETUP_CONTEXT = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
    "...), it must override the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)


class FunctionCtx:
    """What ``forward`` and ``backward`` of a `Function` share."""

    def save_for_backward(self, *tensors):
        """Keeps tensors for backward; they come back as ``ctx.saved_tensors``."""
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        """Keeps tensors for ``jvp``."""
        for t in tensors:
            if not isinstance(t, TensorBase) and t is not None:
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save "
                    "non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args):
        """Names inputs that forward changed in place."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args):
        """Names outputs that do not require grad."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool):
        """Whether missing gradients reach backward as zeros (the default) or None."""
        self.materialize_grads = value


class BackwardCFunction(nodes.Node, FunctionCtx):
    """The node, and context, of one call of a `Function`."""

    _forward_cls: Any = None
    _ftorch_takes_undefined = True
    _ftorch_width = property(lambda self: len(self._ftorch_output_geometries) or 1)  # type: ignore[assignment]
    _ftorch_differentiable: tuple = ()  # the numbers of the outputs that have gradients
    _ftorch_told: tuple = ()  # what was saved, where somebody asks
    _ftorch_given: tuple | None = None  # the saved tensors, where something else unpacked them

    def __init__(self):
        super().__init__()
        self.to_save = ()
        self.saved_for_forward = ()
        self.dirty_tensors = ()
        self.non_differentiable = ()
        self.materialize_grads = self._materialize_non_diff_grads = True
        self.needs_input_grad = ()
        self._ftorch_output_geometries = ()
        self._ftorch_saved = ()

    def _ftorch_keep(self, outputs):
        kept = []
        for i, t in enumerate(self.to_save):
            if t is None:
                kept.append((None, None))
                continue
            if not isinstance(t, TensorBase):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(t).__name__}"
                )
            nr = next((i for i, o in enumerate(outputs) if o is t), None)
            edge = nr if nr is not None else tape.edge_of(t) if _op.is_in_graph(t) else None
            saved = saved_tensors.save(t)
            if nr is None and saved.__class__ is tuple:  # not a result: itself, without a cycle
                saved = saved_tensors.SavedOutside(t)
            kept.append((saved, edge))
        self._ftorch_saved = kept
        self.to_save = ()

    @property
    def saved_tensors(self):
        """The tensors given to `save_for_backward`.

        Raises:
            RuntimeError: if one was modified since, or the graph was freed.
        """
        if self._ftorch_given is not None:
            return self._ftorch_given
        if self._ftorch_saved is None:
            raise RuntimeError(nodes.FREED)
        if self.to_save:
            return tuple(self.to_save)
        return tuple(
            None if kept is None
            else saved_tensors.unpack(kept, self, (self, edge) if isinstance(edge, int) else edge, True)
            for kept, edge in self._ftorch_saved
        )

    @property
    def saved_variables(self):
        """The older name of `saved_tensors`."""
        import warnings

        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def __repr__(self):
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"

    @property
    def _raw_saved_tensors(self):
        from ..eager.autograd.saved_values import SavedTensorOfFunction

        return tuple(SavedTensorOfFunction(self, i) for i in range(len(self.saved_tensors)))

    def _ftorch_release(self):
        self._ftorch_saved = None

    def apply(self, *args):
        from ..eager.autograd import gradient_values

        (grads,) = args
        grads = list(grads) + [None] * (len(self._ftorch_output_geometries) - len(grads))
        if self.materialize_grads:
            places = range(len(grads)) if self._materialize_non_diff_grads else self._ftorch_differentiable
            for i in places:
                if grads[i] is None and self._ftorch_output_geometries[i] is not None:
                    grads[i] = gradient_values.zeros(self._ftorch_output_geometries[i])
        cls = self._forward_cls
        pull = cls.backward if cls.backward is not Function.backward else cls.vjp
        if pull is not cls.vjp and cls.vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one "
                "of them."
            )
        if pull is Function.vjp:
            raise NotImplementedError(
                "You must implement either the backward or vjp method for your custom "
                "autograd.Function to use it with backward mode AD."
            )
        result = pull(self, *grads)
        result = result if isinstance(result, tuple) else (result,)
        return self._ftorch_checked(list(result))

    def _ftorch_checked(self, result):
        expected = len(self._ftorch_edges_by_argument)
        extra = result[expected:]
        if len(result) < expected or any(r is not None for r in extra):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(result)})"
            )
        out = []
        for i, (g, is_tensor) in enumerate(zip(result, self._ftorch_edges_by_argument)):
            if is_tensor:
                out.append(self._ftorch_fitted(i, len(out), g))
            elif g is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position "
                    f"{i + 1}, but the corresponding forward input was not a Variable"
                )
        return out

    def _ftorch_fitted(self, position, index, g):
        if g is None:
            return None
        if not isinstance(g, TensorBase):
            raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
        wanted = self._ftorch_input_geometries[index]
        if self._ftorch_edges[index] is None:
            return g  # it goes nowhere
        if g.shape != wanted.shape:
            try:
                g = g.sum_to_size(wanted.shape)
            except RuntimeError:
                raise RuntimeError(
                    f"Function {self.name()} returned an invalid gradient at index {position} - got "
                    f"{list(g.shape)} but expected shape compatible with {list(wanted.shape)}"
                ) from None
        return g if g.dtype is wanted.dtype else g.to(wanted.dtype)


class FunctionMeta(type):
    """Gives each `Function` subclass its node class, named ``<Name>Backward``."""

    def __init__(cls, name, bases, attrs):
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls})
        super().__init__(name, bases, attrs)


class Function(FunctionCtx, metaclass=FunctionMeta):
    """A differentiable operation defined by static methods ``forward`` and ``backward``.

    Either ``forward(ctx, *args)``, or ``forward(*args)`` with ``setup_context(ctx, inputs,
    output)``. Optional: ``jvp`` and ``vmap``. Call it by ``apply``.

    >>> import ftorch as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    generate_vmap_rule = False
    _is_own = False  # whether it is a part of this package, whose backward transforms see through

    def __init__(self, *args, **kwargs):
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
            "should invoke them on the class itself. Instantiating an autograd function will raise an error in a "
            "future version of PyTorch.",
            DeprecationWarning, stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the result; override."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Fills ctx, where ``forward`` does not take it; override."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """One gradient per argument of forward (None for non-tensors); override."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function "
            "to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Forward-mode derivative; override."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward "
            "mode AD."
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        """The batching rule: ``(outputs, out_dims)``; override."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Calls the operation."""
        if modes.differentiating and cls.setup_context is Function.setup_context:
            if not (hasattr(cls, "_overload") or cls._is_own):
                raise RuntimeError(NO_SETUP_CONTEXT)
        if _op.special[0]:
            handled, result = _op.hooks.custom_function(cls, args, kwargs)
            if handled:
                return result
        return _apply(cls, args, kwargs)


def _transformed(cls, args, kwargs):
    from .function_transforms import transformed_call  # they are imported when a transform runs

    return transformed_call(cls, args, kwargs)


_op.hooks.custom_function = _transformed


def _positional(cls, args, kwargs):
    """Keyword arguments as the positional ones that ``forward`` takes: tensors among them have gradients, too."""
    parameters = inspect.signature(cls.forward).parameters.values()
    named = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if cls.setup_context is Function.setup_context:
        named = named[1:]  # ctx
    args, kwargs = list(args), dict(kwargs)
    for p in named[len(args) :]:
        if not kwargs or (p.name not in kwargs and p.default is p.empty):
            break
        args.append(kwargs.pop(p.name, p.default))
    if kwargs:
        raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(kwargs))}'")
    return tuple(args)


def _with_defaults(forward, args):
    """Positional arguments with the defaults of those left out: ``setup_context`` sees them all.

    Raises:
        TypeError: for too few or too many, in `inspect`'s words.
    """
    code, defaults = getattr(forward, "__code__", None), getattr(forward, "__defaults__", None) or ()
    if code is None:
        return args
    missing = code.co_argcount - len(args) - inspect.ismethod(forward)
    if missing > len(defaults):
        raise TypeError(f"missing a required argument: '{code.co_varnames[len(args)]}'")
    if missing < 0 and not code.co_flags & inspect.CO_VARARGS:
        raise TypeError("too many positional arguments")
    return (*args, *defaults[-missing:]) if missing > 0 else args


_SAVED_AS_IS = (
    "An input that has been returned as-is as output is being saved for backward. This is not supported if you override "
    "setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or setup ctx inside the "
    "forward function itself."
)


def _apply(cls, args, kwargs, ctx=None):
    if kwargs:
        args, kwargs = _positional(cls, args, kwargs), {}
    if cls.setup_context is not Function.setup_context:
        args = _with_defaults(cls.forward, args)
    told = ctx is not None  # whether the caller wants to know what was saved
    ctx = cls._backward_cls() if ctx is None else ctx
    tensors = [a for a in args if isinstance(a, TensorBase)]
    recorded = modes.grad and any(map(_op.is_in_graph, tensors))
    ctx.needs_input_grad = tuple(isinstance(a, TensorBase) and _op.is_in_graph(a) for a in args)
    ctx._ftorch_edges_by_argument = [isinstance(a, TensorBase) for a in args]
    ctx._ftorch_input_geometries = [t._ftorch_geometry for t in tensors]
    if recorded:
        ctx._ftorch_edges = tuple(tape.edge_of(t) if _op.is_in_graph(t) else None for t in tensors)
    outer, modes.grad = modes.grad, False
    forward, modes.forward = modes.forward, False
    try:
        if cls.setup_context is not Function.setup_context:
            output = cls.forward(*args, **kwargs)
            cls.setup_context(ctx, args, output)
        else:
            output = cls.forward(ctx, *args, **kwargs)
    finally:
        modes.grad, modes.forward = outer, forward
    outputs = output if isinstance(output, tuple) else (output,)
    inputs = {id(t) for t in tensors}
    dirty, constant = _marked(ctx, inputs, outputs)
    if cls.setup_context is not Function.setup_context:
        kept = {id(t) for t in (*ctx.to_save, *ctx.saved_for_forward)}
        for out in outputs if kept else ():
            if id(out) in kept and id(out) in inputs and id(out) not in dirty:
                if not out._ftorch_requires_grad or (recorded and id(out) not in constant):
                    raise RuntimeError(_SAVED_AS_IS)
    several = (
        recorded
        and sum(
            isinstance(o, TensorBase) and id(o) not in constant and o.dtype.category >= 2
            for o in outputs
        )
        > 1
    )
    if several and any(t._base is not None for t in ctx.dirty_tensors):
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
            "than one Tensor. This is not supported by the current autograd engine. You should either make sure the input "
            "is not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting "
            "it into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other "
            "operations). You can ask on the forum https://discuss.pytorch.org/ if you need help to do this change."
        )
    results = []
    for nr, out in enumerate(outputs):
        if not isinstance(out, TensorBase):
            results.append(out)
            continue
        is_dirty = id(out) in dirty
        if id(out) in inputs and ((not is_dirty and id(out) in constant) or (is_dirty and not recorded and out.requires_grad)):
            outer, modes.grad = modes.grad, False
            out = out.detach()
            modes.grad = outer
        elif id(out) in inputs and not is_dirty:
            outer, modes.grad = modes.grad, False
            out = view_call(OPS["alias"], out, ()) if out.__class__ in PLAIN else out.view_as(out)
            modes.grad = outer
        if recorded and id(outputs[nr]) not in constant and out.dtype.category >= 2:
            if is_dirty:
                if out._base is None and out._ftorch_requires_grad and out._grad_fn is None:
                    raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
                inplace_history.check_inplace(out)
                inplace_history.rebase(out, ctx)
                if out._base is None:
                    out._ftorch_output_nr = nr
            else:
                out._grad_fn, out._ftorch_output_nr, out._ftorch_requires_grad = ctx, nr, True
                if out._base is not None:
                    out._ftorch_attr_version = counter_of(out).version  # what forward wrote to it is told by this node
                    extras(out).creation = (nr, cls.__name__) if several else tape.MadeInFunction(cls.__name__)
        elif out._base is not None and not is_dirty:
            extras(out).creation = tape.MadeInFunction(cls.__name__)
        results.append(out)
    if recorded:
        ctx._ftorch_output_geometries = tuple(
            o._ftorch_geometry if isinstance(o, TensorBase) else None for o in results
        )
        if not ctx._materialize_non_diff_grads:
            ctx._ftorch_differentiable = tuple(i for i, o in enumerate(outputs) if id(o) not in constant)
        if told:
            ctx._ftorch_told = ctx.to_save
        if ctx.to_save:
            ctx._ftorch_keep(results)
    elif told:
        ctx._ftorch_told = ctx.to_save
    return tuple(results) if isinstance(output, tuple) else results[0]


def _marked(ctx, inputs, outputs):
    """The ids of the tensors that ``forward`` said to have changed, and of those said to have no gradient.

    Raises:
        RuntimeError: if a changed one is not among its outputs.
    """
    if not (ctx.dirty_tensors or ctx.non_differentiable):
        return (), ()
    if not all(isinstance(t, TensorBase) for t in ctx.dirty_tensors):
        raise RuntimeError("mark_dirty can only accept variables, but argument ")
    if not all(isinstance(t, TensorBase) for t in ctx.non_differentiable):
        raise RuntimeError("mark_non_differentiable only accepts variable arguments, but got ")
    dirty = {id(t) for t in ctx.dirty_tensors}
    for t in ctx.dirty_tensors:
        count_write(t)  # also where `forward` wrote behind autograd's back
        if id(t) not in inputs:
            warn_user("ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
                      "should be passed to ctx.mark_dirty().")
    if not dirty <= {id(o) for o in outputs}:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
            "inplace must all be outputs of the Function."
        )
    return dirty, {id(t) for t in ctx.non_differentiable}


def once_differentiable(fn):
    """Decorates a ``backward`` whose own gradient is not defined."""

    @functools.wraps(fn)
    def wrapper(ctx, *grads):
        recording = modes.grad and any(isinstance(g, TensorBase) and g._ftorch_requires_grad for g in grads)
        outer, modes.grad = modes.grad, False
        try:
            outputs = fn(ctx, *grads)
        finally:
            modes.grad = outer
        if not recording:
            return outputs
        many = outputs if isinstance(outputs, tuple) else (outputs,)
        node, made, edges = Error(), [], []
        for nr, out in enumerate(many):
            if out is None:
                edges.append(None)
            else:
                leaf, out = out.detach(), out.detach()
                edges.append((nodes.accumulator(leaf), 0))
                out._grad_fn, out._ftorch_output_nr, out._ftorch_requires_grad = node, nr, True
            made.append(out)
        node._ftorch_edges = tuple(edges)
        return tuple(made) if isinstance(outputs, tuple) else made[0]

    return wrapper


class Error(nodes.Node):
    """The node of a gradient that must not be differentiated again."""

    _ftorch_width = property(lambda self: len(self._ftorch_edges))  # type: ignore[assignment]

    def name(self):
        return "torch::autograd::Error"

    def apply(self, grads):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


class InplaceFunction(Function):
    """Kept for old code; use `Function`."""


class NestedIOFunction(Function):
    """Kept for old code; use `Function`."""


def _nested_map(condition, fn, condition_msg=None):
    """A function of nested lists, tuples and dictionaries that replaces those leaves for which a condition is true.

    Raises:
        ValueError: when it meets another leaf than None.

    >>> from ftorch.autograd.function import _nested_map
    >>> _nested_map(lambda x: isinstance(x, int), str)([1, (2, None)])
    ['1', ('2', None)]
    """
    def mapped(value):
        if condition(value):
            return fn(value)
        if value is None:
            return None
        if isinstance(value, (list, tuple)):
            items = map(mapped, value)
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {key: mapped(item) for key, item in value.items()}
        accepted = f". Accepted types: {condition_msg}, or lists/tuples of them" if condition_msg else ""
        kind = type(value)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise ValueError(f"Auto nesting doesn't know how to process an input object of type {name}{accepted}")

    return mapped
