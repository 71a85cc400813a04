"""Seeds and states of the default random number generators (``torch.random``)."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterable, Iterator

from .eager.call.hooks import hooks
from .eager.core import device as _device
from .eager.native.contexts import contextmanager, putting_back
from .eager.runtime import capture_trace
from .eager.sampling import generator as _generators
from .eager.sampling.generator import Generator, default_generator
from .eager.tensor import Tensor

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed",
    "seed", "set_rng_state", "thread_safe_generator",
]


def manual_seed(seed) -> Generator:
    """Restarts the default generators of all devices from a seed; returns the CPU's.

    Raises:
        ValueError: for a seed outside [-2^63, 2^64).

    >>> import ftorch as torch
    >>> torch.manual_seed(7).initial_seed()
    7
    """
    seed = int(seed)
    default_generator.manual_seed(seed)
    _generators.seed_accelerators(seed)
    return default_generator


def seed() -> int:
    """Restarts the default generators from a random seed, which is returned."""
    value = secrets.randbits(64)
    manual_seed(value)
    return value


def initial_seed() -> int:
    """The seed that the CPU's default generator was started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the CPU's default generator, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continues as the CPU's default generator did when `get_rng_state` was called.

    Raises:
        TypeError: unless ``new_state`` is a uint8 tensor.
        RuntimeError: for what is no generator's state.
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Iterable | None = None, enabled: bool = True, _caller: str = "fork_rng",
             _devices_kw: str = "devices", device_type: str | None = None) -> Iterator[None]:
    """Inside the block random numbers may be drawn, after it the generators are as before.

    Args:
        devices: accelerators whose generators are kept, too; all of ``device_type`` by default.
        enabled: False makes the block an ordinary one.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> with torch.random.fork_rng():
    ...     _ = torch.rand(5)
    >>> torch.rand(1)
    tensor([0.4963])
    """
    if not enabled:
        yield
        return
    kind = device_type or "cuda"
    if devices is None:
        count = len(_device.jax_devices(kind)) if kind != "cpu" else 0
        if count > 1:
            warnings.warn(
                f"{kind.upper()} reports that you have {count} available devices, and you have used "
                f"{_caller} without explicitly specifying which devices are being used. For safety, "
                f"we initialize *every* {kind.upper()} device by default, which can be quite slow if "
                f"you have a lot of {kind.upper()}s. If you know that you are only making use of a "
                f"few {kind.upper()} devices, set the environment variable {kind.upper()}_VISIBLE_"
                f"DEVICES or the '{_devices_kw}' keyword argument of {_caller} with the set of "
                "devices you are actually using.",
                stacklevel=3,
            )
        devices = range(count)
    where = [_device.device(kind, d) if isinstance(d, int) else _device.device(d) for d in devices]
    forked = _Forked([default_generator, *map(_generators.default_generator_of, where)])
    with putting_back(forked.put_back):
        yield


class _Forked:
    """The states of some generators; a program that runs again takes them and puts them back anew."""

    def __init__(self, generators):
        self.generators, self.capture = generators, capture_trace.capturing()
        self.take()
        if self.capture is not None:
            self.capture.actions.append(("do", self.take))

    def take(self):
        self.states = [g.state() for g in self.generators]

    def put_back(self):
        if self.capture is not None:
            self.capture.actions.append(("do", self._load))
        self._load()

    def _load(self):
        for generator, state in zip(self.generators, self.states, strict=True):
            generator.load_state(state)


def thread_safe_generator() -> Generator | None:
    """The generator of the calling worker thread of a ``DataLoader``; None anywhere else.

    None stands for the default generator wherever a function takes one. Workers that are processes have a default
    generator of their own.

    >>> import ftorch as torch
    >>> torch.randint(0, 10, (5,), generator=torch.random.thread_safe_generator()).shape
    torch.Size([5])
    """
    info = hooks.data_loaders().get_worker_info()
    return info.rng if info is not None and info.worker_method == "thread" else None
