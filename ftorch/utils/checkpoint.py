"""Activation checkpointing (``torch.utils.checkpoint``): saved tensors are computed again in backward.

The non-reentrant form drops what autograd saves and, when backward first needs one of those tensors,
runs the function again to get them all. The reentrant form records nothing in forward and runs
the function, and backward through it, inside its own backward.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref

from ..amp.autocast_mode import autocast
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..eager.autograd.backward import ExecutionEngine, backward
from ..eager.autograd.backward import running as passing
from ..eager.dispatch import autocast as _autocast
from ..eager.native.contexts import contextmanager, repeatable
from ..eager.tensor import TensorBase, modes, new_leaf
from ..random import fork_rng, get_rng_state, set_rng_state
from ._selective_checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    OpLog,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
    explanation,
)

__all__ = [
    "SAC_IGNORED_OPS", "CheckpointError", "CheckpointFunction", "CheckpointPolicy",
    "DefaultDeviceType", "GraphExecGroup", "SelectiveCheckpointContext", "check_backward_validity",
    "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop", "set_device_states",
]

_UNSPECIFIED = (
    "torch.utils.checkpoint{}: the use_reentrant parameter should be passed explicitly. {}"
    "use_reentrant=False is recommended, but if you need to preserve the current default behavior, "
    "you can pass use_reentrant=True. Refer to docs for more details on the differences between the "
    "two variants."
)


class CheckpointError(RuntimeError):
    """Running a function again gave other tensors than running it first."""


def noop_context_fn():
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


_options: dict[str, bool | None] = {"early_stop": None, "debug": None}  # for all checkpoints


@contextmanager
def _with_option(name, value):
    before, _options[name] = _options[name], value
    try:
        yield
    finally:
        _options[name] = before


def set_checkpoint_early_stop(enable: bool):
    """Inside, running again stops (or does not) once the last saved tensor is there."""
    return _with_option("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None):
    """Inside, errors show (or do not) the ops of both runs; None leaves it to ``debug``."""
    return _with_option("debug", enabled)


class DefaultDeviceType:
    """The device whose generators are kept if no tensor is on one
    (``torch.utils.checkpoint.DefaultDeviceType``)."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The accelerator, or "cpu", unless it was set."""
        if not DefaultDeviceType._default_device_type:
            from ..accelerator import current_accelerator

            found = current_accelerator(True)
            DefaultDeviceType._default_device_type = "cpu" if found is None else found.type
        return DefaultDeviceType._default_device_type


class GraphExecGroup:
    """A block in which each checkpointed call runs again at most once, in however many calls of
    backward; these must not need the same saved tensor (``torch.utils.checkpoint.GraphExecGroup``).

    Raises:
        RuntimeError: for one inside another. CheckpointError: in a backward that needs what another
            one has used.
    """

    _current: GraphExecGroup | None = None

    def __enter__(self):
        if GraphExecGroup._current is not None:
            raise RuntimeError(
                "GraphExecGroup contexts cannot be nested. "
                f"Already inside group {GraphExecGroup._current}"
            )
        GraphExecGroup._current = self
        return self

    @repeatable
    def __exit__(self, *exception) -> None:
        GraphExecGroup._current = None

    @classmethod
    def _get_current_group(cls):
        return cls._current


def detach_variable(inputs: tuple) -> tuple:
    """Tensors detached, requiring grad as before; other values as they are.

    Raises:
        RuntimeError: unless ``inputs`` is a tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        new_leaf(i.detach(), i.requires_grad) if isinstance(i, TensorBase) else i
        for i in inputs
    )


def check_backward_validity(inputs) -> None:
    """Warns if no input requires grad."""
    if not any(i.requires_grad for i in inputs if isinstance(i, TensorBase)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def get_device_states(*args) -> tuple[list[int], list]:
    """The GPUs of some tensors, and the states of their generators."""
    from ..cuda import get_rng_state as of_gpu

    devices = sorted({a.get_device() for a in args if isinstance(a, TensorBase) and a.is_cuda})
    return devices, [of_gpu(d) for d in devices]


def set_device_states(devices, states, *, device_type=None) -> None:
    """Sets the states of GPUs' generators."""
    from ..cuda import set_rng_state as of_gpu

    for device, state in zip(devices, states):
        of_gpu(state, device)


