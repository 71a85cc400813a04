"""``torch.rand``, ``torch.randn``, ``torch.randint``, ``torch.normal``, ``torch.multinomial``, ...

New tensors of random numbers; `random_inplace` fills existing ones. Both give PyTorch's numbers.
"""

from __future__ import annotations

import math

import numpy as np

from .. import sampling
from ..autograd.tape import rename_node
from ..autograd.unregistered import refuse_gradients
from ..call.op import call, hooks, op_named, special, to_numpy
from ..core import api as torch
from ..core import device as devices
from ..core import dtype as dtypes
from ..core import formats
from ..core.composite import composite
from ..dispatch.randomness import ELEMENT, LIKE, NEW, ROWS, randomized
from ..kernels._common import check_fits
from ..memory import host_memory
from ..runtime import capture_trace
from ..tensor import TensorBase, modes, new_leaf
from . import random_inplace as fills
from ._arguments import integer, mismatch, sizes
from .creation import _dtype_with_out, check_layout, check_options
from .random_inplace import FLOATS, check_generator, draw, drawn_like, tensor_of

_SINGLE_OR_DOUBLE = (dtypes.float32, dtypes.float64)


@randomized(NEW)
def _new(name, shape, sampler, args, *, generator, out, dtype, layout, device, requires_grad,
         check=None, default=None):
    """A new tensor of what ``sampler(generator, shape, *args, dtype)`` draws."""
    check_generator(name, generator)
    dtype = _dtype_with_out(name, dtype, out, device) or default or dtypes.get_default_dtype()
    if check is not None:
        check(dtype)
    check_layout(layout, out)
    if layout is not None or requires_grad:
        check_options(name, dtype, layout, requires_grad)
    where = devices.resolve(out.device if out is not None else device)
    if where is devices.META:
        array = np.broadcast_to(np.zeros((), dtype.numpy), shape)
        made = tensor_of(array, where, requires_grad)
        if out is not None:
            hooks.write_made(name, made, out)
        return made if out is None else out
    host_memory.check(shape, dtype)

    def make():
        array = draw(generator, where, sampler, shape, *args, dtype.numpy)
        if dtype.stored:
            return new_leaf(tensor_of(array, where).to(dtype), requires_grad)
        return tensor_of(array, where, requires_grad)

    result = fills.replayable(make)
    if out is None:
        return result
    hooks.write_made(name, result, out)
    return out


def _into(out, result):
    if out is None:
        return result
    hooks.write_out(None, result, out)
    return out


def _check_uniform(dtype):
    if dtype.to_real() not in FLOATS:
        raise fills.unsupported("check_uniform_bounds", dtype)


@composite()
def rand(*sizes_, size=None, generator=None, out=None, dtype=None, layout=None, device=None,
         pin_memory=False, requires_grad=False):
    """Numbers uniform on [0, 1) (``torch.rand``).

    Args:
        sizes_: the sizes, as several ints or one sequence.
        generator: where to draw from; the device's default generator if None.
        dtype: a floating-point or complex dtype; the default dtype if None.

    Raises:
        TypeError, RuntimeError: for bad sizes. NotImplementedError: for integer dtypes.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """
    return _new(
        "rand", sizes("rand", sizes_, size), sampling.uniform, (0.0, 1.0), generator=generator,
        out=out, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad,
        check=_check_uniform,
    )


