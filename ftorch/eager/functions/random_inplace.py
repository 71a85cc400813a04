"""Methods that fill a tensor with random numbers: ``uniform_``, ``normal_``, ``bernoulli_``, ...

The numbers are drawn on the host by `ftorch.eager.sampling` in the tensor's memory order, as PyTorch
fills tensors, and written into the tensor.
"""

from __future__ import annotations

import numpy as np

from .. import sampling
from ..autograd.tape import rename_node
from ..call.op import check_captured, has_overlap, special, to_numpy
from ..core import api as torch
from ..core import device as devices
from ..core import dtype as dtypes
from ..core.composite import composite
from ..core.formats import contiguous_format
from ..core.geometry import geometry
from ..core.user_warnings import warn_user
from ..dispatch.randomness import FILL, randomized
from ..memory.storage import INFERENCE, KEPT_BYTES, Storage
from ..runtime import capture_trace, executor
from ..sampling import generator as generators
from ..sampling.discrete import DIGITS
from ..tensor import PLAIN, TensorBase, from_array, modes, wrap
from ._arguments import integer

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_C_TYPES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short int",
    "int32": "int", "int64": "long int", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "float32": "float", "float64": "double", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
_ABSENT = object()


# --- drawing ---------------------------------------------------------------------------


def draw(generator, device: devices.device, sampler, *args, **options) -> np.ndarray:
    """Calls a sampler with a generator, the device's default one if None.

    All random tensors are drawn here. Traced programs will draw from `generators.traced_key`.

    Raises:
        TypeError, RuntimeError: for what is no generator, or one of another device.
    """
    if generator is None:
        generator = generators.default_generator_of(device)
    elif generator.device.type != device.type and device is not devices.META:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found "
            f"'{generator.device.type}'"
        )
    capture = capture_trace.capturing()
    if capture is not None and not capture.replays_draw:
        capture.end("random numbers were drawn by a function that cannot be replayed")
    return sampler(generator, *args, **options)


def check_generator(name, generator):
    """Raises PyTorch's TypeError for what is no generator."""
    if generator is not None and not isinstance(generator, generators.Generator):
        raise TypeError(
            f"{name}(): argument 'generator' must be torch.Generator, not "
            f"{type(generator).__name__}"
        )


def tensor_of(array: np.ndarray, device, requires_grad=False, stride=None):
    """A tensor of an array that nobody else will write to."""
    if (
        array.nbytes <= KEPT_BYTES
        and device is devices.CPU
        and array.__class__ is np.ndarray
        and array.flags.c_contiguous
    ):
        made = geometry(array.shape, dtypes.from_numpy(array.dtype), device, stride)
        t = wrap(Storage(made, array))
        if modes.inference:
            t._ftorch_storage.version = INFERENCE
        t._ftorch_requires_grad = requires_grad
        return t
    if array.nbytes > KEPT_BYTES and device is not devices.META:
        array = devices.put(array, device)
    return from_array(array, device, requires_grad, stride)


def memory_order(t) -> tuple[int, ...]:
    """The dimensions in the order in which PyTorch's loops nest, outermost first."""
    stride = t.stride()
    return tuple(sorted(range(len(stride)), key=lambda d: -stride[d]))


def drawn_like(t, generator, sampler, *args, **options) -> np.ndarray:
    """An array of a tensor's shape, drawn in its memory order. ``args`` follow the shape."""
    shape, device = tuple(t.shape), t.device
    if t.is_contiguous():
        return draw(generator, device, sampler, shape, *args, **options)
    order = memory_order(t)
    array = draw(generator, device, sampler, tuple(shape[d] for d in order), *args, **options)
    return array.transpose(np.argsort(order))


def _takes_value(t):
    """Whether a value can simply become a tensor's: a whole plain storage, without a history or watchers."""
    storage = t._ftorch_storage
    return (
        t.__class__ in PLAIN and not special[0] and capture_trace.capturing() is None and storage.version >= 0
        and t._ftorch_geometry is storage.root and storage.host is None and storage.trace is not executor.IMMEDIATE
        and not (t._ftorch_requires_grad and modes.grad) and t._base is None and t._ftorch_meta is None
    )