class _Surroundings:
    """What the function's results depend on besides its arguments: generators and autocast."""

    def __init__(self, preserve_rng_state, args):
        self.autocast = [
            (kind, _autocast.is_enabled(kind), dtype) for kind, dtype in
            _autocast.state.dtypes.items() if kind == "cpu" or _autocast.is_enabled(kind)
        ]
        self.rng = None
        if preserve_rng_state:
            self.rng = get_rng_state(), get_device_states(*args)

    @contextmanager
    def restored(self):
        with contextlib.ExitStack() as stack:
            if self.rng is not None:
                state, (devices, states) = self.rng
                stack.enter_context(fork_rng(devices=devices))
                set_rng_state(state)
                set_device_states(devices, states)
            for kind, is_on, dtype in self.autocast:
                stack.enter_context(autocast(kind, dtype=dtype, enabled=is_on))
            yield


# --- the reentrant form --------------------------------------------------------------


class CheckpointFunction(Function):
    """The reentrant form: see `checkpoint`."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state, args)
        ctx.inputs = [None if isinstance(a, TensorBase) else a for a in args]
        ctx.positions = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        ctx.save_for_backward(*(args[i] for i in ctx.positions))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if not ExecutionEngine.is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        with enable_grad():  # so that they come back requiring grad
            saved = ctx.saved_tensors
        for i, tensor in zip(ctx.positions, saved):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        with ctx.surroundings.restored(), enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (o, g) for o, g in zip(outputs, grads) if isinstance(o, TensorBase) and o.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(d.grad if isinstance(d, TensorBase) else None for d in detached))


# --- the other form ------------------------------------------------------------------


class _Stop(Exception):
    """All saved tensors are there. No BaseException: modules' hooks with ``always_call`` have to end what they began."""


class _Place:
    """Stands for one saved tensor. ``value`` is there between running again and its use."""

    __slots__ = ("value", "about", "__weakref__")

    def __init__(self, about):
        self.value = None
        self.about = about


def _default_about(t):
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


class _Frame:
    """One checkpointed call.

    Attributes:
        places: a weak reference for every tensor that forward saved, in order.
        run: runs the function again.
        logs: the ops of both runs, if errors are to show them.
        groups: the `GraphExecGroup` blocks in which it has run again, and passes: the backward passes (`passing`).
    """

    def __init__(self, run, about, early_stop, logs):
        self.run, self.about, self.early_stop, self.logs = run, about, early_stop, logs
        self.places: list = []
        self.groups: weakref.WeakSet = weakref.WeakSet()
        self.passes: set = set()

    def pack(self, t):
        place = _Place(self.about(t))
        self.places.append(weakref.ref(place))
        return place

    def unpack(self, place):
        try:
            return self._unpack(place)
        except CheckpointError as e:
            if self.logs is None:
                raise
            raise CheckpointError(explanation(*self.logs)) from e

    def _unpack(self, place):
        group, number = GraphExecGroup._get_current_group(), passing()
        done = number in self.passes if group is None else group in self.groups
        if place.value is None and not done:
            self._fill()
        if group is not None:
            self.groups.add(group)
        elif number is not None:
            self.passes.add(number)
        if place.value is None:
            overlap = "" if group is None else (
                "Performing two backward calls that overlap (i.e. require the same saved activation "
                "in order to compute gradients) is not allowed while under the "
                "torch.utils.checkpoint.GraphExecGroup context. "
            )
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                f"unpacked once. {overlap}If you are calling ctx.saved_tensors in backward, make "
                "sure to do so only once. Otherwise please open an issue with details on your use "
                "case."
            )
        value, place.value = place.value, None
        return value

    def _fill(self):
        """Runs the function again, and puts what it saves into the places."""
        saved = []

        def pack(t):
            if t.requires_grad:
                t = new_leaf(t.detach(), t.is_leaf)
            saved.append(t)
            if len(saved) <= len(self.places):
                place = self.places[len(saved) - 1]()
                if place is not None:
                    place.value = t
            if self.early_stop and len(saved) == len(self.places):
                raise _Stop
            return t

        try:
            with saved_tensors_hooks(pack, lambda t: t), enable_grad():
                self.run()
        except _Stop:
            pass
        self._check(saved)

    def _check(self, saved):
        if len(saved) != len(self.places):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original "
                f"forward and recomputation.\nNumber of tensors saved during forward: "
                f"{len(self.places)}\nNumber of tensors saved during recomputation: {len(saved)}."
            )
        lines = []
        for i, (reference, t) in enumerate(zip(self.places, saved)):
            place = reference()
            if place is not None and place.about != self.about(t):
                lines.append(
                    f"tensor at position {i}:\nsaved metadata: {place.about}\nrecomputed metadata: "
                    f"{self.about(t)}"
                )
        if lines:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different "
                "metadata than during the forward pass.\n" + "\n".join(lines) + "\n.\n\n"
                "Tip: To see a more detailed error message, either pass `debug=True` to\n"
                "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block\n"
                "with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\n"
                "enable checkpoint\u2011debug mode globally.\n\n"
                "If this error occurs under torch.compile with automatic_dynamic_shapes enabled,\n"
                "it may be because the recomputation selected a different compiled graph than the\n"
                "forward pass (e.g., a dynamic graph instead of the original static graph).\n"
                "To fix this, either:\n"
                "  - Use torch._dynamo.mark_dynamic() to explicitly mark varying dimensions as\n"
                "    dynamic upfront, avoiding the static-to-dynamic transition.\n"
                "  - Call torch._C._dynamo.eval_frame._set_lru_cache(False) to disable LRU cache\n"
                "    reordering, which can change which graph is checked first between forward\n"
                "    and recompute.\n"
                "See https://github.com/pytorch/pytorch/issues/166926 for more details and\n"
                "workaround examples.\n"
            )


