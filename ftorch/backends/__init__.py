"""Switches of numerical libraries (``torch.backends``): settable, and read back as set.

XLA chooses the libraries; the switches that have a meaning for it act on it (``cuda.matmul.allow_tf32``),
the others are remembered for the programs that set and restore them.
"""

from __future__ import annotations

import sys
import types

from .._alias import canonical
from ..eager.native.contexts import contextmanager, putting_back

_frozen = [False]


def disable_global_flags() -> None:
    """From now on flags are set by ``flags(...)`` alone: setting an attribute raises RuntimeError."""
    _frozen[0] = True


def flags_frozen() -> bool:
    """Whether `disable_global_flags` was called."""
    return _frozen[0]


@contextmanager
def allow_nonbracketed_mutation():
    """Flags can be set within the context."""
    former, _frozen[0] = _frozen[0], False
    try:
        yield
    finally:
        _frozen[0] = former


globals()["__allow_nonbracketed_mutation"] = allow_nonbracketed_mutation  # the name that tests of libraries use


class Flags(types.ModuleType):
    """A module whose flags are attributes, which ``flags(...)`` sets for a block.

    Attributes:
        _flags: the names and values of the flags.
        _precision: which precision of products ``fp32_precision`` is: that of a device.
    """

    _flags: dict

    @property
    def fp32_precision(self) -> str:
        """The precision of float32's products, see `ftorch.backends.precision`."""
        return precision.get(self.__dict__["_precision"])

    @fp32_precision.setter
    def fp32_precision(self, value: str):
        precision.put(self.__dict__["_precision"], "all", value)

    def __setattr__(self, name, value):
        if name in self.__dict__.get("_flags", ()):
            if flags_frozen() and self.__dict__["_freezes"]:
                raise RuntimeError(
                    f"not allowed to set {canonical(self.__name__)} flags after disable_global_flags; please use flags() "
                    "context manager instead"
                )
            if name in self.__dict__["_bools"] and type(value) is not bool:
                setter = self.__dict__["_bools"][name]
                raise RuntimeError(f"{setter} expects a bool, but got {type(value).__name__}")
            if (allowed := self.__dict__["_values"].get(name)) is not None and value not in allowed:
                raise RuntimeError(f"{value} is not a valid value for quantized {name}")
            self._flags[name] = value
            if (act := self.__dict__["_acts"].get(name)) is not None:
                act(value)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name):
        if (read := self.__dict__.get("_reads", {}).get(name)) is not None:
            return read()
        try:
            return self.__dict__["_flags"][name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __dir__(self):
        return sorted({*super().__dir__(), *self._flags})

    def set_flags(self, **values):
        """Sets flags (without leading underscores) and gives their values before, as a tuple."""
        before = tuple(getattr(self, name) for name in values)
        for name, value in values.items():
            if value is not None:
                setattr(self, name, value)
        return before

    @contextmanager
    def flags(self, **values):
        """Sets flags inside a ``with`` block."""
        unknown = set(values) - set(self._flags) - ({"fp32_precision"} if "_precision" in self.__dict__ else set())
        if unknown:
            raise TypeError(f"flags() got an unexpected keyword argument '{unknown.pop()}'")
        before = {name: getattr(self, name) for name in {*self._flags, *values}}
        with putting_back(self._put_back, before):
            with allow_nonbracketed_mutation():
                self.set_flags(**values)
            yield

    def _put_back(self, values):
        with allow_nonbracketed_mutation():
            for name, value in values.items():
                setattr(self, name, value)


def make_flags(
    module_name: str, precision: str | None = None, bools=(), values=(), acts=(), reads=(), freezes=True, **initial
) -> None:
    """Makes an imported module a `Flags` module with these flags.

    Args:
        precision: the device whose precision ``fp32_precision`` is.
        bools: {flag that is a bool: PyTorch's name of what sets it}.
        values: {flag: the values that it may have}.
        acts: {flag: what is called with a new value}.
        reads: {flag: what gives its value}, of those that follow from other settings.
        freezes: whether `disable_global_flags` is for them.
    """
    module = sys.modules[module_name]
    module.__class__ = Flags
    module.__dict__["_flags"], module.__dict__["_freezes"] = initial, freezes
    module.__dict__["_bools"], module.__dict__["_values"] = dict(bools), dict(values)
    module.__dict__["_acts"], module.__dict__["_reads"] = dict(acts), dict(reads)
    if precision is not None:
        module.__dict__["_precision"] = precision


from . import precision  # noqa: E402

make_flags(__name__, precision="generic")

from . import (  # noqa: E402
    cpu,
    cuda,
    cudnn,
    cusparselt,
    kleidiai,
    mha,
    miopen,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openmp,
    opt_einsum,
    quantized,
)

__all__ = [
    "cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp",
    "opt_einsum", "quantized",
]
