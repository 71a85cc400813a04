"""The vector units of this processor (``torch._inductor.cpu_vec_isa``), as the system lists them."""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class VecISA:
    """A vector unit; false where there is none."""

    name: str
    bits: int

    def bit_width(self) -> int:
        """The width of its registers."""
        return self.bits

    def __str__(self):
        return self.name

    def __bool__(self):
        return self.bits > 0


InvalidVecISA = VecISA("INVALID_VEC_ISA", 0)
_KNOWN = (VecISA("avx512", 512), VecISA("avx2", 256), VecISA("asimd", 128))
_FLAGS = {"avx512": "avx512f", "avx2": "avx2", "asimd": "asimd"}


@functools.cache
def valid_vec_isa_list() -> list[VecISA]:
    """Those that this processor has, the widest first."""
    try:
        with open("/proc/cpuinfo") as file:
            words = set(file.read().split())
    except OSError:
        return []
    return [isa for isa in _KNOWN if _FLAGS[isa.name] in words]


def pick_vec_isa() -> VecISA:
    """The widest; `InvalidVecISA` without any."""
    return next(iter(valid_vec_isa_list()), InvalidVecISA)
