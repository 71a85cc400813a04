"""Autograd methods: a tensor's place in the graph: requires_grad, grad, backward, detach, hooks."""

from __future__ import annotations

from collections import OrderedDict

from ..autograd import backward as _backward
from ..autograd.tape import RETAINED, grad_fn_of
from ..bindings import declared
from ..call import op as _op
from ..core import dtype as _dtype
from ..core.handles import add_hook
from ..core.user_warnings import warn_user
from ..dispatch.overrides import DisableTorchFunctionSubclass
from ..runtime import capture_trace
from ..tensor import (
    PLAIN,
    TensorBase,
    VersionCounter,
    counter_of,
    extras,
    modes,
    replace_memory,
    wrap_view,
)
from .methods import METHODS, leave_capture, method

# --- autograd ------------------------------------------------------------------------


_NO_LEAF = "you can only change requires_grad flags of leaf variables."


def _set_requires_grad(self, value):
    if value.__class__ is not bool:
        raise RuntimeError("requires_grad must be a bool")
    if self._grad_fn is not None and not value:
        raise RuntimeError(f"{_NO_LEAF} If you want to use a computed variable in a subgraph that doesn't require "
                           "differentiation use var_no_grad = var.detach().")
    if value and self._ftorch_geometry.dtype.category < 2:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if value and self._ftorch_storage.version < 0 and not modes.inference:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    capture = capture_trace.capturing()
    if capture is not None:
        capture.flags.setdefault(id(self), (self, self._ftorch_requires_grad))
    self._ftorch_requires_grad = value


def _assign_requires_grad(self, value):
    if self._grad_fn is not None and value is True:  # `requires_grad_` lets it be
        raise RuntimeError(_NO_LEAF)
    _set_requires_grad(self, value)


def refuses_deletion(text: str):
    """A property's deleter that raises."""

    def delete(self):
        raise RuntimeError(text)

    return delete


METHODS["requires_grad"] = property(
    lambda self: self._ftorch_requires_grad or (self._base is not None and self._base._ftorch_requires_grad),
    _assign_requires_grad,
    refuses_deletion("requires_grad must be a bool"),
)


@method
def requires_grad_(self, requires_grad=True):
    """Sets whether autograd records operations on the tensor.

    Raises:
        RuntimeError: inside of `torch.func`'s transforms, and for dtypes without gradients.
    """
    if requires_grad.__class__ is not bool:
        raise declared.misfit("requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)", (self, requires_grad))
    if modes.transforming:
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() (or perhaps using "
            "torch.autograd.functional.* APIs) inside of a function being transformed by a functorch "
            "transform. This is unsupported, please attempt to use the functorch transforms (e.g. "
            "grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
            "transformed instead."
        )
    if requires_grad and self._ftorch_geometry.dtype.category < 2:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    _set_requires_grad(self, requires_grad)
    return self


def _version(self):
    version = counter_of(self).version
    if version < 0:
        raise RuntimeError("Inference tensors do not track version counter.")
    return version


def is_leaf(self):
    return grad_fn_of(self) is None or not self._ftorch_requires_grad


METHODS["grad_fn"] = property(grad_fn_of)
METHODS["is_leaf"] = property(is_leaf)
METHODS["output_nr"] = property(lambda self: max(self._ftorch_output_nr, 0))
METHODS["_version"] = property(_version)


@method
def _is_view(self):
    capture_trace.asks_place()
    return self._base is not None and not self.is_inference()


def _get_grad(self):
    if self._grad is None and self._grad_fn is not None and not (
        self._ftorch_meta is not None and self._ftorch_meta.retains_grad
    ):
        warn_user(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
            "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
            "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
            "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
            "instead. See github.com/pytorch/pytorch/pull/30531 for more information.",
        )
    capture = capture_trace.capturing()
    if capture is not None:
        capture.touch_grad(self, True)
    return self._grad


def _set_grad(self, value):
    if value is not None:
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type "
                f"{value.__class__.__name__}"
            )
        if value.__class__ not in PLAIN and modes.subclasses:
            with DisableTorchFunctionSubclass():
                return _set_grad(self, value)
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.shape != self.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same "
                "size"
            )
        if value.device.type != self.device.type:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{value.device.type}' to a tensor "
                f"with device type '{self.device.type}'. Please ensure that the gradient and the "
                "tensor are on the same device"
            )
        meta = self._ftorch_meta
        allowed = self.dtype if meta is None or meta.grad_dtype is False else meta.grad_dtype
        if allowed is not None and value.dtype is not allowed:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{value.dtype.c_name}' to a tensor with "
                f"grad_dtype '{allowed.scalar_name}'. The gradient must match the tensor's "
                "grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype "
                "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with "
                "caution. Diverging the dtypes of a tensor and its gradient may break downstream "
                "systems that assume they match."
            )
    capture = capture_trace.capturing()
    if capture is not None:
        capture.touch_grad(self, False)
    self._grad = value


def _grad_dtype(self):
    if grad_fn_of(self) is not None:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    meta = self._ftorch_meta
    return self.dtype if meta is None or meta.grad_dtype is False else meta.grad_dtype


