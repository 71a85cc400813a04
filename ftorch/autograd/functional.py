"""Derivatives of functions (``torch.autograd.functional``): ``jacobian``, ``hessian``, products."""

from __future__ import annotations

from ..eager.autograd.backward import grad as _grad
from ..eager.core import api as torch
from ..eager.tensor import TensorBase, modes
from .grad_mode import enable_grad, set_grad_enabled

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


# --- arguments and results -----------------------------------------------------------


def _as_tuple(inp, arg_name=None, fn_name=None):
    """(whether it was a tuple, the tuple); without names for an error the tuple alone, of anything.

    Raises:
        TypeError: for anything but tensors and tuples of tensors.
    """
    if arg_name is None and fn_name is None:
        return _as_tuple_nocheck(inp)
    if isinstance(inp, TensorBase):
        return False, (inp,)
    text = f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the "
    if not isinstance(inp, tuple):
        raise TypeError(f"{text}given {arg_name} has type {type(inp)}.")
    for i, item in enumerate(inp):
        if not isinstance(item, TensorBase):
            raise TypeError(f"{text}value at index {i} has type {type(item)}.")
    return True, inp


def _as_tuple_nocheck(x):
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def _grad_preprocess(inputs, create_graph, need_graph):
    """Inputs to differentiate with respect to, connected to the given ones if a graph is wanted."""
    return tuple(
        t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_(need_graph)
        for t in inputs
    )


def _grad_postprocess(inputs, create_graph):
    """Results, or tuples of them, as they are returned: detached unless a graph is wanted."""
    if create_graph:
        return inputs
    return tuple(t.detach() if isinstance(t, TensorBase) else _grad_postprocess(t, create_graph) for t in inputs)


def _tuple_postprocess(res, to_unpack):
    """A tuple, or what is alone in it; with two answers the second one is for the tuples inside."""
    is_tuple, *inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack,)
    if inner and not inner[0]:
        res = tuple(block[0] for block in res)
    return res if is_tuple else res[0]


def _result(value, is_tuple, create_graph):
    return _tuple_postprocess(_grad_postprocess(value, create_graph), is_tuple)


def _construct_standard_basis_for(tensors, tensor_numels):
    """The unit vectors of all tensors' elements together, cut by tensor: each of shape (all elements, its own)."""
    total, before, bases = sum(tensor_numels), 0, []
    for t, count in zip(tensors, tensor_numels):
        basis = t.new_zeros((total, count))
        basis.diagonal(-before).fill_(1)
        bases.append(basis)
        before += count
    return tuple(bases)


def _single(outputs, is_tuple, function):
    if is_tuple:
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {function} should contain a single element"
        )


