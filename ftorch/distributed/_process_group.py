"""`ProcessGroup`: the collectives of tensors among some processes."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

import ftorch as torch

from . import _options as options
from ._algorithms import Collectives, as_bytes
from ._elements import fill, flat, has_none, room
from ._mailbox import Mailbox
from ._reductions import Reduction
from ._store import DEFAULT_TIMEOUT, Store, seconds
from ._transport import Mesh
from ._work import Line, Work, recorded

_BARRIER_TAG = -(1 << 62)


class ProcessGroup:
    """Processes that call collectives together, each with its rank in the group
    (``torch.distributed.ProcessGroup``; the backend of the name ``gloo``).

    Args:
        store: where the processes leave their addresses. ``ProcessGroup(rank, size)``, without one, exchanges nothing: a
            class derived from this one says how.
        rank, size: the calling process' place in the group, and the number of processes.
    """

    BackendType: type
    backend_name = "gloo"
    group_name = "0"  # a class derived from this one may have properties instead
    group_desc = "undefined"
    bound_device_id: torch.device | None = None

    def __init__(self, store: Store | int, rank: int, size: int | None = None, timeout: timedelta = DEFAULT_TIMEOUT,
                 name: str = "0", host: str = "127.0.0.1", description: str = "undefined"):
        self.timeout = timeout
        if isinstance(store, int):
            self._rank, self._size, self.backend_name = store, rank, "undefined"
            return
        if size is None:
            raise TypeError("ProcessGroup(store, rank, size): size is missing")
        self._store, self._rank, self._size = store, rank, size
        self.group_name, self.group_desc = name, description
        self._mesh = Mesh(name, rank, size, store, host)
        self._collectives = Collectives(self._mesh)
        self._mailbox = Mailbox(self._mesh)
        self._line = Line()
        self._coalesced: list | None = None

    def __repr__(self):
        return f"<torch.distributed.distributed_c10d.ProcessGroup object at {id(self):#x}>"

    # --- what it is ---

    def rank(self) -> int:
        """The calling process' rank in the group."""
        return self._rank

    def size(self) -> int:
        """The number of processes."""
        return self._size

    def name(self) -> str:
        """The backend's name."""
        return self.getBackendName()

    def getBackendName(self) -> str:  # noqa: N802
        """`name`, for classes derived from this one to say."""
        return self.backend_name

    def get_group_store(self) -> Store:
        """The store of the group."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long a collective waits for the other processes."""
        self.timeout = timeout

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self):
        return self._collectives.number

    def _set_sequence_number_for_group(self):
        self._collectives.number = 0

    def _get_backend(self, device):
        return self

    def _get_backend_name(self):
        return self.backend_name

    def _set_group_name(self, name):
        self.group_name = name

    def _set_group_desc(self, description):
        self.group_desc = description

    @property
    def _device_types(self):
        return [torch.device("cpu")]

    @property
    def supports_splitting(self) -> bool:
        """False: groups are connected anew."""
        return False

    def boxed(self):
        """Itself."""
        return self

    unbox = boxed

    # --- running ---

    def _seconds(self, opts):
        return seconds(getattr(opts, "timeout", None) or self.timeout)

    def _submit(self, opts, title, inputs, compute, finish=None, result=None) -> Work:
        if has_none(result):  # on the meta device: nothing is exchanged
            return _nothing(result)
        work = recorded(Work(result, finish), title, inputs)
        if getattr(opts, "asyncOp", True):
            return self._line.start(work, compute)
        return self._line.run(work, compute)

    def allreduce(self, tensors, opts=None) -> Work:
        """Combines a tensor over all processes, in place."""
        tensors, opts = _listed(tensors), _opts(opts, options.AllreduceOptions)
        (t,) = tensors
        if t.is_sparse:
            return self._allreduce_sparse(t, opts)
        own, limit = flat(t), self._seconds(opts)
        reduction = Reduction(opts.reduceOp, own.dtype)
        if getattr(opts.reduceOp, "factor", None) is not None:
            own = flat(t * opts.reduceOp.factor)
        return self._submit(
            opts, "all_reduce", [t], lambda: self._collectives.all_reduce(own, reduction, limit),
            lambda r: fill(t, r, counts=False), [t]
        )

    def _allreduce_sparse(self, t, opts):
        if Reduction(opts.reduceOp, t.dtype.numpy).name != "SUM":
            raise RuntimeError(
                "ProcessGroupGloo::allreduce: unsupported reduction operation (allreduce of sparse "
                "tensors only works with ReduceOp.SUM)"
            )
        work = recorded(Work([t]), "sparse_all_reduce", [t])
        own = t.detach().coalesce()
        indices, values = own.indices(), own.values()
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self._size)]
        sync = options.AllgatherOptions(asyncOp=False, timeout=opts.timeout)
        self.allgather([counts], [torch.tensor([own._nnz()])], sync).wait()
        sizes = [int(c.item()) for c in counts]
        all_indices = [indices.new_empty((indices.shape[0], n)) for n in sizes]
        all_values = [values.new_empty((n, *values.shape[1:])) for n in sizes]
        self._gather_uneven(all_indices, indices.contiguous(), sync).wait()
        self._gather_uneven(all_values, values.contiguous(), sync).wait()
        total = torch.sparse_coo_tensor(torch.cat(all_indices, 1), torch.cat(all_values), t.shape, check_invariants=False)
        with torch.no_grad():
            t.copy_(total.coalesce())._coalesced_(True)
        work._run(lambda: None)
        return work

    def _gather_uneven(self, outs, own, opts):
        arrays, mine, limit = [room(o) for o in outs], flat(own), self._seconds(opts)
        work = self._submit(
            opts, "all_gather", [own], lambda: self._collectives.all_gather(mine, arrays, limit),
            lambda _: [fill(o, a) for o, a in zip(outs, arrays)], list(outs),
        )
        return work

    def allreduce_coalesced(self, tensors, opts=None) -> Work:
        """`allreduce` of several tensors of one dtype, as one."""
        tensors, opts = list(tensors), _opts(opts, options.AllreduceCoalescedOptions)
        own, limit = np.concatenate([flat(t) for t in tensors]), self._seconds(opts)
        reduction = Reduction(opts.reduceOp, own.dtype)
        return self._submit(
            opts, "all_reduce", tensors, lambda: self._collectives.all_reduce(own, reduction, limit),
            lambda r: _fill_parts(tensors, r), tensors,
        )

    def reduce(self, tensors, root=None, op=None, opts=None) -> Work:
        """`allreduce` whose result one rank gets."""
        (t,) = _listed(tensors)
        opts = _opts(root if isinstance(root, options._Options) else opts, options.ReduceOptions)
        root = root if isinstance(root, int) else opts.rootRank
        self._check_root("reduce", root)
        own, limit = flat(t), self._seconds(opts)
        reduction = Reduction(op or opts.reduceOp, own.dtype)
        return self._submit(
            opts, "reduce", [t], lambda: self._collectives.reduce(own, root, reduction, limit),
            lambda r: r is None or fill(t, r, counts=False), [t],
        )

    def broadcast(self, tensors, root=None, opts=None) -> Work:
        """Gives all processes the tensor of one rank, in place."""
        (t,) = _listed(tensors)
        opts = _opts(root if isinstance(root, options._Options) else opts, options.BroadcastOptions)
        root = root if isinstance(root, int) else opts.rootRank
        self._check_root("broadcast", root)
        data, limit = (flat(t) if self._rank == root else room(t)), self._seconds(opts)
        return self._submit(
            opts, "broadcast", [t], lambda: self._collectives.broadcast(data, root, limit),
            lambda _: self._rank == root or fill(t, data, counts=False), [t],
        )

    def _check_root(self, name, root):
        if not 0 <= root < self._size:
            raise RuntimeError(f"ProcessGroupGloo::{name}: invalid root rank: {root}")

    def allgather(self, output_tensors, input_tensors=None, opts=None) -> Work:
        """Fills a list with the tensors of all processes, by rank."""
        if input_tensors is None or isinstance(output_tensors, torch.Tensor):
            raise TypeError("allgather(): output_tensors and input_tensors must be lists")
        outs = output_tensors[0] if isinstance(output_tensors[0], (list, tuple)) else output_tensors
        (t,) = _listed(input_tensors)
        opts = _opts(opts, options.AllgatherOptions)
        if len(outs) != self._size:
            raise RuntimeError(
                "ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length "
                f"{self._size}, got {len(outs)})"
            )
        _check_alike("allgather", t, outs)
        return self._gather_uneven(list(outs), t, opts)

    def allgather_coalesced(self, output_lists, input_list, opts=None) -> Work:
        """`allgather` of several tensors, each rank's with the same shapes."""
        opts = _opts(opts, options.AllgatherOptions)
        own, limit = np.concatenate([flat(t).view(np.uint8) for t in input_list]), self._seconds(opts)
        outs = [np.empty_like(own) for _ in range(self._size)]

        def finish(_):
            for rank, row in enumerate(output_lists):
                at = 0
                for t in row:
                    n = t.numel() * t.element_size()
                    fill(t, outs[rank][at : at + n].copy().view(t.dtype.numpy))
                    at += n

        return self._submit(
            opts, "all_gather", input_list, lambda: self._collectives.all_gather(own, outs, limit), finish, output_lists
        )

    def _allgather_base(self, output, input, opts=None) -> Work:
        """The tensors of all processes in one, joined along the first dimension."""
        opts = _opts(opts, options.AllgatherOptions)
        if output.numel() != input.numel() * self._size:
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        if output.dtype != input.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        own, out, limit = flat(input), room(output), self._seconds(opts)
        parts = list(out.reshape(self._size, -1))
        return self._submit(
            opts, "all_gather", [input], lambda: self._collectives.all_gather(own, parts, limit),
            lambda _: fill(output, out), [output],
        )

    def all_gather_single(self, *args, **kwargs) -> Work:
        """`_allgather_base`, by its later name."""
        return self._allgather_base(*args, **kwargs)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None) -> Work:
        """`_allgather_base` of several."""
        from ._work import Joint

        return Joint([self._allgather_base(o, i, opts) for o, i in zip(outputs, inputs)], outputs)

    def all_gather_single_coalesced(self, *args, **kwargs) -> Work:
        """`allgather_into_tensor_coalesced`, by its later name."""
        return self.allgather_into_tensor_coalesced(*args, **kwargs)

    def gather(self, output_tensors, input_tensors=None, opts=None, root=None) -> Work:
        """`allgather` whose result one rank gets."""
        if isinstance(opts, int):
            root, opts = opts, None
        opts = _opts(opts, options.GatherOptions)
        root = opts.rootRank if root is None else root
        self._check_root("gather", root)
        (t,) = _listed(input_tensors)
        outs = list(_inner(output_tensors))
        if self._rank == root:
            self._check_count("gather", "output", outs)
            _check_alike("gather", t, outs)
        own, limit, arrays = flat(t), self._seconds(opts), [room(o) for o in outs]
        return self._submit(
            opts, "gather", [t], lambda: self._collectives.gather(own, arrays, root, limit),
            lambda _: [fill(o, a) for o, a in zip(outs, arrays)], outs,
        )

    def _check_count(self, name, kind, tensors):
        if len(tensors) != self._size:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: Incorrect {kind} list size {len(tensors)}. "
                f"{kind.capitalize()} list size should be {self._size}, same as size of the process group."
            )

    def scatter(self, output_tensors, input_tensors=None, opts=None, root=None) -> Work:
        """Gives each process its tensor of one rank's list."""
        if isinstance(opts, int):
            root, opts = opts, None
        opts = _opts(opts, options.ScatterOptions)
        root = opts.rootRank if root is None else root
        self._check_root("scatter", root)
        (t,) = _listed(output_tensors)
        parts = list(_inner(input_tensors))
        if self._rank == root:
            self._check_count("scatter", "input", parts)
            _check_alike("scatter", t, parts)
        out, given, limit = room(t), [flat(p) for p in parts], self._seconds(opts)
        return self._submit(
            opts, "scatter", parts, lambda: self._collectives.scatter(out, given, root, limit),
            lambda _: fill(t, out, counts=False), [t],
        )

    def reduce_scatter(self, output_tensors, input_tensors=None, op=None, opts=None) -> Work:
        """Combines lists of tensors over all processes; each gets its own element."""
        if isinstance(op, options._Options):
            op, opts = None, op
        (t,) = _listed(output_tensors)
        parts = list(_inner(input_tensors))
        opts = _opts(opts, options.ReduceScatterOptions)
        if len(parts) != self._size:
            raise RuntimeError("invalid input tensor list size, must be world size")
        return self._reduce_parts(t, [flat(p) for p in parts], op or opts.reduceOp, opts)

    def _reduce_parts(self, t, parts, op, opts):
        limit, reduction = self._seconds(opts), Reduction(op, parts[0].dtype)
        if t.numel() != parts[self._rank].size:
            raise RuntimeError(
                f"reduce_scatter: output has {t.numel()} elements, its input {parts[self._rank].size}"
            )
        return self._submit(
            opts, "reduce_scatter", parts, lambda: self._collectives.reduce_scatter(parts, reduction, limit),
            lambda r: fill(t, r), [t],
        )

    def _reduce_scatter_base(self, output, input, opts=None) -> Work:
        """`reduce_scatter` of one tensor, cut along the first dimension."""
        opts = _opts(opts, options.ReduceScatterOptions)
        if output.dtype != input.dtype:
            raise TypeError("input tensor must be the same type as the output tensor.")
        if input.numel() != output.numel() * self._size:
            raise ValueError("input tensor must be the same size as output size times world size")
        own = flat(input)
        if getattr(opts.reduceOp, "factor", None) is not None:
            own = flat(input * opts.reduceOp.factor)
        return self._reduce_parts(output, list(own.reshape(self._size, -1)), opts.reduceOp, opts)

    def reduce_scatter_single(self, *args, **kwargs) -> Work:
        """`_reduce_scatter_base`, by its later name."""
        return self._reduce_scatter_base(*args, **kwargs)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None) -> Work:
        """`_reduce_scatter_base` of several."""
        from ._work import Joint

        return Joint([self._reduce_scatter_base(o, i, opts) for o, i in zip(outputs, inputs)], outputs)

    def reduce_scatter_single_coalesced(self, *args, **kwargs) -> Work:
        """`reduce_scatter_tensor_coalesced`, by its later name."""
        return self.reduce_scatter_tensor_coalesced(*args, **kwargs)

    def alltoall(self, output_tensors, input_tensors, opts=None) -> Work:
        """Each process gives one tensor to each."""
        opts = _opts(opts, options.AllToAllOptions)
        outs, given = list(output_tensors), list(input_tensors)
        for kind, tensors in (("input", given), ("output", outs)):
            if len(tensors) != self._size:
                raise RuntimeError(
                    f"ProcessGroupGloo::alltoall: {kind} tensor list size {len(tensors)} does not match "
                    f"world size {self._size}"
                )
        arrays, parts, limit = [room(o) for o in outs], [flat(t) for t in given], self._seconds(opts)
        return self._submit(
            opts, "all_to_all", given, lambda: self._collectives.all_to_all(parts, arrays, limit),
            lambda _: [fill(o, a) for o, a in zip(outs, arrays)], outs,
        )

    def alltoall_base(self, output, input, output_splits=None, input_splits=None, opts=None) -> Work:
        """`alltoall` of pieces of one tensor, along the first dimension."""
        opts, limit = _opts(opts, options.AllToAllOptions), None
        limit = self._seconds(opts)
        out = room(output)
        parts = self._splits(flat(input), input, input_splits)
        arrays = self._splits(out, output, output_splits)
        if parts[self._rank].size != arrays[self._rank].size:
            raise RuntimeError("[enforce fail at gloo/alltoallv.cc:138] inLengthPerRank[myRank] == outLengthPerRank[myRank]. ")
        return self._submit(
            opts, "all_to_all", [input], lambda: self._collectives.all_to_all(parts, arrays, limit),
            lambda _: fill(output, out, counts=False), [output],
        )

    def all_to_all_single(self, *args, **kwargs) -> Work:
        """`alltoall_base`, by its later name."""
        return self.alltoall_base(*args, **kwargs)

    def _splits(self, array, t, splits):
        rows = t.shape[0] if t.dim() else 0
        if not splits:
            if rows % self._size:
                raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
            splits = [rows // self._size] * self._size
        if len(splits) != self._size:
            raise RuntimeError("Number of tensor splits not equal to group size")
        if sum(splits) != rows:
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
        width = array.size // rows if rows else 0
        ends = np.cumsum([0, *splits]) * width
        return [array[a:b] for a, b in zip(ends[:-1], ends[1:])]

    def barrier(self, opts=None) -> Work:
        """Complete when all processes have called it."""
        opts = _opts(opts, options.BarrierOptions)
        limit = self._seconds(opts)
        return self._submit(opts, "barrier", (), lambda: self._collectives.barrier(limit))

    def monitored_barrier(self, timeout=None, wait_all_ranks: bool = False) -> None:
        """A barrier of which rank 0 says who is missing."""
        limit = seconds(self.timeout if timeout is None else timeout)
        if self._rank:
            self._mailbox.send(0, _BARRIER_TAG, b"", limit)
            self._mailbox.receive(0, _BARRIER_TAG, limit * 2)
            return
        if limit <= 0 and self._size > 1:
            took = int(limit * 1000)
            raise RuntimeError(
                f"[Rank 0]: Rank 1 failed to pass monitoredBarrier in {took} ms\n Original exception: \n"
                f"Rank 0 timed out in monitoredBarrier after {took} ms.\n"
                "No ranks successfully processed in monitoredBarrier."
            )
        missing = []
        for peer in range(1, self._size):
            try:
                self._mailbox.receive(peer, _BARRIER_TAG, 0.05 if missing else limit)
            except RuntimeError:
                missing.append(peer)
                if not wait_all_ranks:
                    break
        if missing:
            names = ", ".join(map(str, missing))
            raise RuntimeError(
                f"[Rank 0]: {'Ranks' if wait_all_ranks else 'Rank'} {names} failed to pass "
                f"monitoredBarrier in {int(limit * 1000)} ms"
            )
        for peer in range(1, self._size):
            self._mailbox.send(peer, _BARRIER_TAG, b"", limit)

    # --- messages ---

    def send(self, tensors, dst: int, tag: int = 0) -> Work:
        """Sends a tensor to a rank of the group."""
        (t,) = _listed(tensors)
        work, limit = recorded(Work([t]), "send", [t]), seconds(self.timeout)
        work._run(lambda: has_none(t) or self._mailbox.send(dst, tag, as_bytes(flat(t)), limit))
        return work

    def recv(self, tensors, src: int | None, tag: int = 0) -> Work:
        """Receives a tensor from a rank of the group (None: from any)."""
        (t,) = _listed(tensors)
        if has_none(t):
            return _nothing([t], src or 0)
        return recorded(_Receive(self, t, src, tag), "recvAnySource" if src is None else "recv", [t])

    def recv_anysource(self, tensors, tag: int = 0) -> Work:
        """`recv` from any rank."""
        return self.recv(tensors, None, tag)

    # --- several at once, and the end ---

    def _start_coalescing(self, device=None):
        self._coalesced = []

    def _end_coalescing(self, device=None):
        from ._work import Joint

        works, self._coalesced = self._coalesced or [], None
        return Joint(works)

    def abort(self) -> None:
        """Ends the connections; who waits gets an error."""
        self._mesh.close()
        self._mailbox.wake()

    def shutdown(self) -> None:
        """Ends the group when everything under way is done."""
        if not hasattr(self, "_line"):
            return  # without connections
        last = self._line._last
        if last is not None:
            last._arrived.wait(seconds(self.timeout))
        self._line.close()
        self._mesh.has_ended = True
        self.abort()


class _Receive(Work):
    """A receive: it takes its message when somebody waits or asks."""

    def __init__(self, group, t, source, tag):
        super().__init__([t])
        self._group, self._tensor, self._key, self._taken = group, t, (source, tag), False

    def _take(self, timeout):
        with self._lock:
            if self._taken:
                return
            try:
                self._source, data = self._group._mailbox.receive(*self._key, timeout)
                array = np.frombuffer(data, self._tensor.dtype.numpy)
                room = self._tensor.numel()
                if array.size > room:
                    raise RuntimeError(f"recv: a message of {array.size} elements from rank {self._source} does not fit {room}")
                if array.size < room:  # what is behind it stays
                    array = np.concatenate([array, flat(self._tensor)[array.size :]])
                fill(self._tensor, array, counts=False)
            except BaseException as error:
                self._error = error
            if self._over is not None:
                self._over()
            self._taken = True
            self._arrived.set()

    def wait(self, timeout=None) -> bool:
        self._take(seconds(timeout or self._group.timeout))
        return super().wait()

    def is_completed(self) -> bool:
        mailbox = self._group._mailbox
        with mailbox.changed:
            there = mailbox._found(*self._key) is not None
        if there and not self._taken:
            self._take(0.0)
        return self._taken

    def get_future(self):
        self._take(seconds(self._group.timeout))
        return super().get_future()


def _nothing(result, source=None):
    """The handle of an exchange that is over at once."""
    work = Work(result, source=source)
    work._run(lambda: None)
    return work


def _listed(tensors):
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _inner(lists):
    lists = [] if lists is None else list(lists)
    return lists[0] if lists and isinstance(lists[0], (list, tuple)) else lists


def _opts(given, kind):
    if given is None:
        return kind()
    if not isinstance(given, options._Options):  # a reduction, or a timeout
        return kind(timeout=given) if isinstance(given, timedelta) else kind(reduceOp=given)
    for name, value in kind._defaults.items():
        if not hasattr(given, name):
            setattr(given, name, value)
    return given


def _fill_parts(tensors, array):
    at = 0
    for t in tensors:
        fill(t, array[at : at + t.numel()])
        at += t.numel()


def _shown(shape):
    return f"({', '.join(map(str, shape))})"


def _check_alike(name, t, others):
    for i, other in enumerate(others):
        if other.dtype != t.dtype:
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor type at index {i} (expected {t.dtype}, got "
                f"{other.dtype})"
            )
        if tuple(other.shape) != tuple(t.shape):
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor size at index {i} (expected "
                f"{_shown(t.shape)}, got {_shown(other.shape)})"
            )
