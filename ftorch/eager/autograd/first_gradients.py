"""Root gradients: the outputs that backward starts at as edges of the graph, and their gradients, checked or made."""

from __future__ import annotations

from ..call.op import hooks, is_in_graph
from ..core import api
from ..tensor import DISPATCHING, TensorBase, modes
from . import gradient_values
from .nodes import accumulator
from .tape import grad_fn_of


def edge_of_output(t):
    """(node, output number) of a tensor to differentiate.

    Raises:
        RuntimeError: if no graph leads to it.
    """
    if is_edge(t):
        return t.node, t.output_nr
    fn = grad_fn_of(t)
    if fn is not None:
        return fn, t._ftorch_output_nr
    return accumulator(t), 0


def is_edge(value) -> bool:
    """Whether a value is a graph's edge (`torch.autograd.graph.GradientEdge`) in place of a tensor."""
    return (
        not isinstance(value, TensorBase)
        and hasattr(value, "output_nr")
        and hasattr(value, "_fields")
    )


def _edge_geometry(edge):
    """The geometry of what an edge's node gives, or None if it does not say."""
    return edge.node._ftorch_geometry_of(edge.output_nr)


def _edge_grad(edge, grad, i, is_batched):
    """The gradient to start with at an edge."""
    g = _edge_geometry(edge)
    if grad is not None:
        if g is not None and is_batched and tuple(grad[0].shape) != tuple(g.shape):
            raise RuntimeError("Batched grads are not supported with GradientEdge")
        if g is not None:
            _check_like(grad, g, i, is_batched)
        return grad
    if g is None or g.numel != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return gradient_values.ones(g)


def _ones_like(out):
    if out.__class__ in DISPATCHING or hooks.python is not None or any(level.sees_aten for level in modes.levels):
        if hooks.first_gradient is not None:
            return hooks.first_gradient(out)
        return api.ones_like(out)
    return gradient_values.ones(out._ftorch_geometry)


def make_grads(outputs, grads, is_batched=False):
    """The gradients to start with; ones for scalars.

    Raises:
        RuntimeError: for missing or misshapen ones, in PyTorch's words.
    """
    made = []
    for i, (out, grad) in enumerate(zip(outputs, grads)):
        if is_edge(out):
            made.append(_edge_grad(out, grad, i, is_batched))
            continue
        if grad is None:
            if not is_in_graph(out):
                made.append(None)
                continue
            if out.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if not out.dtype.is_floating_point:
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
                )
            made.append(_ones_like(out))
            continue
        if not hasattr(grad, "_ftorch_geometry"):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(grad).__name__}"
            )
        if is_batched:
            own = grad[0].shape
            if tuple(own) != tuple(out.shape):
                raise RuntimeError(_BATCHED.format(i, own[1:], out.shape))  # PyTorch takes one off too many, too
        _check_like(grad, out, i, is_batched)
        made.append(grad)
    return made


_BATCHED = (
    "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of "
    "the remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
    "grad_output[{0}] has a shape of {1} and output[{0}] has a shape of {2}. If you only want some tensors in `grad_output` "
    "to be considered batched, consider using vmap."
)


def _check_like(grad, out, i, is_batched=False):
    """Raises PyTorch's errors for a gradient that is not one of an output: a tensor or a geometry."""
    if not is_batched and tuple(grad.shape) != tuple(out.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {grad.shape} and output[{i}] "
            f"has a shape of {out.shape}."
        )
    if out.dtype.is_complex != grad.dtype.is_complex:
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same "
            f"dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {grad.dtype} and "
            f"output[{i}] has a dtype of {out.dtype}."
        )
