"""The CPU as a device (``torch.cpu``), for code that treats devices alike."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import types

from ..eager.runtime import executor
from . import amp  # noqa: F401

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "get_capabilities", "is_available", "is_initialized", "set_device", "stream", "synchronize",
]


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """"cpu"."""
    return "cpu"


def set_device(device) -> None:
    """Does nothing: there is one CPU."""


def synchronize(device=None) -> None:
    """Runs what the thread has recorded."""
    executor.flush()


class Stream:
    """The CPU's stream: work is done in the order it was given in."""

    def __init__(self, priority: int = -1):
        pass

    def wait_stream(self, stream) -> None:
        """Does nothing: there is one stream."""

    def record_event(self):
        """An `Event`."""
        return Event()

    def wait_event(self, event) -> None:
        """Does nothing: there is one stream."""


class Event:
    """A point in the CPU's work; it has always been reached."""

    def query(self) -> bool:
        return True

    def record(self, stream=None) -> None:
        pass

    def synchronize(self) -> None:
        executor.flush()

    def wait(self, stream=None) -> None:
        pass


_stream = Stream()


def current_stream(device=None) -> Stream:
    """The CPU's stream."""
    return _stream


class StreamContext(contextlib.nullcontext):
    """A ``with`` block on a stream."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream


def stream(stream) -> StreamContext:
    """A ``with`` block on a stream, which changes nothing."""
    return StreamContext(stream)


# Capabilities by the flags of /proc/cpuinfo, where those have other names.
_FLAGS = {
    "sse3": "pni", "avx512_f": "avx512f", "avx512_bw": "avx512bw", "avx512_cd": "avx512cd", "avx512_dq": "avx512dq",
    "avx512_vl": "avx512vl", "avx512_ifma": "avx512ifma", "avx512_vbmi": "avx512vbmi", "fma3": "fma",
    "lzcnt": "abm", "sha": "sha_ni", "bmi": "bmi1", "clflush": "clflush", "fp16_arith": "asimdhp", "dot": "asimddp",
    "neon": "asimd",
}
_X86 = (
    "sse sse2 sse3 ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx512_f avx512_cd avx512_dq avx512_bw avx512_vl "
    "avx512_ifma avx512_vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq avx512_vnni avx512_bf16 avx512_fp16 "
    "avx512_vp2intersect avx512_4vnniw avx512_4fmaps avx10_1 avx10_2 avx_vnni_int8 avx_vnni_int16 avx_ne_convert "
    "amx_bf16 amx_tile amx_int8 amx_fp16 fma3 fma4 f16c bmi bmi2 popcnt lzcnt aes sha clflush clflushopt clwb"
).split()
_ARM = "neon fp16_arith bf16 i8mm dot sve sve2 sme sme2 atomics fhm rdm crc32 aes sha1 sha2 pmull".split()


@functools.cache
def get_capabilities() -> types.MappingProxyType:
    """What this processor can do: {"avx2": True, ..., "architecture": "x86_64"}.

    >>> import ftorch as torch
    >>> isinstance(torch.cpu.get_capabilities()["architecture"], str)
    True
    """
    flags: set[str] = set()
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                flags.update(value.split())
            elif key.strip() == "model name":
                name = value.strip()
    machine = platform.machine()
    names = _ARM if machine.startswith(("arm", "aarch")) else _X86
    found: dict = {n: _FLAGS.get(n, n) in flags for n in names}
    found |= {"architecture": machine, "cpu_name": name, "num_logical_cores": os.cpu_count()}
    return types.MappingProxyType(found)


def _capability(name):
    def supported() -> bool:
        return get_capabilities().get(name, False)

    supported.__name__ = f"_is_{name}_supported"
    supported.__doc__ = f"Whether this processor has {name}."
    return supported


_is_avx2_supported, _is_avx512_supported = _capability("avx2"), _capability("avx512_f")
_is_avx512_bf16_supported, _is_vnni_supported = _capability("avx512_bf16"), _capability("avx512_vnni")
_is_amx_tile_supported, _is_amx_fp16_supported = _capability("amx_tile"), _capability("amx_fp16")


def _init_amx() -> bool:
    """Whether the processor's tile registers may be used; the kernels here use none."""
    return False
