"""Gradients averaged over processes while backward runs: the engine of `DistributedDataParallel`.

At first all parameters are in one bucket. The second iteration's forward makes buckets of some bytes, in the order in
which gradients came in the first backward of rank 0; where unused parameters are looked for, there are such buckets
from the beginning, in the reverse of the parameters' order. When the gradients of a bucket are there and those of all
buckets before it, its flat tensor is given to the communication hook; at the end of backward the averages are put into
``grad``.
"""

from __future__ import annotations

from typing import Any

import ftorch as torch

from ..eager.runtime import capture_trace
from ..futures import Future
from . import distributed_c10d as dist
from ._bucket import GradBucket
from ._ddp_logging import Times
from ._elements import fill, flat

_UNFINISHED = "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
_UNUSED = "your module has parameters that were not used in producing loss. "
_NOT_LOOKED_FOR = (
    "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
    "`torch.nn.parallel.DistributedDataParallel`, and by \n"
)
_LOOKED_FOR = (
    "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs participate in "
    "computing loss. You can fix this by "
)
_OUTPUTS = (
    "making sure all `forward` function outputs participate in calculating loss. "
    "\nIf you already have done the above, then the distributed data "
    "parallel module wasn't able to locate the output tensors in the return value of your module's "
    "`forward` function. Please include the loss function and the structure of the return value of "
    "`forward` of your module when reporting this issue (e.g. list, dict, iterable)."
)
_CHANGED = (
    "your training graph has changed in this iteration, e.g., one parameter is used in first iteration, but then got unused in "
    "the second iteration. this is not compatible with static_graph set to True."
)
_WHICH = (
    "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print out "
    "information about which particular parameters did not receive gradient on this rank as part of this error"
)
_TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following reasons: "
    "1) Use of a module parameter outside the `forward` function. Please make sure model parameters are "
    "not shared across multiple concurrent forward-backward passes. or try to use _set_static_graph() as "
    "a workaround if this module graph does not change during training loop.2) Reused parameters in "
    "multiple reentrant backward passes. For example, if you use multiple `checkpoint` functions to wrap "
    "the same part of your model, it would result in the same set of parameters been used by different "
    "reentrant backward passes multiple times, and hence marking a variable ready multiple times. DDP does "
    "not support such use cases in default. You can try to use _set_static_graph() as a workaround if "
    "your module graph does not change over iterations."
)


def buckets_of(parameters, order, limits, alone=frozenset()) -> list[list[int]]:
    """Indices of parameters by bucket, in the order in which buckets are full.

    Args:
        order: the indices in the order in which they are put in.
        limits: bytes at which a bucket is full: of the first ones of a dtype and device; the last is that of all others.
        alone: ids of parameters that have buckets of their own.
    """
    return [indices for indices, _ in limited_buckets_of(parameters, order, limits, alone)]


def compute_bucket_assignment_by_size(tensors, bucket_size, expect_sparse_gradient=(), tensor_indices=(), logger=None):
    """(indices of tensors by bucket, the bytes at which each is full or 0)

    Args:
        bucket_size: bytes of the first buckets; the last is that of all others.
        expect_sparse_gradient: whether a tensor has a bucket of its own.
        tensor_indices: the numbers of the tensors, which come in the order of their gradients; without, buckets are sorted.
    """
    alone = {id(t) for t, sparse in zip(tensors, expect_sparse_gradient) if sparse}
    made = limited_buckets_of(tensors, range(len(tensors)), bucket_size, alone)
    made = [([tensor_indices[i] for i in b], n) for b, n in made] if tensor_indices else sorted(made)
    return [indices for indices, _ in made], [limit for _, limit in made]


def limited_buckets_of(parameters, order, limits, alone) -> list[tuple[list[int], float]]:
    """`buckets_of`, each with the bytes at which it is full."""
    open_: dict = {}
    made: list = []
    for i in order:
        p = parameters[i]
        if id(p) in alone:
            made.append(([i], 0))
            continue
        indices, size, full = open_.get(key := (p.dtype, str(p.device)), ([], 0, 0))
        indices.append(i)
        size += p.numel() * p.element_size()
        limit = limits[min(full, len(limits) - 1)]
        if size >= limit:
            made.append((indices, limit))
            open_[key] = [], 0, full + 1
        else:
            open_[key] = indices, size, full
    return made + [(b, limits[min(full, len(limits) - 1)]) for b, _, full in open_.values() if b]