def _fill(t, generator, sampler, *args, node=None, **options):
    """Overwrites a tensor by what a sampler draws; ``node``: the name of its node, if it isn't made of the sampler's."""
    if has_overlap(t):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    if t.requires_grad and t.is_leaf and modes.grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    if modes.differentiating:
        check_captured(t, sampler.__name__)
    if t._ftorch_geometry.device is devices.META or not t.numel():
        return t
    like, device = _Layout(t), t._ftorch_geometry.device
    drawn = replayable(
        lambda: tensor_of(drawn_like(like, generator, sampler, *args, **options), device)
    )
    if _takes_value(t) and drawn._ftorch_geometry is t._ftorch_geometry:
        executor.move(drawn._ftorch_storage, t._ftorch_storage)  # nothing is computed
        return t
    t.copy_(drawn)
    if type(t._grad_fn).__name__ == "CopyBackwards":
        camel = "".join(word.capitalize() for word in sampler.__name__.split("_"))
        rename_node(t._grad_fn, node or f"{camel}Backward0")
    return t


def is_simple(t) -> bool:
    """Whether nothing looks on when numbers like a tensor's are drawn, so that `new_like` will do."""
    return (
        not special[0] and t.__class__ in PLAIN and t.device is devices.CPU and t._ftorch_geometry.has_new_stride()
        and not t.dtype.stored
    )


def new_like(t, sampler, *args, generator=None):
    """What filling a new tensor like ``t``, an `is_simple` one, would give: drawn where it stays."""
    shape, dtype = tuple(t.shape), t.dtype.numpy
    return replayable(
        lambda: tensor_of(draw(generator, devices.CPU, sampler, shape, *args, dtype), devices.CPU)
    )


def replayable(make):
    """The tensor of ``make()``, which draws it; a captured program calls that for each run."""
    capture = capture_trace.capturing()
    if capture is None or capture.replays_draw:
        return make()
    capture.replays_draw = True
    try:
        t = make()
    finally:
        capture.replays_draw = False
    capture.draw(t._ftorch_storage, lambda: make()._ftorch_storage.value())
    return t


class _Layout:
    """What `drawn_like` needs to know of a tensor, without keeping its memory."""

    def __init__(self, t):
        self.shape, self.device = t.shape, t.device
        self._stride, self._is_contiguous = t.stride(), t.is_contiguous()

    def stride(self):
        return self._stride

    def is_contiguous(self):
        return self._is_contiguous


def unsupported(kernel, dtype):
    """PyTorch's error for a dtype that one of its loops does not exist for."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")


def floats(name, names, values):
    """Python floats of numbers and 0-d tensors."""
    return tuple(
        _float(name, argument, position, value)
        for position, (argument, value) in enumerate(zip(names, values, strict=True), 1)
    )


def _float(name, argument, position, value):
    if isinstance(value, (int, float, np.integer, np.floating)) or (
        isinstance(value, TensorBase) and value.ndim == 0 and not value.dtype.is_complex
    ):
        return float(value)
    kind = "Tensor" if isinstance(value, TensorBase) else type(value).__name__
    raise TypeError(
        f"{name}(): argument '{argument}' (position {position}) must be float, not {kind}"
    )


# --- continuous ------------------------------------------------------------------------


@composite(forms="method")
@randomized(FILL)
def uniform_(self, from_=0.0, to=1.0, *, generator=None, **named):
    """Fills with numbers uniform on [from, to) (``Tensor.uniform_(from=0, to=1)``).

    Raises:
        RuntimeError: for bounds in the wrong order or beyond the dtype.
        NotImplementedError: for integer dtypes.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(3).uniform_(-1, 1)
    tensor([-0.0075,  0.5364, -0.8230])
    """
    check_generator("uniform_", generator)
    from_ = named.get("from", from_)
    low, high = floats("uniform_", ("from", "to"), (from_, to))
    real = self.dtype.to_real()
    if real not in FLOATS:
        raise unsupported("check_uniform_bounds", self.dtype)
    largest = dtypes.finfo(real).max
    for bound, value in (("from", low), ("to", high)):
        if not -largest <= value <= largest:
            raise RuntimeError(f"{bound} is out of bounds for {_C_TYPES[real.name]}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > largest:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{real.scalar_name}>::max(), but "
            f"found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )
    return _fill(self, generator, sampling.uniform, low, high, self.dtype.numpy)


def check_std(std):
    """Raises PyTorch's error for a negative standard deviation."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