def _check_v(v, targets, targets_are_tuple, function):
    """v as a tuple of the targets' shapes."""
    is_tuple, v = _as_tuple(v, "v", function)
    if len(v) != len(targets):
        if targets_are_tuple:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(targets)} but got {len(v)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (given, target) in enumerate(zip(v, targets)):
        if given.size() != target.size():
            prefix = f"Entry {i} in " if len(targets) > 1 else ""
            raise RuntimeError(
                f"{prefix}v has invalid size: should be {target.size()} but got {given.size()}."
            )
    return tuple(t.detach() if not t.requires_grad or not modes.grad else t for t in v)


def _autograd_grad(outputs, inputs, grad_outputs=None, create_graph=False, retain_graph=None, is_grads_batched=False):
    """Gradients of the outputs that require them; None where there are none."""
    if grad_outputs is None:
        grad_outputs = (None,) * len(outputs)
    pairs = [
        (o, g) for o, g in zip(outputs, grad_outputs) if o is not None and o.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    outs, grads = zip(*pairs)
    return _grad(
        outs, inputs, grads, allow_unused=True, create_graph=create_graph, retain_graph=retain_graph,
        is_grads_batched=is_grads_batched,
    )


# What strict mode says where a derivative does not depend on something.
_INDEPENDENT = (
    "The output of the user-provided function is independent of input {}. This is not allowed in "
    "strict mode."
)
_INDEPENDENT_OUTPUT = (
    "Output {} of the user-provided function is independent of input {}. This is not allowed in strict mode."
)
_INDEPENDENT_GRADIENT = (
    "The gradient with respect to input {} is independent of the inputs of the user-provided "
    "function. This is not allowed in strict mode."
)
_LINEAR = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect "
    "to input {} is independent of the input. This is not allowed in strict mode. You should ensure "
    "that your function is twice differentiable and that the jacobian depends on the inputs (this "
    "would be violated by a linear function for example)."
)
_CONSTANT_JACOBIAN = (
    "The jacobian of the user-provided function is independent of input {}. This is not allowed in "
    "strict mode when create_graph=True."
)
_CONSTANT_OUTPUT = (
    "Output {} of the user-provided function does not require gradients. The outputs must be computed "
    "in a differentiable manner from the input when running in strict mode."
)


def _require(values, strict, text, missing=None):
    """Raises ``text`` in strict mode where a value is outside the graph or, unless there is a text for that, missing."""
    if strict:
        for i, t in enumerate(values):
            if t is None or not t.requires_grad:
                raise RuntimeError((text if t is not None or missing is None else missing).format(i))


def _filled(grads, like, strict, text, *names):
    """Zeros for missing gradients; in strict mode they raise."""
    filled = []
    for i, (g, t) in enumerate(zip(grads, like)):
        if g is None:
            if strict:
                raise RuntimeError(text.format(*names, i))
            g = torch.zeros_like(t)
        filled.append(g)
    return tuple(filled)


# --- products ------------------------------------------------------------------------


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, vector times Jacobian).

    Args:
        func: takes tensors and returns a tensor or a tuple of them.
        v: one vector per output; may be None for a single number.
        create_graph: whether results can be differentiated.
        strict: raise where a result does not depend on an input.

    >>> import ftorch as torch
    >>> torch.autograd.functional.vjp(lambda x: x ** 2, torch.ones(2), torch.tensor([1.0, 2.0]))
    (tensor([1., 1.]), tensor([2., 4.]))
    """
    is_recording = create_graph or modes.grad
    with enable_grad():
        inputs_are_tuple, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _grad_preprocess(inputs, create_graph, need_graph=True)
        outputs_are_tuple, outputs = _as_tuple(
            func(*inputs), "outputs of the user-provided function", "vjp"
        )
        _require(outputs, strict, _CONSTANT_OUTPUT)
        if v is not None:
            v = _check_v(v, outputs, outputs_are_tuple, "vjp")
        elif len(outputs) != 1 or outputs[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor "
                "with a single element."
            )
    with set_grad_enabled(is_recording):
        grads = _autograd_grad(outputs, inputs, v, create_graph)
        product = _filled(grads, inputs, strict, _INDEPENDENT)
        if create_graph:
            _require(product, strict, _CONSTANT_JACOBIAN)
    return (
        _result(outputs, outputs_are_tuple, create_graph),
        _result(product, inputs_are_tuple, create_graph),
    )


def _vector_of_inputs(v, inputs, are_tuple, function):
    if v is not None:
        return _check_v(v, inputs, are_tuple, function)
    if len(inputs) != 1 or inputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single "
            "Tensor with a single element."
        )
    return tuple(torch.ones_like(t) for t in inputs)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, Jacobian times vector), by going backward twice; see `vjp` for the arguments.

    >>> import ftorch as torch
    >>> torch.autograd.functional.jvp(lambda x: x ** 2, torch.ones(2), torch.tensor([1.0, 2.0]))
    (tensor([1., 1.]), tensor([2., 4.]))
    """
    with enable_grad():
        inputs_are_tuple, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _grad_preprocess(inputs, create_graph, need_graph=True)
        v = _vector_of_inputs(v, inputs, inputs_are_tuple, "jvp")
        outputs_are_tuple, outputs = _as_tuple(
            func(*inputs), "outputs of the user-provided function", "jvp"
        )
        _require(outputs, strict, _CONSTANT_OUTPUT)
        # The vector-Jacobian product is linear in its vector: its derivative is the Jacobian.
        weights = tuple(torch.zeros_like(o, requires_grad=True) for o in outputs)
        grads = _autograd_grad(outputs, inputs, weights, create_graph=True)
        _require(grads, strict, _INDEPENDENT)
        found = _autograd_grad(grads, weights, v, create_graph=create_graph)
        product = _filled(found, outputs, strict, _INDEPENDENT_GRADIENT)
        if create_graph:
            _require(product, strict, _CONSTANT_JACOBIAN)
    return (
        _result(outputs, outputs_are_tuple, create_graph),
        _result(product, outputs_are_tuple, create_graph),
    )


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, vector times Hessian) of a function with one number as its result; see `vjp`."""
    with enable_grad():
        inputs_are_tuple, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _grad_preprocess(inputs, create_graph, need_graph=True)
        v = _vector_of_inputs(v, inputs, inputs_are_tuple, "vhp")
        is_tuple, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", "vhp")
        _require(outputs, strict, _CONSTANT_OUTPUT)
        _single(outputs, is_tuple, "vhp")
        jacobian_rows = _autograd_grad(outputs, inputs, create_graph=True)
        _require(jacobian_rows, strict, _LINEAR, _INDEPENDENT)
        found = _autograd_grad(jacobian_rows, inputs, v, create_graph=create_graph)
        product = _filled(found, inputs, strict, _INDEPENDENT)
    return _result(outputs, False, create_graph), _result(product, inputs_are_tuple, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, Hessian times vector) of a function with one number as its result; see `vjp`.

    `vhp` gives the same for functions with continuous derivatives, at half the cost.
    """
    with enable_grad():
        inputs_are_tuple, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _grad_preprocess(inputs, create_graph, need_graph=True)
        v = _vector_of_inputs(v, inputs, inputs_are_tuple, "hvp")
        is_tuple, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", "hvp")
        _require(outputs, strict, _CONSTANT_OUTPUT)
        _single(outputs, is_tuple, "hvp")
        jacobian_rows = _autograd_grad(outputs, inputs, create_graph=True)
        _require(jacobian_rows, strict, _LINEAR, _INDEPENDENT)
        weights = tuple(torch.zeros_like(t, requires_grad=True) for t in inputs)
        twice = _autograd_grad(jacobian_rows, inputs, weights, create_graph=True)
        _require(twice, strict, _INDEPENDENT)
        found = _autograd_grad(twice, weights, v, create_graph=create_graph)
        product = _filled(found, inputs, strict, _INDEPENDENT)
    return _result(outputs, False, create_graph), _result(product, inputs_are_tuple, create_graph)


