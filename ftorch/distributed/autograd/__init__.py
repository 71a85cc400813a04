"""Backward over remote procedure calls (``torch.distributed.autograd``).

Within a `context`, a message with tensors that require gradients has a number. The receiver's tensors are leaves
of its part of the graph; when gradients reach them they go back to the sender under that number, whose own part
of backward begins there. Backward is linear in the gradients, so each message's are passed on as they come and all
contributions add up in the contexts of the processes, never in ``grad``.
"""

from __future__ import annotations

import itertools
import threading

import ftorch as torch

from ...eager.native.contexts import contextmanager

__all__ = ["backward", "context", "get_gradients", "is_available"]

_contexts: dict = {}
_lock = threading.Lock()
_local = threading.local()
_agent: list = []


def is_available() -> bool:
    """True."""
    return True


class DistAutogradContext:
    """What this process knows of a context (`_retrieve_context` gives it)."""

    def __init__(self, number):
        self.number = number
        self.sent: dict[tuple, list] = {}  # {message: tensors}
        self.received: dict[int, tuple] = {}  # {id of a tensor: (tensor, sender, message, place)}
        self.gradients: dict = {}
        self.workers: set = set()
        self.lock = threading.Lock()

    def _context_id(self) -> int:
        return self.number

    def _known_worker_ids(self) -> set[int]:
        return set(self.workers)


def _attach(agent) -> None:
    """Lets an agent's messages carry contexts."""
    numbers = itertools.count()

    def outgoing(tensors, to):
        found = _current()
        if found is None or not any(t.requires_grad for t in tensors):
            return None if found is None else [found.number, -1, -1]
        message = agent.info.id, next(numbers)
        with found.lock:
            found.sent[message] = list(tensors)
            found.workers.add(to.id)
        return [found.number, *message]

    def restore(made, described, note, source):
        for t, values in zip(made, described):
            if values[3]:
                t.requires_grad_()
        for i, values in enumerate(described):
            if values[4]:
                made[i] = torch.nn.Parameter(made[i].detach(), values[3])
        if note and note[1] >= 0 and note[0] in _contexts:
            found = _contexts[note[0]]
            with found.lock:
                found.workers.add(source)
                for i, t in enumerate(made):
                    if t.requires_grad:
                        found.received[id(t)] = t, source, (note[1], note[2]), i

    @contextmanager
    def within(made, described):
        tensors, note, source = described
        kept = getattr(_local, "context", None)
        if note:
            with _lock:
                found = _contexts.setdefault(note[0], DistAutogradContext(note[0]))
            found.workers.add(source)
            _local.context = found
        else:
            _local.context = None
        try:
            restore(made, tensors, note, source)
            yield
        finally:
            _local.context = kept

    def arrived(made, described):
        restore(made, described[0], described[1], described[1][1] if described[1] else None)

    agent.attach, agent.within, agent.arrived = outgoing, within, arrived
    agent.handlers |= {"gradients": _gradients_came, "release": _released}
    _agent[:] = [agent]


def _detach() -> None:
    _agent.clear()
    _contexts.clear()


def _current():
    return getattr(_local, "context", None)


class context:  # noqa: N801
    """A context of distributed backward; its number is what `backward` and `get_gradients` take.

    >>> import ftorch as torch, tempfile
    >>> from ftorch.distributed import autograd, rpc
    >>> options = rpc.TensorPipeRpcBackendOptions(init_method="file://" + tempfile.mktemp())
    >>> rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
    >>> x = torch.ones(2, requires_grad=True)
    >>> with autograd.context() as number:
    ...     loss = rpc.rpc_sync("a", torch.mul, (x, 3)).sum()
    ...     autograd.backward(number, [loss])
    ...     autograd.get_gradients(number)[x]
    tensor([3., 3.])
    >>> rpc.shutdown()
    """

    _numbers = itertools.count()

    def __enter__(self) -> int:
        if not _agent:
            raise RuntimeError(
                "Need to initialize distributed autograd using torch.distributed.autograd._init()"
            )
        number = (_agent[0].info.id << 48) + next(context._numbers)
        if _current() is not None:
            raise RuntimeError("Already have an autograd context id for this thread")
        self.made = _contexts[number] = _local.context = DistAutogradContext(number)
        return number

    def __exit__(self, *_):
        _local.context = None
        _release(self.made.number)