def check_normal_dtype(dtype):
    """Raises PyTorch's error for dtypes without normal numbers."""
    if dtype.to_real() not in FLOATS:
        raise unsupported("normal_kernel_cpu", dtype)


@composite(forms="method")
@randomized(FILL)
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fills with normal numbers. Tensors that are not contiguous get other numbers, as in PyTorch.

    Raises:
        RuntimeError: for a negative ``std``. NotImplementedError: for integer dtypes.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.empty(3).normal_()
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    check_generator("normal_", generator)
    mean, std = floats("normal_", ("mean", "std"), (mean, std))
    check_std(std)
    if self.numel():
        check_normal_dtype(self.dtype)
    return _fill(
        self, generator, sampling.normal, mean, std, self.dtype.numpy,
        contiguous=self.is_contiguous(),
    )


@composite(forms="method")
@randomized(FILL)
def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """Fills with the exponentials of normal numbers of this mean and standard deviation.

    Raises:
        RuntimeError: unless ``std`` is positive. NotImplementedError: for other than real floats.
    """
    check_generator("log_normal_", generator)
    mean, std = floats("log_normal_", ("mean", "std"), (mean, std))
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    if self.dtype not in FLOATS:
        raise unsupported("log_normal_cpu", self.dtype)
    return _fill(self, generator, sampling.log_normal, mean, std, self.dtype.numpy)


@composite(forms="method")
@randomized(FILL)
def exponential_(self, lambd=1.0, *, generator=None):
    """Fills with exponentially distributed numbers of rate ``lambd``.

    Raises:
        RuntimeError: unless ``lambd`` is positive and the dtype is floating-point.
    """
    check_generator("exponential_", generator)
    (rate,) = floats("exponential_", ("lambd",), (lambd,))
    if not self.dtype.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {self.dtype.scalar_name}"
        )
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    return _fill(self, generator, sampling.exponential, rate, self.dtype.numpy)


@composite(forms="method")
@randomized(FILL)
def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Fills with Cauchy-distributed numbers.

    Raises:
        RuntimeError: unless ``sigma`` is positive and the dtype is floating-point.
    """
    check_generator("cauchy_", generator)
    median, sigma = floats("cauchy_", ("median", "sigma"), (median, sigma))
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if not self.dtype.is_floating_point:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {_C_TYPES[self.dtype.name]}"
        )
    return _fill(self, generator, sampling.cauchy, median, sigma, self.dtype.numpy)


# --- discrete --------------------------------------------------------------------------


def check_range(dtype: dtypes.dtype, low: int, high: int) -> None:
    """Raises PyTorch's errors for integers of [low, high) that a dtype does not have."""
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if dtype.category == 0:
        least, largest = 0, 1
    elif dtype.category == 1:
        least, largest = dtypes.iinfo(dtype).min, dtypes.iinfo(dtype).max
    elif dtype in FLOATS:
        largest = dtypes.finfo(dtype).max
        least = -largest
    else:
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    for bound, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= largest:
            raise RuntimeError(f"{bound} is out of bounds for {_C_TYPES[dtype.name]}")
        if dtype in FLOATS and abs(value) > 1 << DIGITS[dtype.numpy]:
            digits, name = DIGITS[dtype.numpy], _C_TYPES[dtype.name]
            warn_user(
                f"{bound} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision "
                f"limitations {name} can support discrete uniform distribution only within this "
                "range. This warning will become an error in version 1.7 release, please fix the "
                "code in advance",
            )


def _largest(dtype):
    if dtype.category == 0:
        return 1
    return 1 << DIGITS[dtype.numpy] if dtype in FLOATS else dtypes.iinfo(dtype).max