# --- whole matrices ------------------------------------------------------------------


def _check_strategy(strategy, vectorize, hint):
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f'Expected strategy to be either "forward-mode" or "reverse-mode".{hint}'
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented "
            "for `vectorize=True`."
        )


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False,
             strategy="reverse-mode"):
    """All derivatives of all outputs with respect to all inputs.

    Args:
        vectorize: compute all rows at once, by ``vmap``.
        strategy: "reverse-mode", or (vectorized) "forward-mode".
        create_graph, strict: see `vjp`.

    Returns: a tensor of shape (*output, *input); tuples of them (outer: outputs) where there are
        several.

    >>> import ftorch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x ** 2, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy(
        strategy, vectorize,
        " Hint: If your function has more outputs than inputs, \"forward-mode\" tends to be more "
        "performant. Otherwise, prefer to use \"reverse-mode\".",
    )
    inputs_are_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, inputs_are_tuple, create_graph)
    with enable_grad():
        inputs = _grad_preprocess(inputs, create_graph, need_graph=True)
        outputs_are_tuple, outputs = _as_tuple(
            func(*inputs), "outputs of the user-provided function", "jacobian"
        )
        _require(outputs, strict, _CONSTANT_OUTPUT)
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together. Please either set `strict=False` or `vectorize=False`."
            )
        rows = _batched_rows if vectorize else _rows
        blocks = tuple(rows(o, inputs, create_graph, strict, i) for i, o in enumerate(outputs))
    return _result(blocks, (outputs_are_tuple, inputs_are_tuple), create_graph)


def _rows(output, inputs, create_graph, strict, place):
    """The Jacobian of one output, the one at ``place``, row by row."""
    rows = []
    for number in output.reshape(-1).unbind():
        if not output.requires_grad:
            grads = (None,) * len(inputs)
        else:
            grads = _grad(
                (number,), inputs, retain_graph=True, create_graph=create_graph, allow_unused=True
            )
        grads = _filled(grads, inputs, strict, _INDEPENDENT_OUTPUT, place)
        if strict and create_graph:
            _require(grads, strict, _CONSTANT_JACOBIAN)
        rows.append(grads)
    if not rows:
        return tuple(t.new_zeros((*output.shape, *t.shape)) for t in inputs)
    return tuple(
        torch.stack(column).view((*output.shape, *t.shape))
        for column, t in zip(zip(*rows), inputs)
    )


def _batched_rows(output, inputs, create_graph, strict, place):
    """The Jacobian of one output, all rows at once."""
    if not output.requires_grad:
        return tuple(t.new_zeros((*output.shape, *t.shape)) for t in inputs)
    count = output.numel()
    (basis,) = _construct_standard_basis_for((output,), (count,))
    grads = _autograd_grad(
        (output,), inputs, (basis.view((count, *output.shape)),), create_graph, retain_graph=True, is_grads_batched=True
    )
    return tuple(
        t.new_zeros((*output.shape, *t.shape)) if g is None else g.view((*output.shape, *t.shape))
        for g, t in zip(grads, inputs)
    )


def _forward_jacobian(func, inputs, inputs_are_tuple, create_graph):
    from ..eager.transforms.forward import jacfwd
    from ..utils import _pytree as pytree

    if not create_graph:
        inputs = tuple(t.detach() for t in inputs)
    found = jacfwd(func, argnums=tuple(range(len(inputs))))(*inputs)
    if not inputs_are_tuple:  # innermost: one per input
        has_several_outputs = isinstance(found[0], tuple)
        found = tuple(block[0] for block in found) if has_several_outputs else found[0]
    return found if create_graph else pytree.tree_map(lambda t: t.detach(), found)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False,
            outer_jacobian_strategy="reverse-mode"):
    """All second derivatives of a function with one number as its result; see `jacobian`.

    >>> import ftorch as torch
    >>> torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    inputs_are_tuple, inputs = _as_tuple(inputs, "inputs", "hessian")
    _check_strategy(outer_jacobian_strategy, vectorize, "")

    def checked(*given):
        output = func(*given)
        is_tuple, outputs = _as_tuple(output, "outputs of the user-provided function", "hessian")
        _require(outputs, strict, _CONSTANT_OUTPUT)
        _single(outputs, is_tuple, "hessian")
        return output.reshape(())

    def first(*given):
        if outer_jacobian_strategy == "forward-mode":
            from ..eager.transforms.eager_transforms import jacrev

            return jacrev(checked, argnums=tuple(range(len(given))))(*given)
        found = jacobian(checked, given, create_graph=True)
        if strict:
            _require(found, strict, _LINEAR)
        return found

    found = jacobian(
        first, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return found if inputs_are_tuple else found[0][0]
