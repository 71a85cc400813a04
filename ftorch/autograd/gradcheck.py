"""``gradcheck``: derivatives compared with finite differences."""

from __future__ import annotations

import functools
import warnings

import numpy as np

from ..eager.autograd.backward import grad as _grad
from ..eager.call.elements import elements as _elements
from ..eager.call.op import hooks
from ..eager.core import api as torch
from ..eager.core.formats import sparse_bsc, sparse_bsr, sparse_coo, strided
from ..eager.dispatch.levels import Wrapped
from ..eager.tensor import TensorBase, new_leaf
from . import _finite_differences as differences
from ._finite_differences import _get_numerical_jacobian, _iter_tensors, is_inexact  # noqa: F401
from ._jacobians import (  # noqa: F401
    _as_tuple,
    _differentiable_outputs,
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
)
from .grad_mode import enable_grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
    "gives different values, although analytical gradient matches numerical gradient.The tolerance "
    "for nondeterminism was {}."
)
_BATCHED = "gradcheck or gradgradcheck failed while testing batched gradient computation."
_FAST_NOTE = """

The above quantities relating the numerical and analytical jacobians are computed 
in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background 
about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:

Numerical:
 {}
Analytical:
{}

The max per-element difference (slow mode) is: {}.
"""  # noqa: W291


