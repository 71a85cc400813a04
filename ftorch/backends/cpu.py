"""``torch.backends.cpu``: what the processor can do."""

from __future__ import annotations

import functools
import platform


@functools.cache
def get_cpu_capability() -> str:
    """The widest vectors: "AVX512", "AVX2", "NEON", ... or "DEFAULT"."""
    if platform.machine() in ("arm64", "aarch64"):
        return "NEON"
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return "DEFAULT"
    if "avx512f" in flags and "avx512bw" in flags:
        return "AVX512"
    return "AVX2" if "avx2" in flags and "fma" in flags else "DEFAULT"