@composite()
def randn(*sizes_, size=None, generator=None, out=None, dtype=None, layout=None, device=None,
          pin_memory=False, requires_grad=False):
    """Standard normal numbers (``torch.randn``): see `rand`.

    Complex numbers have variance 1, half of it in each part.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    return _new(
        "randn", sizes("randn", sizes_, size), sampling.normal, (0.0, 1.0), generator=generator,
        out=out, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad,
        check=fills.check_normal_dtype,
    )


def _bounds(name, given, low, high):
    """low and high of ``(high)`` or ``(low, high)``, by position or by name."""
    positional = [integer(name, "high", i, value) for i, value in enumerate(given, 1)]
    if len(positional) == 2:
        low, high = positional
    elif positional and high is None:
        high = positional[0]
    elif positional:
        low = positional[0]
    low = 0 if low is None else integer(name, "low", 1, low)
    high = integer(name, "high", 2, high)
    if not (-(2**63) <= low < 2**63 and -(2**63) <= high < 2**63):
        raise ValueError("Overflow when unpacking long long")
    return low, high


@composite()
def randint(*args, low=None, high=None, size=None, generator=None, out=None, dtype=None,
            layout=None, device=None, pin_memory=False, requires_grad=False):
    """Integers of [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        dtype: any real dtype; int64 if None.

    Raises:
        RuntimeError: for an empty range, or one beyond the dtype.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randint(10, (5,))
    tensor([4, 9, 3, 0, 3])
    """
    given = (*args, *(v for v in (low, high, size) if v is not None))
    if not 2 <= len(given) <= 3 or any(isinstance(v, (tuple, list)) for v in args[:-1]):
        raise mismatch("randint", *args)
    if size is None:
        if not isinstance(args[-1] if args else None, (tuple, list)):
            raise TypeError(
                f"randint(): argument 'size' (position {len(args)}) must be tuple of ints, not "
                f"{type(args[-1]).__name__}"
            )
        args, size = args[:-1], args[-1]
    low, high = _bounds("randint", args, low, high)
    return _new(
        "randint", sizes("randint", (tuple(size),)), sampling.randint, (low, high),
        generator=generator, out=out, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad, default=dtypes.int64,
        check=lambda dtype: fills.check_range(dtype, low, high),
    )


_LARGEST_PERMUTATION = {dtypes.float16: 2**11 + 1, dtypes.float32: 2**24 + 1}


@composite()
def randperm(n, *, generator=None, out=None, dtype=None, layout=None, device=None,
             pin_memory=False, requires_grad=False):
    """A random permutation of the integers below ``n`` (``torch.randperm``).

    Raises:
        RuntimeError: for a negative ``n``, or more integers than the dtype has.
        NotImplementedError: for bool and complex dtypes.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randperm(4)
    tensor([0, 1, 3, 2])
    """
    (n,) = sizes("randperm", (integer("randperm", "n", 1, n),))

    def check(dtype):
        if dtype not in FLOATS:
            check_fits(max(n - 1, 0), dtype)
        elif n > _LARGEST_PERMUTATION.get(dtype, n):
            limit = 2049 if dtype is dtypes.float16 else "2^24+1"
            raise RuntimeError(f"n cannot be greater than {limit} for {dtype.scalar_name} type.")
        if dtype.category == 0 or dtype.is_complex or dtype.name in ("uint16", "uint32", "uint64"):
            raise fills.unsupported("randperm", dtype)

    return _new(
        "randperm", (n,), _permutation, (), generator=generator, out=out,
        dtype=dtype, default=dtypes.int64,
        layout=layout, device=device, requires_grad=requires_grad, check=check,
    )


def _permutation(generator, shape, dtype):
    *batch, n = shape
    rows = [sampling.randperm(generator, n, dtype) for _ in range(math.prod(batch))]
    return np.stack(rows).reshape(shape) if rows else np.empty(shape, dtype)


# --- like another tensor ---------------------------------------------------------------


def _like(name, input, sampler, args, *, generator, dtype, layout, device, requires_grad,
          memory_format, check, **options):
    if not isinstance(input, TensorBase):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    check_generator(name, generator)
    if dtype is None and layout is None and device is None and memory_format is None and fills.is_simple(input):
        check(input.dtype)
        return new_leaf(fills.new_like(input, sampler, *args, generator=generator), requires_grad)
    empty = torch.empty_like(
        input, dtype=dtype, layout=layout, device=device, memory_format=memory_format
    )
    check(empty.dtype)
    if requires_grad:
        check_options(name, empty.dtype, None, requires_grad)
    if empty.device is devices.META:
        return new_leaf(empty, requires_grad)
    if sampler is sampling.normal:
        options["contiguous"] = empty.is_contiguous()
    like = fills._Layout(empty)

    def make():
        array = drawn_like(like, generator, sampler, *args, dtype.numpy, **options)
        if dtype.stored:
            new = tensor_of(array, like.device, stride=like.stride())
            return new_leaf(new.to(dtype), requires_grad)
        return tensor_of(array, like.device, requires_grad, like.stride())

    dtype = empty.dtype
    return fills.replayable(make)


@composite()
@randomized(LIKE)
def rand_like(input, *, generator=None, dtype=None, layout=None, device=None, pin_memory=False,
              requires_grad=False, memory_format=None):
    """`rand` with the sizes, dtype, device and memory order of a tensor.

    Raises:
        NotImplementedError: for integer dtypes.
    """
    return _like(
        "rand_like", input, sampling.uniform, (0.0, 1.0), generator=generator, dtype=dtype,
        layout=layout, device=device, requires_grad=requires_grad, memory_format=memory_format,
        check=_check_uniform,
    )


@composite()
@randomized(LIKE)
def randn_like(input, *, generator=None, dtype=None, layout=None, device=None, pin_memory=False,
               requires_grad=False, memory_format=None):
    """`randn` with the sizes, dtype, device and memory order of a tensor.

    Raises:
        NotImplementedError: for integer dtypes.
    """
    return _like(
        "randn_like", input, sampling.normal, (0.0, 1.0), generator=generator, dtype=dtype,
        layout=layout, device=device, requires_grad=requires_grad, memory_format=memory_format,
        check=fills.check_normal_dtype,
    )


@composite()
@randomized(LIKE)
def randint_like(input, *bounds, low=None, high=None, generator=None, dtype=None,
                 layout=None, device=None, pin_memory=False, requires_grad=False,
                 memory_format=None):
    """`randint` with the sizes, dtype, device and memory order of a tensor.

    Raises:
        RuntimeError: for an empty range, or one beyond the dtype.
    """
    low, high = _bounds("randint_like", bounds, low, high)
    return _like(
        "randint_like", input, sampling.randint, (low, high), generator=generator, dtype=dtype,
        layout=layout, device=device, requires_grad=requires_grad, memory_format=memory_format,
        check=lambda dtype: fills.check_range(dtype, low, high),
    )


# --- normal ----------------------------------------------------------------------------


@composite()
def normal(mean=0.0, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None,
           device=None, pin_memory=False, requires_grad=False):
    """Normal numbers, with means or standard deviations by element (``torch.normal``).

    Args:
        mean, std: tensors that broadcast, or numbers; two numbers need a ``size``.

    Raises:
        RuntimeError: for a negative standard deviation.
        NotImplementedError: for integer tensors.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([0., 100.]), 1.)
    tensor([ 1.5410, 99.7066])
    """
    tensors = [v for v in (mean, std) if isinstance(v, TensorBase)]
    if size is not None and all(t.ndim == 0 and not t.requires_grad for t in tensors):
        mean, std = fills.floats("normal", ("mean", "std"), (mean, std))
        fills.check_std(std)
        return _new(
            "normal", sizes("normal", (tuple(size),)), sampling.normal, (mean, std),
            generator=generator, out=out, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad, check=fills.check_normal_dtype,
        )
    if not tensors or size is not None:
        given = (mean, std) if size is None else (mean, std, size)
        raise mismatch("normal", *given)
    result = _normal_by_element(_detached(mean), _detached(std), generator)
    which = 2 * isinstance(std, TensorBase) + isinstance(mean, TensorBase)  # PyTorch's number of the overload
    return _into(out, _depending(f"NormalBackward{which}", result, *tensors))


def _detached(parameter):
    return parameter.detach() if isinstance(parameter, TensorBase) else parameter


def _depending(node, sample, *parameters):
    """The sample, which has a gradient (zero) if one of its parameters wants one; ``node``: the name of its node."""
    is_dual = special[0] and getattr(parameters[0], "_tangent", None) is not None
    if is_dual or (modes.grad and any(p.requires_grad for p in parameters)):
        made = call(op_named("_sampled"), (sample, *parameters, None)[:3], ())
        if made._grad_fn is not None:
            rename_node(made._grad_fn, node)
        return made
    return sample


@randomized(ELEMENT)
def _normal_by_element(mean, std, generator):
    if not isinstance(std, TensorBase):
        fills.check_std(std)
        return torch.empty_like(mean, memory_format=formats.contiguous_format).normal_(0, std, generator=generator).add_(mean)
    if std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if std.numel() and not (to_numpy(std.detach()) >= 0).all():
        raise RuntimeError("normal expects all elements of std >= 0.0")
    whole = torch.broadcast_tensors(mean, std)[0] if isinstance(mean, TensorBase) else std
    scaled = torch.empty_like(whole, memory_format=formats.contiguous_format).normal_(0, 1, generator=generator).mul_(std)
    # The choice keeps XLA from rounding once where PyTorch rounds the product and the sum.
    return torch.where(std >= 0, scaled, float("nan")).add_(mean)


# --- by the parameters of each element -------------------------------------------------


@composite(forms="function method")
def bernoulli(input, p=None, *, generator=None, out=None):
    """Ones and zeros, ones with the probabilities ``input`` (``torch.bernoulli``).

    Args:
        p: if given, the probability of all elements; ``input`` gives the shape and dtype only.

    Raises:
        RuntimeError: for probabilities outside [0, 1].
        NotImplementedError: for an integer ``input`` without ``p``.

    >>> import ftorch as torch
    >>> torch.bernoulli(torch.tensor([0., 1., 1.]))
    tensor([0., 1., 1.])
    """
    if p is None:
        result = _bernoulli_by_element(input.detach(), generator)
    else:
        result = torch.empty_like(input).bernoulli_(p, generator=generator)
    if out is not None and out.dtype.category < 2:
        result = result.to(out.dtype)
    if p is None:
        result = _depending("BernoulliBackward0", result, input)
    else:
        refuse_gradients(result, "aten::bernoulli", [input])
    return _into(out, result)


@randomized(ELEMENT)
def _bernoulli_by_element(p, generator):
    if fills.is_simple(p) and p.dtype in FLOATS and capture_trace.capturing() is None:
        check_generator("bernoulli", generator)
        probabilities = to_numpy(p)
        fills.check_probabilities(probabilities)
        return tensor_of(draw(generator, devices.CPU, sampling.bernoulli_tensor, probabilities), devices.CPU)
    result = torch.empty_like(p, memory_format=formats.contiguous_format)
    return result.bernoulli_(p, generator=generator)


@composite(forms="function method")
@randomized(ROWS)
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with the weights in each row of ``input`` (``torch.multinomial``).

    Args:
        input: one or two dimensions of weights, which need not add up to one.
        num_samples: how many per row.
        replacement: whether an index may be drawn again.

    Raises:
        RuntimeError: for weights that are negative, infinite, NaN or all zero, and for more samples
            than weights without replacement.

    >>> import ftorch as torch
    >>> torch.multinomial(torch.tensor([0., 3., 0.]), 2, replacement=True)
    tensor([1, 1])
    """
    check_generator("multinomial", generator)
    num_samples = integer("multinomial", "num_samples", 2, num_samples)
    if input.dtype not in FLOATS:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{input.dtype.scalar_name}"
        )
    if not 0 < input.dim() <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if input.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
    if capture_trace.capturing() is not None and (not replacement or num_samples == 1) and (
        input.is_contiguous()
    ):
        # In a captured program the weights are not known: see `sampling.multinomial`.
        clocks = torch.empty_like(input, requires_grad=False).exponential_(generator=generator)
        clocks = input.detach() / clocks
        if num_samples == 1:
            return _into(out, clocks.argmax(-1, keepdim=True))
        order = (-clocks).argsort(-1, stable=True)
        return _into(out, order.narrow(-1, 0, num_samples).clone())
    weights = to_numpy(input.detach())
    _check_weights(weights, sequential=replacement and num_samples > 1)
    transposed = input.dim() == 2 and not input.is_contiguous() and input.t().is_contiguous()
    drawn = draw(
        generator, input.device, sampling.multinomial, weights, num_samples, replacement, transposed
    )
    return _into(out, tensor_of(drawn, input.device))


