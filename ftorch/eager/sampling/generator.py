"""Random number generators: ``torch.Generator`` and each device's default one.

Every device draws from PyTorch's CPU stream (MT19937), so a seed means the same numbers everywhere.
What is made of the words that a generator draws lives in `ftorch.eager.sampling`.
"""

from __future__ import annotations

import functools
import secrets
import struct
from collections.abc import Callable, Iterator

import numpy as np

from ..core import device as _device
from ..core import dtype as _dtype
from ..core import forking
from ..native.contexts import contextmanager
from ..runtime import capture_trace
from ..tensor import TensorBase, from_array

DEFAULT_SEED = 67280421310721
_STATE_WORDS = 624
# PyTorch's CPUGeneratorImplState, little endian: the seed, the engine's `left`, `seeded` and `next`,
# its words as 64-bit integers, then the cached normal samples (`x` and `rho` are unused).
_HEAD = struct.Struct("<QiiQ")
_TAIL = struct.Struct("<dddi4xf?3x")
_STATE_BYTES = _HEAD.size + 8 * _STATE_WORDS + _TAIL.size
# Below this many words, NumPy's 64-bit raw output costs less than the set-up of its 32-bit one.
_FEW = 512

traced_key: Callable[[Generator], object] | None = None
"""Set while a program is being traced (compile, transforms): gives the JAX key that stands in for a
generator's stream there. None in eager code, which draws on the host."""


def _locked(method):
    @functools.wraps(method)
    def call(self, *args):
        with self.lock:
            return method(self, *args)

    return call


