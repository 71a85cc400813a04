"""Collectives of blocks of elements (NumPy arrays) over a group's connections.

Sums are taken in the order of ranks whatever arrives first, so every rank gets the same bits, each time.
Large arrays are reduced in two phases: each rank reduces its own part of everybody's array and
gives the result to everybody, so a rank sends and receives twice (n - 1) / n of the array.
"""

from __future__ import annotations

import numpy as np

from ._transport import Mesh, checksum

_SMALL = 32 << 10  # bytes up to which everybody sends everything to everybody
_CHUNK = 1 << 20  # bytes of a part that are reduced while the next ones travel


def as_bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array."""
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def empty(size: int, dtype) -> np.ndarray:
    """A flat array whose memory JAX can take over without a copy (aligned to 64 bytes)."""
    dtype = np.dtype(dtype)
    raw = np.empty(size * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * dtype.itemsize].view(dtype)


class Collectives:
    """The collectives of one rank of a group. All arrays are flat; one call at a time."""

    def __init__(self, mesh: Mesh):
        self.mesh, self.rank, self.size = mesh, mesh.rank, mesh.size
        self.number = 0

    def _others(self):
        # Each rank begins with its successor, so that not all begin with the same one.
        return [(self.rank + i) % self.size for i in range(1, self.size)]

    def begin(self, *what) -> int:
        """Counts a collective; its checksum."""
        self.number += 1
        return checksum(*what)

    def _exchange(self, what, sends, receives, timeout):
        self.mesh.exchange(
            self.number, what, [(p, as_bytes(a)) for p, a in sends],
            [(p, as_bytes(a)) for p, a in receives], timeout,
        )

    def all_reduce(self, own: np.ndarray, reduction, timeout: float) -> np.ndarray:
        """Everybody's arrays, combined."""
        what = self.begin("all_reduce", own.dtype.name, own.size, reduction.name)
        if self.size == 1:
            return reduction.finish(own.copy(), 1)
        if own.nbytes <= _SMALL:
            parts = self._all(what, own, timeout)
            return reduction.finish(reduction.combine(parts), self.size)
        out = empty(own.size, own.dtype)
        if self.size == 2:
            # Each sends the other one everything: as many bytes as in two phases, and half the waits for each other.
            other = 1 - self.rank
            self._exchange(what, [(other, own)], [(other, out)], timeout)
            reduction.combine_into([own, out] if self.rank == 0 else [out, own], out)
            return reduction.finish(out, 2)
        bounds = np.linspace(0, own.size, self.size + 1).astype(int)
        cuts = [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:])]
        mine = cuts[self.rank]
        out[mine] = reduction.finish(
            self._reduce_own(what, [own[c] for c in cuts], reduction, timeout), self.size
        )
        others = self._others()
        self._exchange(
            what, [(p, out[mine]) for p in others], [(p, out[cuts[p]]) for p in others], timeout
        )
        return out

    def _all(self, what, own, timeout):
        parts = [own if r == self.rank else np.empty_like(own) for r in range(self.size)]
        others = self._others()
        self._exchange(what, [(p, own) for p in others], [(p, parts[p]) for p in others], timeout)
        return parts

    def _reduce_own(self, what, parts, reduction, timeout):
        """This rank's part of everybody's ``parts``, combined, chunk by chunk."""
        mine = parts[self.rank]
        step = max(1, _CHUNK // mine.dtype.itemsize)
        others = self._others()
        count = max(1, max(-(-p.size // step) for p in parts))
        result = np.empty_like(mine)
        got = [np.empty(min(step, mine.size), mine.dtype) for _ in range(self.size)]
        for i in range(count):
            cut = slice(i * step, (i + 1) * step)
            own = mine[cut]
            self._exchange(
                what, [(p, parts[p][cut]) for p in others if i == 0 or parts[p][cut].size],
                [(p, got[p][: own.size]) for p in others] if i == 0 or own.size else [], timeout,
            )
            if own.size:
                values = [own if r == self.rank else got[r][: own.size] for r in range(self.size)]
                result[cut] = reduction.combine(values)
        return result

    def reduce_scatter(self, parts: list[np.ndarray], reduction, timeout: float) -> np.ndarray:
        """The part of this rank's number of everybody's lists, combined."""
        what = self.begin("reduce_scatter", parts[0].dtype.name, sum(p.size for p in parts),
                          reduction.name)
        if self.size == 1:
            return reduction.finish(parts[0].copy(), 1)
        return reduction.finish(self._reduce_own(what, parts, reduction, timeout), self.size)

    def reduce(self, own, root: int, reduction, timeout: float) -> np.ndarray | None:
        """Everybody's arrays, combined, on one rank."""
        what = self.begin("reduce", own.dtype.name, own.size, reduction.name, root)
        if self.rank != root:
            self._exchange(what, [(root, own)], [], timeout)
            return None
        parts = [own if r == root else np.empty_like(own) for r in range(self.size)]
        self._exchange(what, [], [(p, parts[p]) for p in self._others()], timeout)
        return reduction.finish(reduction.combine(parts), self.size)

    def broadcast(self, array: np.ndarray, root: int, timeout: float) -> None:
        """One rank's array to everybody, down a binomial tree."""
        what = self.begin("broadcast", array.dtype.name, array.size, root)
        place = (self.rank - root) % self.size
        span = 1
        while span < self.size:
            span *= 2
        if place:
            span = place & -place
            source = (place - span + root) % self.size
            self._exchange(what, [], [(source, array)], timeout)
        children = []
        while span > 1:
            span //= 2
            if place + span < self.size:
                children.append(((place + span + root) % self.size, array))
        self._exchange(what, children, [], timeout)

    def all_gather(self, own: np.ndarray, outs: list[np.ndarray], timeout: float, checked=True) -> None:
        """Everybody's arrays to everybody; sizes may differ."""
        size = sum(o.size for o in outs) if checked else None
        what = self.begin("all_gather", own.dtype.name, size)
        others = self._others()
        self._exchange(what, [(p, own) for p in others], [(p, outs[p]) for p in others], timeout)
        outs[self.rank][...] = own

    def gather(self, own, outs: list[np.ndarray] | None, root: int, timeout: float) -> None:
        """Everybody's arrays to one rank."""
        what = self.begin("gather", own.dtype.name, root)
        if self.rank != root:
            self._exchange(what, [(root, own)], [], timeout)
            return
        self._exchange(what, [], [(p, outs[p]) for p in self._others()], timeout)
        outs[root][...] = own

    def scatter(self, out, parts: list[np.ndarray] | None, root: int, timeout: float) -> None:
        """The arrays of one rank's list, one to each."""
        what = self.begin("scatter", out.dtype.name, root)
        if self.rank != root:
            self._exchange(what, [], [(root, out)], timeout)
            return
        self._exchange(what, [(p, parts[p]) for p in self._others()], [], timeout)
        out[...] = parts[root]

    def all_to_all(self, parts: list[np.ndarray], outs: list[np.ndarray], timeout: float) -> None:
        """An array from each to each."""
        what = self.begin("all_to_all", parts[0].dtype.name)
        others = self._others()
        self._exchange(
            what, [(p, parts[p]) for p in others], [(p, outs[p]) for p in others], timeout
        )
        outs[self.rank][...] = parts[self.rank]

    def barrier(self, timeout: float) -> None:
        """Returns when all have called it: log(n) rounds of empty blocks."""
        what = self.begin("barrier")
        nothing = np.empty(0, np.uint8)
        span = 1
        while span < self.size:
            to, source = (self.rank + span) % self.size, (self.rank - span) % self.size
            self._exchange(what, [(to, nothing)], [(source, nothing)], timeout)
            span *= 2