def _metadata_function(determinism_check):
    known = {"default": _default_about, "none": lambda t: None}
    if determinism_check not in known:
        raise ValueError(
            f"determinism_check should be one of {list(known)}, but got {determinism_check}"
        )
    return known[determinism_check]


def _checkpoint(function, preserve, context_fn, determinism_check, debug, early_stop, args, kwargs):
    logs = None
    if debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        logs = OpLog(), OpLog()
        context_fn = lambda: logs  # noqa: E731
    about = _metadata_function(determinism_check)
    forward_context, recompute_context = context_fn()
    surroundings = _Surroundings(preserve, (*args, *kwargs.values()))

    def run():
        with surroundings.restored(), recompute_context:
            function(*args, **kwargs)

    frame = _Frame(run, about, early_stop, logs)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


# --- the public functions ------------------------------------------------------------


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn,
               determinism_check="default", debug=False, early_stop=True, **kwargs):
    """Calls a function so that backward computes its intermediate results again.

    Args:
        use_reentrant: which form (give it): False takes keyword arguments, nested structures and
            ``torch.autograd.grad``.
        context_fn: gives two contexts, for the first and for the second run.
        determinism_check: "default" compares shapes, dtypes and devices of both runs, "none" nothing.
        debug: show the ops of both runs if they differ.
        early_stop: whether the second run ends with the last tensor needed.
        kwargs: of the function; ``preserve_rng_state=False`` does not draw the same random numbers.

    Raises:
        CheckpointError: (in backward) if the second run differs. ValueError: for options that the
            reentrant form does not take.

    >>> import ftorch as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> y = torch.utils.checkpoint.checkpoint(lambda x: x.exp() * x, x, use_reentrant=False)
    >>> y.sum().backward()
    >>> x.grad
    tensor([ 5.4366, 22.1672])
    """
    if use_reentrant is None:
        warnings.warn(
            _UNSPECIFIED.format(
                "", "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
                "exception. ",
            ), stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        if not modes.grad:
            return function(*args, **kwargs)
        stop, debug = (
            given if _options[name] is None else _options[name]
            for name, given in (("early_stop", early_stop), ("debug", debug))
        )
        return _checkpoint(
            function, preserve, context_fn, determinism_check, debug, stop, args, kwargs
        )
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Calls modules one after the other, in segments of which all but the last are checkpointed.

    Args:
        functions: an ``nn.Sequential``, or a list of functions.
        segments: how many.

    Raises:
        ValueError: for unknown keyword arguments.
    """
    if use_reentrant is None:
        warnings.warn(
            _UNSPECIFIED.format(
                ".checkpoint_sequential",
                "In version 2.9 we will raise an exception if use_reentrant is not passed. ",
            ), stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def segment(start, end):
        def run(value):
            for step in steps[start:end]:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    for start in range(0, size * (segments - 1), size):  # which refuses more segments than modules, as PyTorch's
        input = checkpoint(
            segment(start, start + size), input, use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return segment(size * (segments - 1), len(steps))(input)