class Generator:
    """A stream of random numbers, bit for bit PyTorch's CPU generator.

    Args:
        device: the device whose tensors it fills. The stream does not depend on it.

    Raises:
        RuntimeError: for a device that has no generator.

    >>> import ftorch as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> torch.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    __slots__ = ("device", "lock", "cached_normal", "_engine", "_bits", "_raw", "_ftorch_capsule", "_seed", "_ftorch_fresh",
                 "_cached_float", "__weakref__")

    def __init__(self, device="cpu"):
        self.device = _device.canonical(_device.device(device))
        if self.device.type == "meta":
            raise RuntimeError("META device type not an accelerator.")
        if self.device.type != "cpu":
            _device.to_jax(self.device)  # raises where there is no such device
        self.lock = forking.rlock()
        self._engine = np.random.RandomState(DEFAULT_SEED & 0xFFFFFFFF)
        self._bits = self._engine._bit_generator
        self._raw = self._bits.random_raw
        self._ftorch_capsule = self._bits.capsule  # for C
        forking.watch(self._bits.lock)
        self._start(DEFAULT_SEED)

    def _start(self, seed):
        self._seed = seed
        self._ftorch_fresh = True  # no word drawn since seeding: PyTorch's state tells this apart
        self.cached_normal: float | None = None
        self._cached_float: float | None = None

    # --- words ------------------------------------------------------------------------

    def words(self, count: int) -> np.ndarray:
        """The next 32-bit words, as uint32."""
        if count:
            self._ftorch_fresh = False
        if count < _FEW:
            return self._raw(count).astype(np.uint32)
        return self._engine.randint(0, 1 << 32, count, np.uint32)

    def long_words(self, count: int) -> np.ndarray:
        """The next 64-bit words, as uint64. The first half drawn is the high one."""
        words = self.words(2 * count).view(np.uint64)
        return words << np.uint64(32) | words >> np.uint64(32)

    def uniform32(self, count: int) -> np.ndarray:
        """Float32 numbers in [0, 1): multiples of 2^-24."""
        return (self.words(count) & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2**-24)

    def uniform64(self, count: int) -> np.ndarray:
        """Float64 numbers in [0, 1): multiples of 2^-53."""
        return (self.long_words(count) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53

    def few_uniforms(self, count: int) -> list[float]:
        """`uniform64` as a list: quicker for a few."""
        if count:
            self._ftorch_fresh = False
        raw = self._raw(2 * count).tolist()
        halves = zip(raw[0::2], raw[1::2], strict=True)
        return [((high & 0x1FFFFF) << 32 | low) * 2.0**-53 for high, low in halves]

    @contextmanager
    def uniforms(self) -> Iterator[Iterator[float]]:
        """An iterator over `uniform64` numbers, for samplers that need an unknown number of them.

        It draws ahead; on leaving, the stream stands where exactly the taken ones were drawn.
        """
        taken = 0

        def stream():
            nonlocal taken
            block = 16
            while True:
                for number in self.uniform64(block).tolist():
                    taken += 1
                    yield number
                block = min(4 * block, 1 << 16)

        start, fresh = self._bits.state, self._ftorch_fresh
        try:
            yield stream()
        finally:
            self._bits.state = start
            self._ftorch_fresh = fresh and not taken
            self._bits.random_raw(2 * taken, output=False)

    # --- seeds ------------------------------------------------------------------------

    @_locked
    def manual_seed(self, seed: int) -> Generator:
        """Restarts the stream from a seed and returns the generator.

        Raises:
            RuntimeError: unless ``seed`` is an int.
            ValueError: for a seed outside [-2^63, 2^64).
        """
        if type(seed) is not int:
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        capture = capture_trace.capturing()
        if capture is not None:
            capture.actions.append(("do", functools.partial(self.manual_seed, seed)))
        seed &= 2**64 - 1
        self._engine.seed(seed & 0xFFFFFFFF)
        self._start(seed)
        return self

    def seed(self) -> int:
        """Restarts the stream from a seed of the operating system's, and returns the seed."""
        capture = capture_trace.capturing()
        if capture is not None:
            capture.end("a generator was seeded by the operating system")
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed the stream was started from."""
        return self._seed

    # --- the state --------------------------------------------------------------------

    @_locked
    def state(self) -> np.ndarray:
        """The 5056 bytes of PyTorch's state, as uint8."""
        engine = self._bits.state["state"]
        position = int(engine["pos"])
        left, following = (1, 0) if self._ftorch_fresh else (_STATE_WORDS + 1 - position, position)
        head = _HEAD.pack(self._seed, left, 1, following)
        tail = _TAIL.pack(
            0.0, self.cached_normal or 0.0, 0.0, self.cached_normal is not None,
            self._cached_float or 0.0, self._cached_float is not None,
        )
        words = engine["key"].astype("<u8").tobytes()
        return np.frombuffer(head + words + tail, np.uint8)

    @_locked
    def load_state(self, state: np.ndarray) -> None:
        """Continues from what `state` returned.

        Raises:
            RuntimeError: for a state of another size, or one that no generator returns.
        """
        data = np.ascontiguousarray(state).tobytes()
        if len(data) != _STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE_BYTES} but found the input RNG "
                f"state size to be {len(data)}"
            )
        seed, left, seeded, following = _HEAD.unpack_from(data)
        if not (seeded and 0 < left <= _STATE_WORDS and following <= _STATE_WORDS):
            raise RuntimeError("Invalid mt19937 state")
        words = np.frombuffer(data, "<u8", _STATE_WORDS, _HEAD.size).astype(np.uint32)
        tail = _TAIL.unpack_from(data, _STATE_BYTES - _TAIL.size)
        _, normal, _, has_normal, normal_float, has_float = tail
        self._bits.state = {
            "bit_generator": "MT19937",
            "state": {"key": words, "pos": _STATE_WORDS if left == 1 else following},
        }
        self._start(seed)
        self._ftorch_fresh = left == 1 and following == 0
        self.cached_normal = normal if has_normal else None
        self._cached_float = normal_float if has_float else None

    def get_state(self):
        """The state as a tensor of 5056 bytes; PyTorch reads it, too."""
        state = [self.state()]
        t = from_array(state[0], _device.CPU)
        capture = capture_trace.capturing()
        if capture is not None:  # a program that runs again takes the state anew

            def take():
                state[0] = self.state()

            capture.states[id(t._ftorch_storage)] = state
            capture.actions.append(("do", take))
        return t

    def set_state(self, new_state) -> Generator:
        """Continues from what `get_state` returned.

        Raises:
            TypeError: unless ``new_state`` is a uint8 tensor.
            RuntimeError: for a state of another size, or one that no generator returns.
        """
        if not isinstance(new_state, TensorBase):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype is not _dtype.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        capture = capture_trace.capturing()
        if capture is not None:
            state = capture.states.get(id(new_state._ftorch_storage))
            if state is None:
                capture.flush()
            else:
                capture.actions.append(("do", lambda: self.load_state(state[0])))
        self.load_state(np.asarray(new_state))
        return self

    def clone_state(self) -> Generator:
        """A new generator that continues as this one would."""
        clone = Generator(self.device)
        clone.load_state(self.state())
        return clone

    def graphsafe_get_state(self) -> Generator:
        """Generators of a GPU have states that its graphs may hold; this one raises.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Generators of a GPU have states that its graphs may hold; this one raises.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def get_offset(self) -> int:
        """Counter-based generators have an offset; this one raises.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> None:
        """Counter-based generators have an offset; this one raises.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("CPU Generator does not use offset")

    def __getstate__(self):
        return self.device, self.state()

    def __setstate__(self, saved):
        self.__init__(saved[0])
        self.load_state(saved[1])


Generator.__module__ = f"{__name__.partition('.')[0]}._C"  # as in PyTorch; it is found there, too

# --- the default generators ------------------------------------------------------------

default_generator = Generator()
"""The generator of CPU tensors for which no other is given."""

_of_accelerators: dict[_device.device, Generator] = {}
_accelerator_seed = DEFAULT_SEED
_accelerators_lock = forking.rlock()


def default_generator_of(device: _device.device) -> Generator:
    """The generator used on a device where none is given."""
    if device.type in ("cpu", "meta"):
        return default_generator
    device = _device.canonical(device)
    with _accelerators_lock:
        found = _of_accelerators.get(device)
        if found is None:
            found = _of_accelerators[device] = Generator(device).manual_seed(_accelerator_seed)
    return found


def seed_accelerators(seed: int) -> None:
    """Restarts every accelerator's default generator, those not yet asked for included."""
    global _accelerator_seed
    with _accelerators_lock:
        _accelerator_seed = seed
        for generator in _of_accelerators.values():
            generator.manual_seed(seed)