_UNDEFINED_NOTES = (
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)
_UNDEFINED_IS_CHECKED = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break existing "
    "callers of this function. If this is true for you, you can call this function with \"check_undefined_grad=False\" to "
    "disable the feature"
)


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences."""


# --- backward ------------------------------------------------------------------------


def _pull(output, t, weights):
    """The gradient of one output for one input as an array, or None."""
    if not output.requires_grad:
        return None
    grads = _grad(
        (output,), (t,), (torch.from_numpy(np.asarray(weights)).to(output.dtype),), retain_graph=True,
        allow_unused=True,
    )
    return grads[0] if grads[0] is None or grads[0].layout is strided else grads[0].to_dense()


def _analytical(output, t, factor, check_dtypes):
    jacobian = np.zeros(
        (t.numel(), output.numel()), np.complex128 if t.is_complex() else np.float64
    )
    kind = np.complex128 if output.is_complex() else np.float64
    for j in range(output.numel()):
        weights = np.zeros(output.shape, kind)
        weights.reshape(-1)[j] = factor
        grad = _pull(output, t, weights)
        if grad is None:
            continue
        if grad.shape != t.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
        if check_dtypes and grad.dtype is not t.dtype:
            raise GradcheckError("Gradient has dtype mismatch")
        values = np.asarray(_elements(grad.detach())).reshape(-1)
        jacobian[:, j] = values if t.is_complex() else values.real
    return jacobian


def _close(a, b, rtol, atol):
    return bool(np.all(np.isclose(a, b, rtol=rtol, atol=atol)))


def _mismatch(analytical, numerical, output_index, input_index, complex_text="", fast=False, kind="", kinds=(None, None)):
    shown = (numerical, analytical) if fast else (_shown(numerical, kinds[0]), _shown(analytical, kinds[1]))
    return (
        f"{complex_text}Jacobian {kind}mismatch for output {output_index} with respect to input "
        f"{input_index},\nnumerical:{shown[0]}\nanalytical:{shown[1]}\n"
    )


def _shown(array, dtype=None):
    return repr(torch.from_numpy(np.array(array)).to(dtype))


def _shown_dtypes(t, output):
    """The dtypes in which PyTorch shows what differences and what backward gave for an input and an output."""
    real = output.detach().real if output.is_complex() else output
    return (t if t.is_complex() else real).dtype, t.dtype


def _check_layout(grad, t):
    """Raises `GradcheckError` for a sparse gradient of something of another layout."""
    if grad.layout is not t.layout:
        raise GradcheckError(f"grad is incorrect layout ({grad.layout} is not {t.layout})")
    if grad.layout is sparse_coo:
        for what in ("sparse_dim", "dense_dim"):
            found, wanted = getattr(grad, what)(), getattr(t, what)()
            if found != wanted:
                raise GradcheckError(f"grad is sparse tensor, but has incorrect {what} {found}, expected {wanted}")


def _without_gradient(output):
    """An output whose gradient does not arrive."""
    from ._ending import UndefinedGrad

    return UndefinedGrad()(output)


_IMAGINARY = "While considering the imaginary part of complex outputs only, "
_INPUTS = "While considering the {} part of complex inputs only, "


class _Check:
    """One gradcheck: the function, its inputs, the tolerances."""

    def __init__(self, func, inputs, eps, rtol, atol, nondet_tol, check_dtypes):
        self.func, self.inputs, self.eps = func, inputs, eps
        self.rtol, self.atol = rtol, atol
        self.nondet_tol, self.check_dtypes = nondet_tol, check_dtypes
        self.differentiated = [
            (i, t) for i, t in enumerate(inputs) if isinstance(t, TensorBase) and t.requires_grad
        ]

    def outputs(self):
        with enable_grad():
            return differences.outputs(self.func, self.inputs)

    def parts(self, outputs):
        """(what to take of an output, the gradient's factor, the message's beginning)."""
        if any(o.is_complex() for o in outputs):
            return [(np.imag, 1j, _IMAGINARY), (np.real, 1, "")]
        return [(lambda d: d, 1, "")]

    def check_independent(self, outputs):
        """Outputs outside the graph: their differences must be zero."""
        for position, t in self.differentiated:
            for jacobian in differences.numerical(self.func, self.inputs, t, outputs, self.eps, lambda d: d):
                if np.any(np.abs(jacobian) > self.atol):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    def slow(self, outputs):
        for part, factor, text in self.parts(outputs):
            for position, t in self.differentiated:
                numerical = differences.numerical(self.func, self.inputs, t, outputs, self.eps, part)
                for number, output in enumerate(outputs):
                    if factor == 1j and not output.is_complex():
                        continue
                    analytical = _analytical(output, t, factor, self.check_dtypes)
                    if not _close(analytical, numerical[number], self.rtol, self.atol):
                        raise GradcheckError(
                            _mismatch(analytical, numerical[number], number, position, text, kinds=_shown_dtypes(t, output))
                        )
                    again = _analytical(output, t, factor, self.check_dtypes)
                    if not _close(again, analytical, 0.0, self.nondet_tol):
                        raise GradcheckError(_NOT_REENTRANT.format(self.nondet_tol))

    def fast(self, outputs):
        """Compares ``v J u`` for random u, v instead of the whole Jacobian J."""
        generator = np.random.RandomState(0)

        def vector(shape, is_complex):
            v = generator.uniform(0.1, 1.0, shape)
            if is_complex:
                v = v + 1j * generator.uniform(0.1, 1.0, shape)
            return v / max(np.linalg.norm(v), 1e-12)

        for part, factor, text in self.parts(outputs):
            for position, t in self.differentiated:
                u = vector(t.shape, t.is_complex())
                real = self._along(t, u.real, part)
                imaginary = self._along(t, 1j * u.imag, part) if t.is_complex() else None
                for number, output in enumerate(outputs):
                    if factor == 1j and not output.is_complex():
                        continue
                    v = vector(output.shape, False)
                    numerical = float((real[number] * v).sum())
                    if imaginary is not None:
                        numerical += float((imaginary[number] * v).sum())
                    kind = np.complex128 if output.is_complex() else np.float64
                    grad = _pull(output, t, (v * factor).astype(kind))
                    g = 0.0 if grad is None else np.asarray(_elements(grad.detach()))
                    if grad is not None and self.check_dtypes and grad.dtype is not t.dtype:
                        raise GradcheckError("Gradient has dtype mismatch")
                    analytical = float(np.real(np.conj(u) * g).sum())
                    if not _close(analytical, numerical, self.rtol, self.atol):
                        raise GradcheckError(
                            _mismatch(analytical, numerical, number, position, text, fast=True)
                            + self._slow_note(outputs, number, t, part, factor)
                        )
                    again = _pull(output, t, (v * factor).astype(kind))
                    if grad is not None and not _close(_elements(again.detach()), g, 0.0, self.nondet_tol):
                        raise GradcheckError(_NOT_REENTRANT.format(self.nondet_tol))

    def _along(self, t, direction, part):
        return [part(d) for d in differences.difference(self.func, self.inputs, t, direction, self.eps)]

    def _slow_note(self, outputs, number, t, part, factor):
        numerical = differences.numerical(self.func, self.inputs, t, outputs, self.eps, part)[number]
        analytical = _analytical(outputs[number], t, factor, False)
        worst = float(np.abs(numerical - analytical).max())
        kinds = _shown_dtypes(t, outputs[number])
        return _FAST_NOTE.format(_shown(numerical, kinds[0]), _shown(analytical, kinds[1]), worst).lstrip("\n")

    def check_scaled(self, outputs, masked):
        """Backward must give zeros for zeros: gradients of the layout, dtype, device and size of what they are of."""
        tensors = [t for _, t in self.differentiated]
        wanted = [o for o in outputs if o.requires_grad]
        if not wanted:
            return
        grads = _grad(
            wanted, tensors, [torch.zeros_like(o) for o in wanted], retain_graph=True,
            allow_unused=True,
        )
        found = [(g, t) for g, t in zip(grads, tensors) if g is not None]
        if not found:
            raise GradcheckError("no Tensors requiring grad found in input")
        for g, t in found:
            if g.layout is not strided:
                _check_layout(g, t)
                g, t = g.to_dense(), t.to_dense()
            if bool(((g.abs() > 1e-8) if masked else (g != 0)).any()):
                raise GradcheckError("backward not multiplied by grad_output")
            if g.dtype is not t.dtype:
                raise GradcheckError("grad is incorrect type")
            if g.device != t.device:
                raise GradcheckError("grad is incorrect device")
            if g.size() != t.size():
                raise GradcheckError("grad is incorrect size")

    def check_undefined(self):
        """Backward must take outputs that have no gradient: it gives none then, or zeros."""
        outputs = [o for o in self.outputs() if o.requires_grad]
        tensors = [t for _, t in self.differentiated]
        each = [{i} for i in range(len(outputs))] if len(outputs) > 1 else []
        for undefined in (set(range(len(outputs))), *each):
            started = [_without_gradient(o) if i in undefined else o for i, o in enumerate(outputs)]
            try:
                grads = _grad(started, tensors, [torch.zeros_like(o) for o in started], retain_graph=True, allow_unused=True)
            except RuntimeError as error:
                warnings.warn(_UNDEFINED_IS_CHECKED, stacklevel=3)
                text = f"Expected backward function to handle undefined output grads. {_UNDEFINED_NOTES}"
                raise GradcheckError(text) from error
            for g, t in zip(grads, tensors):
                if g is not None and bool((g != 0).any()):
                    warnings.warn(_UNDEFINED_IS_CHECKED, stacklevel=3)
                    raise GradcheckError(
                        "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
                        + _UNDEFINED_NOTES
                    )

    def check_batched(self, outputs):
        """Gradients of a batch at once must be those one by one."""
        for _, t in self.differentiated:
            for output in outputs:
                if not output.requires_grad:
                    continue
                batch = torch.stack([torch.randn_like(output) for _ in range(2)])
                one_by_one = [
                    _grad((output,), (t,), (b,), retain_graph=True, allow_unused=True)[0]
                    for b in batch.unbind()
                ]
                if one_by_one[0] is None:
                    continue
                try:
                    (found,) = _grad(
                        (output,), (t,), (batch,), retain_graph=True, allow_unused=True,
                        is_grads_batched=True,
                    )
                except RuntimeError as error:
                    raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED}") from error
                if not torch.allclose(found, torch.stack(one_by_one)):
                    raise GradcheckError(f"{_BATCHED}\n\nGot:\n{found}\n\nExpected:\n{torch.stack(one_by_one)}")

    def check_forward(self, fast):
        """Forward mode must agree with finite differences: along each element, or (``fast``) one random direction."""
        generator = np.random.RandomState(0)  # the user's random numbers stay what they are
        for position, t in self.differentiated:
            if fast:
                parts = [generator.uniform(0.1, 1.0, t.shape) for _ in range(1 + t.is_complex())]
                self.compare_forward(position, t, [parts[0] + 1j * parts[1] if t.is_complex() else parts[0]])
                continue
            complex_units = (1j, _INPUTS.format("imaginary")), (1, _INPUTS.format("real"))
            for unit, text in complex_units if t.is_complex() else ((1, ""),):
                self.compare_forward(position, t, [differences.unit(t, i, unit) for i in range(t.numel())], text)

    def compare_forward(self, position, t, directions, text=""):
        """Compares the outputs' changes along directions: a row of the Jacobian for each."""
        pairs = [self.along_forward(position, t, direction.astype(t.dtype.numpy)) for direction in directions]
        for number, rows in enumerate(zip(*(zip(*pair) for pair in pairs))):
            analytical, numerical = (np.stack([np.ravel(row[side]) for row in rows]) for side in (0, 1))
            if not _close(analytical, numerical, self.rtol, self.atol):
                kind = "computed with forward mode "
                raise GradcheckError(_mismatch(analytical, numerical, number, position, text, kind=kind))

    def along_forward(self, position, t, direction):
        """(what forward mode says, what differences say) of each output's change."""
        from . import forward_ad

        with forward_ad.dual_level():
            given = list(self.inputs)
            for i, other in self.differentiated:
                tangent = torch.from_numpy(direction) if i == position else torch.zeros_like(other.detach())
                given[i] = forward_ad.make_dual(other.detach(), tangent)
            unpacked = [forward_ad.unpack_dual(o) for o in differences.outputs(self.func, given)]
            found = [np.zeros(tuple(p.shape)) if d is None else _elements(d.detach()) for p, d in unpacked]
        return found, differences.difference(self.func, self.inputs, t, direction, self.eps)

    def check_batched_forward(self):
        """Forward mode along several directions at once must agree with one by one."""
        from . import forward_ad

        for position, t in self.differentiated:

            def along(tangent, position=position, t=t):
                with forward_ad.dual_level():
                    given = [i.detach() if isinstance(i, TensorBase) else i for i in self.inputs]
                    given[position] = forward_ad.make_dual(t.detach(), tangent)
                    unpacked = [forward_ad.unpack_dual(o) for o in differences.tensors(self.func(*given))]
                    return tuple(p.new_zeros(()).expand(p.shape) if d is None else d for p, d in unpacked)

            directions = [torch.randn_like(t.detach()) for _ in range(2)]
            expected = [torch.stack(parts) for parts in zip(*map(along, directions))]
            try:
                found = hooks.vmap(along)(torch.stack(directions))
            except RuntimeError as error:
                raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED}") from error
            for f, e in zip(found, expected):
                if not torch.allclose(f, e):
                    raise GradcheckError(f"{_BATCHED}\n\nGot:\n{f}\n\nExpected:\n{e}")


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
              check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True,
              fast_mode=False, masked=None) -> bool:
    """Compares the derivatives of a function with finite differences.

    Args:
        func: takes tensors; its result is a tensor or tuple of tensors.
        inputs: what to call it with; those that require grad are varied. They should be double.
        eps: the step of the differences. atol, rtol: how close the derivatives must be.
        raise_exception: False returns False instead.
        nondet_tol: how far two runs of backward may differ.
        check_batched_grad: also compare gradients of a batch (``vmap``).
        check_forward_ad: also check forward mode. check_backward_ad: check reverse mode.
        fast_mode: compare one random product with the Jacobian instead of all of it.
        masked: vary a sparse input only where it has elements. Otherwise the differences see all places,
            so that they differ from gradients that exist at the elements only.
        check_batched_forward_grad: also compare forward mode along several directions at once.
        check_undefined_grad: also run backward where outputs have no gradient.

    Raises:
        GradcheckError: if they differ. ValueError: if no input requires grad. AssertionError: a batch is to be
            compared in a mode that is not checked.

    >>> import ftorch as torch
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(lambda x: x.sin() * x, x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    plain, given = func, inputs
    func, inputs = _of_dense(func, inputs, bool(masked))
    _check_inputs(inputs)
    check = _Check(func, inputs, eps, rtol, atol, nondet_tol, check_grad_dtypes)
    try:
        outputs = check.outputs()
        if not any(o.requires_grad for o in outputs):
            check.check_independent(outputs)
            return True
        if check_backward_ad:
            (check.fast if fast_mode else check.slow)(outputs)
        if check_forward_ad:
            check.check_forward(fast_mode)
            if check_batched_forward_grad:
                check.check_batched_forward()
        if check_backward_ad:
            if check_batched_grad:
                check.check_batched(outputs)
            whole = check if given is inputs else _Check(plain, given, eps, rtol, atol, nondet_tol, check_grad_dtypes)
            whole.check_scaled(outputs if whole is check else whole.outputs(), masked)
            if check_undefined_grad:
                whole.check_undefined()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _of_dense(func, inputs, masked):
    """A function of dense tensors in the place of sparse inputs, with dense results; and those inputs."""
    patterns = {
        i: t for i, t in enumerate(inputs)
        if isinstance(t, TensorBase) and t.requires_grad and t.layout is not strided
    }

    def sparse(i, x):
        if i not in patterns:
            return x
        if masked or not differences.running.inside:
            return x.sparse_mask(patterns[i].detach())
        pattern = patterns[i].detach()
        block = {"blocksize": tuple(pattern.values().shape[1:3])} if pattern.layout in (sparse_bsr, sparse_bsc) else {}
        return x.to_sparse(layout=pattern.layout, **block)

    @functools.wraps(func, assigned=())
    def of_dense(*args):
        out = func(*(sparse(i, x) for i, x in enumerate(args)))
        many = out if isinstance(out, (tuple, list)) else (out,)
        return tuple(
            o.to_dense() if isinstance(o, TensorBase) and o.layout is not strided else o
            for o in many
        )

    if not patterns:
        return func, inputs
    return of_dense, tuple(
        t.detach().to_dense().requires_grad_() if i in patterns else t for i, t in enumerate(inputs)
    )


def _check_inputs(inputs):
    found = False
    for i, t in enumerate(inputs):
        if not (isinstance(t, TensorBase) and t.requires_grad):
            continue
        found = True
        if str(t.dtype) not in ("torch.float64", "torch.complex128"):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double precision "
                "floating point or complex. ",
                stacklevel=3,
            )
        if any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                "are non-overlapping to be able to compute the numerical gradients correctly. You "
                "should call .contiguous on the input before passing it to gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
                  gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
                  check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False,
                  masked=False) -> bool:
    """`gradcheck` of a function's gradients: compares second derivatives.

    Args:
        grad_outputs: the gradients of the outputs; random ones by default.
        check_fwd_over_rev: also by forward mode of backward.

    >>> import ftorch as torch
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(lambda x: x.sin() * x, x)
    True
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if grad_outputs is None:
        with enable_grad():
            outputs = differences.outputs(func, inputs)
        grad_outputs = tuple(
            torch.randn_like(o.detach()).requires_grad_() for o in outputs if o.requires_grad
        )
    else:
        grad_outputs = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (
            grad_outputs,)
    count = len(grad_outputs)

    @functools.wraps(func, assigned=())
    def gradients(*args):
        given = args[: len(args) - count]
        given = tuple(
            new_leaf(t._ftorch_level.alias(t) if isinstance(t, Wrapped) else t.detach())
            if isinstance(t, TensorBase) and is_inexact(t) and not t.requires_grad and
            o.requires_grad else t
            for t, o in zip(given, inputs)
        )
        with enable_grad():
            outputs = tuple(o for o in differences.outputs(func, given) if o.requires_grad)
            varied = tuple(t for t in given if isinstance(t, TensorBase) and t.requires_grad)
            found = _grad(
                outputs, varied, args[len(args) - count :], create_graph=True, allow_unused=True
            )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
    )