def _check_weights(weights, sequential):
    if sequential:
        if (weights < 0).any():
            raise RuntimeError(
                "invalid multinomial distribution (encountering probability entry < 0)"
            )
        if not np.isfinite(weights.astype(np.float64)).all():
            raise RuntimeError(
                "invalid multinomial distribution (encountering probability entry = infinity or "
                "NaN)"
            )
    elif not ((weights >= 0) & (weights < np.inf)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if weights.size and (weights.sum(-1, dtype=np.float64) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


@randomized(ELEMENT)
def _by_element(name, sampler, generator, *parameters):
    """A contiguous tensor of ``sampler(generator, *arrays)``."""
    check_generator(name, generator)
    arrays = [np.ascontiguousarray(to_numpy(p.detach())) for p in parameters]
    where = parameters[0].device
    # np.ascontiguousarray makes 0-d arrays 1-d.
    arrays = [a.reshape(p.shape) for a, p in zip(arrays, parameters, strict=True)]
    return tensor_of(draw(generator, where, sampler, *arrays), where)


@composite()
def poisson(input, generator=None):
    """Poisson numbers with the rates ``input`` (``torch.poisson``).

    Raises:
        RuntimeError: for negative rates. NotImplementedError: for integer and complex dtypes.

    >>> import ftorch as torch
    >>> torch.poisson(torch.zeros(3))
    tensor([0., 0., 0.])
    """
    if input.dtype not in FLOATS:
        raise fills.unsupported("poisson_cpu", input.dtype)
    return _depending("PoissonBackward0", _poisson_by_element(input.detach(), generator), input)


@randomized(ELEMENT)
def _poisson_by_element(rate, generator):
    if (to_numpy(rate) < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _by_element("poisson", sampling.poisson, generator, rate)


@composite()
def binomial(count, prob, generator=None):
    """Numbers of successes in ``count`` trials of probability ``prob`` (``torch.binomial``).

    Raises:
        ValueError: for integer dtypes. RuntimeError: for two different dtypes.

    >>> import ftorch as torch
    >>> torch.binomial(torch.tensor([5., 6.]), torch.tensor([0., 1.]))
    tensor([0., 6.])
    """
    for position, (argument, value) in enumerate((("count", count), ("prob", prob)), 1):
        if not isinstance(value, TensorBase):
            raise TypeError(
                f"binomial(): argument '{argument}' (position {position}) must be Tensor, not "
                f"{type(value).__name__}"
            )
        if value.dtype not in FLOATS:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {argument}, got: "
                f"{value.dtype.scalar_name}"
            )
    if count.dtype not in _SINGLE_OR_DOUBLE:
        raise fills.unsupported("binomial_cpu", count.dtype)
    if count.dtype is not prob.dtype:
        raise RuntimeError(
            f"Found dtype {prob.dtype.scalar_name} but expected {count.dtype.scalar_name}"
        )
    count, prob = torch.broadcast_tensors(count, prob)
    return _by_element("binomial", sampling.binomial, generator, count, prob)


@composite()
def _standard_gamma(self, generator=None):
    """Gamma numbers of scale one with the concentrations ``self``, differentiable in them.

    Raises:
        NotImplementedError: for other dtypes than float32 and float64.
    """
    if self.dtype not in _SINGLE_OR_DOUBLE:
        raise fills.unsupported("gamma_cpu", self.dtype)
    sample = _by_element("_standard_gamma", sampling.standard_gamma, generator, self)
    return call(op_named("_gamma_sample"), (self, sample), ())


@composite()
def _sample_dirichlet(self, generator=None):
    """Dirichlet vectors along the last dimension with the concentrations ``self``.

    Raises:
        NotImplementedError: for other dtypes than float32 and float64.
    """
    if self.dtype not in _SINGLE_OR_DOUBLE:
        raise fills.unsupported("dirichlet", self.dtype)
    return _by_element("_sample_dirichlet", sampling.dirichlet, generator, self)