def _set_grad_dtype(self, value):
    if value is not None and not isinstance(value, _dtype.dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}")
    if grad_fn_of(self) is not None:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not None and self._grad is not None and self._grad.dtype is not value:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{value.scalar_name}' because there is already a gradient with dtype "
            f"'{self._grad.dtype.c_name}'. Please clear the gradient (.grad = None) before changing grad_dtype, or "
            "ensure the new grad_dtype matches the existing gradient's dtype."
        )
    extras(self).grad_dtype = value


METHODS["grad_dtype"] = property(_grad_dtype, _set_grad_dtype)
METHODS["grad"] = property(_get_grad, _set_grad, lambda self: _set_grad(self, None))


@method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of this tensor to the ``.grad`` of the leaves of its graph."""
    if modes.transforming:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    _backward.backward(
        self, gradient, retain_graph=retain_graph, create_graph=create_graph, inputs=inputs
    )


@method
def detach(self):
    """The same elements outside the graph; writes are seen by both."""
    if _op.special[0] or self.__class__ not in PLAIN:
        handled, result = _op.hooks.python_method("detach", self)
        if handled:
            return result
    out = wrap_view(self._ftorch_storage, self._ftorch_geometry, self._ftorch_offset, None)
    if self._ftorch_meta is not None and self._ftorch_meta.counter is not None:
        extras(out).counter = self._ftorch_meta.counter
    return out


@method
def detach_(self):
    """Takes the tensor itself out of the graph."""
    if self._base is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead. If you are using "
                           "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view "
                           "is set as True, gradients are views of DDP buckets, and hence detach_() "
                           "cannot be called on these gradients. To fix this error, please refer to "
                           "the Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.")
    if self._grad_fn is not None:
        self._grad_fn._ftorch_detached = {*getattr(self._grad_fn, "_ftorch_detached", ()), self._ftorch_output_nr}
    self._grad_fn, self._ftorch_requires_grad, self._ftorch_output_nr = None, False, 0
    return self


def _get_data(self):
    if self.__class__ not in PLAIN:
        handled, out = _op.hooks.python_method("detach", self)
        if handled:
            extras(out).counter = VersionCounter()
            return out
    out = wrap_view(self._ftorch_storage, self._ftorch_geometry, self._ftorch_offset, None)
    extras(out).counter = VersionCounter()
    return out


def can_have_data_of(t, other) -> bool:
    """Whether ``t.data = other`` is allowed: both are dense tensors, or of one sparse layout; with values or both without."""
    return t.layout is other.layout and t.is_nested == other.is_nested and t.is_meta == other.is_meta


def _set_data(self, value):
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"Variable data has to be a tensor, but got {value.__class__.__name__}"
        )
    if value.__class__ not in PLAIN and modes.subclasses:  # whose handlers see nothing of this
        with DisableTorchFunctionSubclass():
            return _set_data(self, value)
    if not can_have_data_of(self, value):
        raise RuntimeError("Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible "
                           "tensor type.")
    if self._ftorch_requires_grad and value.dtype.category < 2:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    leave_capture(self)
    replace_memory(self, value._ftorch_storage, value._ftorch_geometry, value._ftorch_offset)


METHODS["data"] = property(
    _get_data, _set_data, refuses_deletion("Deleting tensor data is not allowed. Delete tensor instead!")
)


@method
def retain_grad(self):
    """Makes backward fill ``.grad`` of a tensor that is not a leaf."""
    if not _op.is_in_graph(self):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if modes.transforming:
        raise RuntimeError(
            "You are attempting to call Tensor.retain_grad() inside of a function being transformed by a functorch transform. "
            "This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or "
            "call retain_grad() outside of a function being transformed instead."
        )
    if self._grad_fn is None or extras(self).retains_grad:
        return
    extras(self).retains_grad = True
    import weakref

    target = weakref.ref(self)

    def keep(grad):
        t = target()
        if t is not None:
            t._grad = grad.clone() if t._grad is None else t._grad + grad

    _tensor_hooks(self)[RETAINED] = keep


METHODS["retains_grad"] = property(
    lambda self: self._ftorch_meta is not None and self._ftorch_meta.retains_grad
)


def _tensor_hooks(self):
    fn = grad_fn_of(self)
    if fn is None:
        meta = extras(self)
        if meta.hooks is None:
            meta.hooks = OrderedDict()
        fn = meta.accumulator and meta.accumulator()
        if fn is not None:
            fn._ftorch_tensor_hooks = {0: meta.hooks}
        return meta.hooks
    if fn._ftorch_tensor_hooks is None:
        fn._ftorch_tensor_hooks = {}
    if self._ftorch_output_nr not in fn._ftorch_tensor_hooks:
        fn._ftorch_tensor_hooks[self._ftorch_output_nr] = OrderedDict()
    return fn._ftorch_tensor_hooks[self._ftorch_output_nr]


@method
def register_hook(self, hook):
    """Calls ``hook(grad)`` whenever a gradient of this tensor is computed; it may replace it."""
    if not _op.is_in_graph(self):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return add_hook(_tensor_hooks(self), hook)


@method
def register_post_accumulate_grad_hook(self, hook):
    """Calls ``hook(tensor)`` after a gradient was added to a leaf's ``.grad``."""
    if not _op.is_in_graph(self):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    meta = extras(self)
    if meta.post_hooks is None:
        meta.post_hooks = OrderedDict()
    return add_hook(meta.post_hooks, hook)
