"""Tools for the graph: saved-tensor hooks, gradient edges, hooks over several tensors."""

from __future__ import annotations

import abc
import contextlib
import threading
import weakref
from typing import NamedTuple

from ..eager.autograd import nodes, tape
from ..eager.autograd.backward import running, will_run
from ..eager.autograd.mode_contexts import DisabledSavedTensorsHooks
from ..eager.call.op import hooks
from ..eager.core.handles import RemovableHandle
from ..eager.native.contexts import contextmanager, repeatable
from ..eager.tensor import count_write, counter_of, modes


class Node(abc.ABC):
    """What the nodes of the graph are: a class by which they are known, whichever classes implement them.

    >>> import ftorch as torch
    >>> y = torch.ones(2, requires_grad=True).exp()
    >>> isinstance(y.grad_fn, torch.autograd.graph.Node)
    True
    """

    @classmethod
    def __subclasshook__(cls, kind):
        return True if cls is Node and issubclass(kind, nodes.Node) else NotImplemented

    @abc.abstractmethod
    def name(self) -> str:
        """The node's name, such as ``"ExpBackward0"``."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple:
        """((node, output number), ...) of the inputs."""
        raise NotImplementedError

    @abc.abstractmethod
    def metadata(self) -> dict:
        """A dict for the user's own use."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def _input_metadata(self) -> list:
        raise NotImplementedError

    @abc.abstractmethod
    def register_hook(self, fn):
        """Calls ``fn(grad_inputs, grad_outputs)`` after the node ran; it may replace grad_inputs."""
        raise NotImplementedError

    @abc.abstractmethod
    def register_prehook(self, fn):
        """Calls ``fn(grad_outputs)`` before the node runs; it may replace them."""
        raise NotImplementedError


class GradientEdge(NamedTuple):
    """A place where a gradient flows: a node and the number of one of its outputs.

    ``ownership_token`` keeps what a node of another kind of program needs; here it is None.
    """

    node: Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge at which the gradient of a tensor is computed.

    Raises:
        RuntimeError: if the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not "
                           "require gradients")
    return GradientEdge(*tape.edge_of(tensor))


class saved_tensors_hooks:
    """Packs every tensor saved for backward inside, and unpacks it when it is needed.

    >>> import ftorch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self):
        modes.saved_hooks = modes.saved_hooks + [(self.pack_hook, self.unpack_hook)]  # noqa: RUF005
        return self

    @repeatable
    def __exit__(self, *_):
        modes.saved_hooks = modes.saved_hooks[:-1]


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in the host's memory until backward."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


class _AllowMutationOnSavedContext:
    """What `allow_mutation_on_saved_tensors` gives: the saved tensors, as they were.

    They are kept as long as the graph that needs them, and not past the context.
    """

    def __init__(self):
        self._kept = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle = weakref.WeakValueDictionary()  # {which elements, as of which write: what stands for them}

    @property
    def cloned(self) -> dict:
        """The saved tensors that were written to since, by what stands for them in the graph."""
        return {key: kept for key, kept in self._kept.items() if key.counter.version != key.version}

    def pack(self, t):
        counter = counter_of(t)
        what = id(t._ftorch_storage), t._ftorch_offset, t._ftorch_geometry, id(counter), counter.version
        key = self.tid_to_weakhandle.get(what)
        if key is None:
            key = self.tid_to_weakhandle[what] = _Key(counter)
            self._kept[key] = t.clone()  # inside a program a copy is the value itself
        return key

    def unpack(self, key):
        if key not in self._kept:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        return self._kept[key]

    def clear(self):
        """Lets go of the saved tensors; backward through them is an error from now on."""
        self._kept.clear()
        self.tid_to_weakhandle.clear()


class _Key:
    """Stands for a saved tensor in the graph."""

    def __init__(self, counter):
        self.counter, self.version = counter, counter.version


_allows_mutation = False


@contextmanager
def allow_mutation_on_saved_tensors():
    """Lets tensors that were saved for backward be written to: backward uses what they were.

    Graphs made inside can only be used inside. Gives an object whose ``clear()`` frees what was saved.

    Raises:
        RuntimeError: if contexts are nested. AssertionError: from backward outside.

    >>> import ftorch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y**2).sum()
    ...     _ = y.sin_()
    ...     z.backward()
    >>> x.grad
    tensor([2., 2.])
    """
    global _allows_mutation
    if _allows_mutation:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    snapshots = _AllowMutationOnSavedContext()
    _allows_mutation = True
    try:
        with saved_tensors_hooks(snapshots.pack, snapshots.unpack):
            yield snapshots
    finally:
        snapshots.clear()
        _allows_mutation = False


class disable_saved_tensors_hooks(DisabledSavedTensorsHooks, contextlib.ContextDecorator):  # noqa: N801
    """Raises ``error_message`` where hooks would be set inside, or are set outside."""


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls ``fn(grads)`` once the gradients of all tensors are known (or ``fn(grad)`` at the first).

    Raises:
        ValueError: for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    tensors = list(tensors)
    for t in tensors:
        if not t.requires_grad:
            raise AssertionError("Expected gradient function to be set")
    nodes = [tape.edge_of(t)[0] for t in tensors]
    states: dict = {}  # by the number of the backward pass: several may run at once, in threads

    def begin():
        """What is known in the backward pass that runs."""
        state = states.get(running())
        if state is None:
            expected = sum(will_run(node) for node in nodes)
            state = states[running()] = {"expected": expected, "grads": [None] * len(tensors), "count": 0}
        return state

    def hook_of(index):
        def hook(grad):
            with lock:
                state = begin()
                state["count"] += 1
                if state["count"] == state["expected"]:
                    del states[running()]
                state["grads"][index] = grad
                grads = state["grads"]
                if mode == "any":
                    ready = state["count"] == 1
                else:
                    ready = state["count"] == state["expected"] and any(g is not None for g in grads)
            if ready:
                fn(grad if mode == "any" else grads)

        return hook

    handles = [t.register_hook(hook_of(i)) for i, t in enumerate(tensors)]
    return _MultiHandle(handles)


class _MultiHandle(RemovableHandle):
    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, state):
        self.handles = state


def increment_version(tensor):
    """Counts a write to a tensor (or several) that autograd did not see."""
    for t in [tensor] if hasattr(tensor, "_ftorch_storage") else tensor:
        count_write(t)


__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
    "region_activation_memory_budget", "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


# --- streams and budgets -----------------------------------------------------------------

_stream_settings = {"warn_on_mismatch": True, "override_stale_capture": False}


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether to warn of gradients made on another stream: XLA has one per device, so there are none."""
    _stream_settings["warn_on_mismatch"] = bool(enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Whether captured streams that ended are replaced: XLA has one per device, none ends."""
    _stream_settings["override_stale_capture"] = bool(enabled)


@contextmanager
def region_activation_memory_budget(budget: float):
    """How much of the activations of a compiled function is kept for its backward pass.

    XLA decides that for each program by itself: inside a compiled call the block changes nothing.

    Raises:
        ValueError: for a budget that is not in [0, 1].
        RuntimeError: outside of a compiled call.
    """
    is_compiling = hooks.is_compiling or (lambda: False)  # what compiles stands above
    where = "torch.autograd.graph.region_activation_memory_budget"
    if not 0 <= budget <= 1:
        raise ValueError(f"{where}: must be in [0, 1], got {budget}")
    if not is_compiling():
        raise RuntimeError(
            f"{where} can only be used inside a torch.compile region; it has no effect in eager mode."
        )
    yield