def all_reduce_hook(group, bucket) -> Future:
    """The default hook: the average over the group's processes."""
    buffer = bucket.buffer().div_(group.size() if bucket.divisor is None else bucket.divisor)
    work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda f: f.value()[0])


class Reducer:
    """Averages the gradients of parameters over the processes of a group.

    Args:
        limits: bytes of the first buckets; the last is that of all others.
        as_views: whether gradients become views of buckets.
        finds_unused: whether parameters that a loss does not reach are looked for.
        from_the_first: whether the first iteration has the limits' buckets, too.
        sparse: ids of the parameters whose gradients are sparse.
    """

    def __init__(self, parameters, group, limits=(1 << 20, 25 << 20), as_views=False, finds_unused=False, static=False,
                 names=None, from_the_first=False, sparse=frozenset()):
        self.parameters, self.group = list(parameters), group
        self.as_views, self.finds_unused, self.static = as_views, finds_unused, static
        self.names, self.sparse = names or [], sparse
        self.limits = list(limits)
        at_first = self.limits if from_the_first or finds_unused and not static else [float("inf")]
        self._take(sorted(buckets_of(self.parameters, range(len(self.parameters)), at_first, self.sparse))[::-1])
        self.first_buckets, self.rebuilt, self.iterations = self.buckets, False, 0
        self.noted: dict = {}
        self.order: list[int] = []  # in which gradients came
        self.hook, self.hook_state = all_reduce_hook, group
        self.armed = False
        self.unsynced = False  # whether gradients may be those of this process
        self.expected: list[int] | None = None  # with a static graph, how often gradients come: as in the first iteration
        self.divisor: int | None = None
        self.times = Times()
        self.reached_by: Any = None  # outputs -> ids of the leaves that they depend on
        self.touched: set[int] = set()  # by backward passes since gradients were last averaged
        self._clear()
        self.handles = [
            p.register_post_accumulate_grad_hook(self._hook_of(i))
            for i, p in enumerate(self.parameters)
        ]
        self.finished = True

    def _take(self, buckets):
        self.buckets = buckets
        self.bucket_of = {i: b for b, indices in enumerate(buckets) for i in indices}

    def rebuild(self) -> bool:
        """Makes buckets in the order in which gradients came, once; whether it did. All processes must call it."""
        if self.rebuilt or self.finds_unused and not self.static or self.iterations < (2 if self.static else 1):
            return False
        order = list(dict.fromkeys([*self.order, *reversed(range(len(self.parameters)))]))
        if self.group.size() > 1:
            given = torch.tensor(order, dtype=torch.int32)
            dist.broadcast(given, group=self.group, group_src=0)
            order = given.tolist()
        self._take(buckets_of(self.parameters, order, self.limits, self.sparse))
        self._clear()
        self.rebuilt = True
        return True

    def fixed_buckets(self) -> list[list[int]]:
        """The buckets from now on, in the order in which they are exchanged: those that there are if they were made anew, else
        ones in the reverse of the parameters' order.

        Programs hold them, and a process that runs in Python where others have a program exchanges the same.
        """
        if not self.rebuilt:
            self._take(buckets_of(self.parameters, reversed(range(len(self.parameters))), self.limits, self.sparse))
            self._clear()
            self.rebuilt = True
        return self.buckets

    def note(self) -> None:
        """Keeps what `ftorch.distributed._ddp_logging` says of the last iteration's buckets."""
        self.noted = {
            "has_rebuilt_buckets": int(self.rebuilt), "unused_parameter_size": self._sum(self.unused),
            "prev_iteration_grad_ready_order_indices": ", ".join(map(str, self.fired)),
        }
        if self.rebuilt:
            self.noted["rebuilt_bucket_sizes"] = self.sizes_of(self.buckets)
            self.noted["rebuilt_per_bucket_param_indices"] = ", ".join(" ".join(map(str, b)) for b in self.buckets)

    def _sum(self, indices):
        return sum(p.numel() * p.element_size() for p in (self.parameters[i] for i in indices))

    def sizes_of(self, buckets) -> str:
        """The bytes of buckets, as text."""
        return ", ".join(str(self._sum(b)) for b in buckets)

    def _hook_of(self, i):
        return lambda p: self._arrived(i)

    def _clear(self):
        self.ready: set[int] = set()
        self.fired: dict[int, None] = {}  # in order
        self.left = [len(b) for b in self.buckets]
        self.futures: list = [None] * len(self.buckets)
        self.next = 0
        self.queued = False
        self.unused: set[int] = set()
        self.counts = [0] * len(self.parameters)  # how often gradients came

    def prepare(self, reached: set[int] | None) -> None:
        """A forward has run whose gradients are to be averaged.

        Args:
            reached: ids of the parameters that its output depends on; None: all.

        Raises:
            RuntimeError: if gradients of the last one are missing.
        """
        if not self.finished and self.armed and self.fired:
            self._raise_unfinished()
        self._clear()
        self.armed, self.finished = True, False
        if reached is not None:
            self.unused = {i for i, p in enumerate(self.parameters) if id(p) not in reached}
        if self.static and self.expected is not None:
            self.unused = {i for i, n in enumerate(self.expected) if not n}

    def prepare_for_backward(self, outputs) -> None:
        """Gradients of the next backward are averaged, also of a forward that ran under ``no_sync``.

        Args:
            outputs: what the forward gave, if parameters that it does not depend on are looked for; else [].
        """
        self.prepare(self.reached_by(outputs) if outputs and self.finds_unused and self.reached_by else None)

    def check_finished(self) -> None:
        """Raises RuntimeError if the last backward did not reach all parameters."""
        if not self.finished and self.armed and self.fired:
            self._raise_unfinished()

    def _raise_unfinished(self):
        missing, rank = [i for i in range(len(self.parameters)) if i not in self.ready], self.group.rank()
        self.armed = False
        why = _CHANGED if self.static else _UNUSED + (_LOOKED_FOR if self.finds_unused else _NOT_LOOKED_FOR) + _OUTPUTS
        says = dist.get_debug_level() is not dist.DebugLevel.OFF
        names = ", ".join(self.names[i] for i in reversed(missing)) if says and self.names else ""
        raise RuntimeError(
            f"{_UNFINISHED}{why}" + (f"\nParameters which did not receive grad for rank {rank}: {names}" if names else "")
            + f"\nParameter indices which did not receive grad for rank {rank}: {' '.join(map(str, missing))}"
            + ("" if says else _WHICH)
        )

    def _arrived(self, i):
        if (
            not self.armed and capture_trace.capturing() is not None
        ):  # see `_programs.data_parallel`
            return
        if self.parameters[i].grad is not None:  # else it is that of a result which the loss does not use
            self.touched.add(i)
        if not self.armed:
            return
        self._begin()
        if i in self.ready and not self.static:
            name = f" with name {self.names[i]}" if self.names else ""
            raise RuntimeError(
                f"{_TWICE}\nParameter at index {i}{name} has been marked as ready twice. This means that multiple autograd "
                "engine  hooks have fired for this particular parameter during this iteration."
            )
        self.fired[i] = None
        if not self.rebuilt:
            self.order = [*self.order, i] if i not in self.order else [j for j in self.order if j != i] + [i]
        if self.static:
            self.counts[i] += 1
            if self.expected is None or self.counts[i] != self.expected[i]:
                return
        self._mark(i)

    def _begin(self):
        """The first gradient of an iteration is about to come."""
        if self.queued:
            return
        self.queued = True
        self.times.mark("backward")
        if self.static and self.expected is None:
            # How often gradients come is known at the end of all: a checkpoint's backward runs within another.
            torch.autograd.Variable._execution_engine._queue_outermost(self._finish_first)
        for unused in sorted(self.unused, reverse=True):
            self._mark(unused)

    def _finish_first(self):
        if not self.armed:
            return
        self.expected = list(self.counts)
        for i in range(len(self.parameters)):
            self._mark(i)

    def _mark(self, i):
        if i in self.ready:
            return
        self.ready.add(i)
        b = self.bucket_of[i]
        self.left[b] -= 1
        while self.next < len(self.buckets) and not self.left[self.next]:
            self._launch(self.next)
            self.next += 1
        if self.next == len(self.buckets) and len(self.ready) == len(self.parameters):
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _launch(self, b):
        self.times.mark("communication", again=False)
        parameters = [self.parameters[i] for i in self.buckets[b]]
        with torch.no_grad():
            first = parameters[0].grad
            if id(parameters[0]) in self.sparse and first is not None and first.is_sparse:
                buffer = first.clone()
            else:
                parts = [
                    (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters
                ]
                buffer = torch.cat(parts) if len(parts) > 1 else parts[0].clone()
            sizes = [p.numel() for p in parameters]
            bucket = GradBucket(b, buffer, parameters, sizes, b == len(self.buckets) - 1, self.divisor)
            try:
                self.futures[b] = self._reduce(bucket)
            except Exception:
                # Recorded work runs here: where forward's fails, the next forward begins anew, as if it had failed itself.
                self.armed = self.armed and self.hook is not all_reduce_hook
                raise

    def _reduce(self, bucket):
        """The future of what the hook makes of a bucket."""
        future = self.hook(self.hook_state, bucket)
        if not isinstance(future, Future):
            kind = type(future)
            raise RuntimeError(
                f"Unable to cast Python instance of type {kind} to C++ type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or "
                "compile in debug mode for details). DDP communication hook's callback must return a torch.futures.Future "
                f"object, but got {kind.__module__}.{kind.__qualname__}"
            )
        return future

    def _used_anywhere(self):
        """Whether any process' backward reached each parameter."""
        used = torch.zeros(len(self.parameters), dtype=torch.int32)
        for i in self.touched:
            used[i] = 1
        dist.all_reduce(used, group=self.group)
        return [bool(n) for n in used.tolist()]

    def _finish(self):
        if not self.armed:
            return
        self.times.mark("computed")
        used = self._used_anywhere() if self.finds_unused or self.static else None
        with torch.no_grad():
            for b, future in enumerate(self.futures):
                result = future.wait()
                result = result[0] if isinstance(result, (list, tuple)) else result
                self._put(b, result, used)
        self.armed, self.finished, self.touched, self.unsynced = False, True, set(), False
        self.iterations += 1
        self.times.end()

    def _put(self, b, buffer, used):
        if buffer.is_sparse:
            self.parameters[self.buckets[b][0]].grad = buffer
            return
        sizes = [self.parameters[i].numel() for i in self.buckets[b]]
        for i, part in zip(self.buckets[b], buffer.split(sizes)):
            p = self.parameters[i]
            if used is not None and not used[i]:
                continue
            part = part.view(p.shape).to(p.dtype)
            if p.grad is None or self.as_views:
                p.grad = part if self.as_views else part.clone()
            else:
                p.grad.copy_(part)

    def shadow(self) -> None:
        """The part of a process that has no more inputs in one iteration of the others."""
        self.rebuild()
        self.iterations += 1
        for b, indices in enumerate(self.buckets):
            parameters = [self.parameters[i] for i in indices]
            sizes = [p.numel() for p in parameters]
            buffer = torch.zeros(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
            bucket = GradBucket(b, buffer, parameters, sizes, b == len(self.buckets) - 1)
            self._reduce(bucket).wait()
        if self.finds_unused or self.static:
            self.touched = set()
            self._used_anywhere()


def broadcast_coalesced(group, tensors, root: int = 0) -> None:
    """Gives all processes the tensors of a group's rank, one exchange for each dtype."""
    import numpy as np

    by_dtype: dict = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t)
    for same in by_dtype.values():
        own = np.concatenate([flat(t) for t in same])
        holder = torch.from_numpy(own) if own.dtype.kind in "fiub" and own.dtype.itemsize > 1 else None
        if holder is None:
            for t in same:
                dist.broadcast(t, group=group, group_src=root)
            continue
        dist.broadcast(holder, group=group, group_src=root)
        if group.rank() != root:
            values, at = flat(holder), 0
            for t in same:
                fill(t, values[at : at + t.numel()].copy())
                at += t.numel()


def verify_parameters(group, parameters) -> None:
    """Raises RuntimeError unless all processes have the same parameters."""
    shapes = [(list(p.shape), str(p.dtype)) for p in parameters]
    everybody: list = [None] * group.size()
    dist.all_gather_object(everybody, shapes, group=group)
    own = group.rank()
    for rank, theirs in enumerate(everybody):
        if len(theirs) != len(shapes):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {own} has {len(shapes)} params, "
                f"while rank {rank} has inconsistent {len(theirs)} params."
            )
        for i, (a, b) in enumerate(zip(shapes, theirs)):
            if a != b:
                raise RuntimeError(
                    f"[{own}]: params[{i}] in this process with sizes {a[0]} appears not to match sizes "
                    f"of the same param in process {rank}."
                )