def _release(number) -> None:
    with _lock:
        found = _contexts.pop(number, None)
    if found is None or not _agent:
        return
    for rank in found.workers - {_agent[0].info.id}:
        try:
            _agent[0].call(_agent[0].worker(rank), "release", number, note=[])
        except RuntimeError:
            pass  # it has gone


def _released(source, number):
    _release(number)


def _retrieve_context(context_id: int) -> DistAutogradContext:
    if context_id not in _contexts:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}")
    return _contexts[context_id]


def _current_context() -> DistAutogradContext:
    if not _agent:
        raise RuntimeError("Need to initialize distributed autograd using torch.distributed.autograd.init()")
    found = _current()
    if found is None:
        raise RuntimeError(
            "Current thread doesn't have a valid autograd context. Please wrap your code using: `with "
            "torch.distributed.autograd.context() as context_id` to generate a valid context"
        )
    return found


def _is_valid_context(context_id: int) -> bool:
    return context_id in _contexts


def get_gradients(context_id: int) -> dict:
    """{tensor: gradient} of this process' leaves in a context."""
    found = _retrieve_context(context_id)
    with found.lock:
        return {leaf: g for leaf, g in found.gradients.values()}


def backward(context_id: int, roots: list, retain_graph: bool = False) -> None:
    """Backward from tensors of one element each, through all processes that took part in a context.

    Raises:
        RuntimeError: for roots without gradients or with several elements.
    """
    found = _retrieve_context(context_id)
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError(f"{list(root.shape)} is not a scalar, all roots need to be scalar")
    _pass(found, list(roots), [torch.ones_like(r) for r in roots])


def _leaves(outputs) -> list:
    """The leaves that outputs depend on."""
    found, seen, todo = {}, set(), [(t.grad_fn, t) for t in outputs]
    while todo:
        node, leaf = todo.pop()
        if node is None:
            if leaf is not None and leaf.requires_grad:
                found[id(leaf)] = leaf
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        own = getattr(node, "variable", None)
        if own is not None:
            found[id(own)] = own
        todo += [(n, None) for n, _ in node.next_functions if n is not None]
    return list(found.values())


def _pass(found, outputs, grads) -> None:
    """This process' part of backward from some tensors; what reaches received ones goes on to their senders."""
    leaves = _leaves(outputs)
    if not leaves:
        return
    given = torch.autograd.grad(outputs, leaves, grads, retain_graph=True, allow_unused=True)
    on_the_way: dict = {}
    with found.lock, torch.no_grad():
        for leaf, g in zip(leaves, given):
            if g is None:
                continue
            received = found.received.get(id(leaf))
            if received is not None:
                _, sender, message, place = received
                on_the_way.setdefault((sender, message), []).append((place, g))
            elif id(leaf) in found.gradients:
                found.gradients[id(leaf)] = leaf, found.gradients[id(leaf)][1] + g
            else:
                found.gradients[id(leaf)] = leaf, g
    futures = [
        _agent[0].call(_agent[0].worker(sender), "gradients", (found.number, message, parts), note=[])
        for (sender, message), parts in on_the_way.items()
    ]
    for future in futures:
        future.wait()


def _gradients_came(source, value):
    number, message, parts = value
    found = _retrieve_context(number)
    tensors = found.sent[tuple(message)]
    pairs = [(tensors[place], g) for place, g in parts if tensors[place].requires_grad]
    _pass(found, [t for t, _ in pairs], [g for _, g in pairs])