@composite(forms="method")
@randomized(FILL)
def random_(self, from_=None, to=_ABSENT, *, generator=None, **named):
    """Fills with integers of [from, to), or up to the dtype's largest (``Tensor.random_``).

    ``random_(to)`` starts at 0, ``random_(from, None)`` has no upper end.

    Raises:
        RuntimeError: for an empty range, or one beyond the dtype.
    """
    check_generator("random_", generator)
    is_end = to is _ABSENT and not named
    if to is _ABSENT:
        from_, to = (named["from"], None) if named else (0 if from_ is not None else None, from_)
    else:
        from_ = named.get("from", from_)
    low, high = _bound("from", from_), _bound("to", to)
    if self.dtype.is_complex:
        raise unsupported("random_kernel_cpu", self.dtype)
    if low is None and high is None:
        return _fill(self, generator, sampling.random_, self.dtype.numpy, node="RandomBackward2")
    node = f"RandomBackward{int(low is None or is_end)}"
    low = low or 0
    if high is None:
        high = _largest(self.dtype) + 1
        check_range(self.dtype, low, max(high, low + 1))
    check_range(self.dtype, low, high)
    if self.dtype in FLOATS:
        low, high = _representable(self.dtype, low, high)
    return _fill(self, generator, sampling.randint, low, high, self.dtype.numpy, node=node)


def _representable(dtype, low, high):
    """[low, high) without the ends that rounding to the dtype would take out of it."""
    last, first = float(np.float64(high - 1).astype(dtype.numpy)), float(np.float64(low + 1).astype(dtype.numpy))
    if last >= high:
        high = int(last) - (1 << (abs(high - 1).bit_length() - DIGITS[dtype.numpy]))
    if first < low:
        low = int(first) + (1 << (abs(low + 1).bit_length() - DIGITS[dtype.numpy]))
    return low, high


def _bound(argument, value):
    if value is None:
        return None
    bound = integer("random_", argument, 1, value)
    if not -(2**63) <= bound < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return bound


@composite(forms="method")
@randomized(FILL)
def geometric_(self, p, *, generator=None):
    """Fills with the number of trials of probability ``p`` up to the first success.

    Raises:
        RuntimeError: unless 0 < p < 1. NotImplementedError: for bool and complex dtypes.
    """
    check_generator("geometric_", generator)
    (p,) = floats("geometric_", ("p",), (p,))
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if self.dtype.category == 0 or self.dtype.is_complex:
        raise unsupported("geometric_cpu", self.dtype)
    return _fill(self, generator, sampling.geometric, p, self.dtype.numpy)


@composite(forms="method")
@randomized(FILL)
def bernoulli_(self, p=0.5, *, generator=None):
    """Fills with ones, with probability ``p``, and zeros.

    Args:
        p: a number, or a floating-point tensor of probabilities that broadcasts to the tensor.

    Raises:
        RuntimeError: for probabilities outside [0, 1].
        NotImplementedError: for integer tensors of probabilities, and complex dtypes.
    """
    check_generator("bernoulli_", generator)
    if isinstance(p, TensorBase):
        return _bernoulli_tensor(self, p, generator)
    (p,) = floats("bernoulli_", ("p",), (p,))
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if self.dtype.is_complex:
        raise unsupported("bernoulli_scalar_cpu_", self.dtype)
    if modes.functionalizing and not self.is_contiguous():  # the function without a write makes a tensor of its own
        return self.copy_(torch.empty_like(self, memory_format=contiguous_format).bernoulli_(p, generator=generator))
    return _fill(self, generator, sampling.bernoulli, p, self.dtype.numpy, node="BernoulliBackward2")


def _bernoulli_tensor(self, p, generator):
    if p.dtype not in FLOATS:
        raise unsupported("bernoulli_tensor_cpu_p_", p.dtype)
    if self.dtype.is_complex:
        raise unsupported("bernoulli_tensor_cpu_self_", self.dtype)
    if capture_trace.capturing() is not None and self.is_contiguous():
        # In a captured program the probabilities are not known: the same numbers decide there.
        dtype = dtypes.float64 if p.dtype is dtypes.float64 else dtypes.float32
        u = torch.rand(self.shape, generator=generator, dtype=dtype, device=self.device)
        return self.copy_(u < p.detach().to(dtype))
    probabilities = to_numpy(p.detach().expand(self.shape))
    check_probabilities(probabilities)

    def sample(generator, shape):
        ordered = probabilities.transpose(memory_order(self)).reshape(shape)
        return sampling.bernoulli_tensor(generator, ordered, self.dtype.numpy)

    return _fill(self, generator, sample, node="BernoulliBackward1")


def check_probabilities(p: np.ndarray) -> None:
    """Raises PyTorch's error for probabilities outside [0, 1]."""
    if not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError(
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message "
            "be improved?  If so, please report an enhancement request to PyTorch.)"
        )
