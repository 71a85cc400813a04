"""Which results a checkpointed function keeps (selective activation checkpointing), and what is told
of the ops of its two runs when they differ.

Both are pairs of modes that see the ops of the first run and of the run in backward.
"""

from __future__ import annotations

import enum
import functools
import traceback
from collections import defaultdict
from typing import Any

from .._old_names import place_in
from .._ops import OpOverload, OpOverloadPacket, ops
from ..eager.tensor import TensorBase
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map

# Autograd and the hooks of checkpoints detach in one run what they do not in the other.
SAC_IGNORED_OPS = {ops.aten.detach.default}


class SelectiveCheckpointContext:
    """What a policy is told besides the op and its arguments
    (``torch.utils.checkpoint.SelectiveCheckpointContext``).

    Attributes:
        is_recompute: always False: the second run asks no policy.
        op_output: what the op returned.
    """

    def __init__(self, *, is_recompute, op_output=None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class CheckpointPolicy(enum.Enum):
    """What becomes of an op's result (``torch.utils.checkpoint.CheckpointPolicy``): ``SAVE`` keeps
    it for backward, everything else has it computed again. Whether it must or should be so makes
    no difference here."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class _Kept:
    """A result's leaf, and the version that it had."""

    def __init__(self, value) -> None:
        is_tensor = isinstance(value, TensorBase)
        self.value = value.detach() if is_tensor else value
        self.version = value._version if is_tensor else None

    def get(self, may_change):
        if self.version is not None and not may_change and self.value._version != self.version:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated"
            )
        return self.value


_RECOMPUTE, _CONSUMED = object(), object()  # instead of a result

_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend "
    "on global state that changed between forward and backward."
)


class _Counting(TorchDispatchMode):
    """Numbers the calls of each op. `storage` has the results, by op and number."""

    def __init__(self, storage) -> None:
        self.storage = storage
        self.func_counter: dict[Any, int] = defaultdict(int)

    def _number(self, func):
        number = self.func_counter[func]
        self.func_counter[func] += 1
        return number

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        return self._call(func, self._number(func), args, kwargs or {})

    def _call(self, func, number, args, kwargs):
        raise NotImplementedError


class _CachingTorchDispatchMode(_Counting):
    """The first run: keeps what the policy says."""

    def __init__(self, policy_fn, storage) -> None:
        super().__init__(storage)
        self.policy_fn = policy_fn

    def _call(self, func, number, args, kwargs):
        result = func(*args, **kwargs)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        policy = self.policy_fn(context, func, *args, **kwargs)
        if policy in (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE):
            self.storage[func][number] = tree_map(_Kept, result)
        else:
            self.storage[func][number] = _RECOMPUTE
        return result


class _CachedTorchDispatchMode(_Counting):
    """The second run: gives out what was kept, once."""

    def __init__(self, policy_fn, storage, allow_cache_entry_mutation=False) -> None:
        super().__init__(storage)
        self.allow_cache_entry_mutation = allow_cache_entry_mutation

    def __enter__(self):
        self.func_counter.clear()
        return super().__enter__()

    def _call(self, func, number, args, kwargs):
        kept = self.storage.get(func)
        if kept is None:
            raise RuntimeError(
                f"{func} encountered during backward but not found in storage. {_MISMATCH}"
            )
        entry = kept.get(number)
        if entry is None:
            raise RuntimeError(
                f"{func} invocation index {number} encountered during backward "
                f"but not found in storage. {_MISMATCH}"
            )
        if entry is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once "
                "on any region computed under selective activation checkpoint."
            )
        if entry is _RECOMPUTE:
            return func(*args, **kwargs)
        kept[number] = _CONSUMED
        return tree_map(lambda leaf: leaf.get(self.allow_cache_entry_mutation), entry)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """The two contexts of a checkpoint that keeps the results of some ops
    (``torch.utils.checkpoint.create_selective_checkpoint_contexts``).

    Args:
        policy_fn_or_list: the ops to keep the results of (overloads, ``torch.ops.aten.mm.default``),
            or a function of a `SelectiveCheckpointContext`, the op and its arguments that returns a
            `CheckpointPolicy`, or True for those to keep.
        allow_cache_entry_mutation: do not check whether kept results were written to.

    Raises:
        ValueError: for a list of something else. TypeError: for neither. RuntimeError: in backward,
            if the ops differ, a kept result was written to, or was already used.

    >>> import functools
    >>> import ftorch as torch
    >>> from ftorch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep_products = functools.partial(
    ...     create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    >>> x = torch.eye(2, requires_grad=True)
    >>> y = checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=keep_products)
    >>> y.sum().backward()
    >>> x.grad
    tensor([[5.4366, 2.0000],
            [2.0000, 5.4366]])
    """
    policy = policy_fn_or_list
    if isinstance(policy, list):
        for op in policy:
            if not isinstance(op, OpOverload):
                hint = (
                    "Please update the OpOverloadPacket to a specific OpOverload."
                    "For example, if you have `torch.ops.aten.mm`, change it to "
                    "`torch.ops.aten.mm.default`."
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type "
                    f"{type(op)}. {hint if isinstance(op, OpOverloadPacket) else ''}"
                )
        policy = functools.partial(_is_listed, policy)
    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, dict[int, Any]] = defaultdict(dict)
    return (
        _CachingTorchDispatchMode(policy, storage),
        _CachedTorchDispatchMode(None, storage, allow_cache_entry_mutation),
    )


def _is_listed(listed, context, op, *args, **kwargs):
    return op in listed


class OpLog(TorchDispatchMode):
    """Notes the ops that are called, and from where."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []

    def __enter__(self):
        self.calls.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        shown = [_short(a) for a in args] + [f"{k}={_short(v)}" for k, v in (kwargs or {}).items()]
        stack = [
            f"{frame.filename}:{frame.lineno}:{frame.name}"
            for frame in reversed(traceback.extract_stack()[:-1])
        ]
        self.calls.append((f"{_short(result)} = {func}({', '.join(shown)})", stack))
        return result

    def operations(self) -> str:
        """The calls, one a line."""
        return "\n".join(call for call, _ in self.calls)

    def traces(self, label) -> str:
        """The calls with their stacks."""
        return "\n".join(
            f"{call}   ({i} of {len(self.calls)} in {label})\n\n" + "\n".join(stack) + "\n\n"
            for i, (call, stack) in enumerate(self.calls, 1)
        )


def _short(value):
    if isinstance(value, TensorBase):
        return f"{str(value.dtype).rsplit('.', 1)[-1]}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_short, value))}]"
    return repr(value)


def explanation(first: OpLog, second: OpLog) -> str:
    """What ``debug=True`` says when two runs differ."""
    return f"""An error happened while unpacking tensors. These are the ops of both runs, because you
passed `debug=True` to `torch.utils.checkpoint.checkpoint()`; the error is explained at the end.

1. Stack traces of the operators that ran in the original forward

{first.traces("original")}
2. Stack traces of the operators that ran during recomputation

{second.traces("recompute")}
3. Operations executed during the original forward:

{first.operations()}

Operations executed during recomputation:

{second.operations()}

ERROR: Detected non-determinism while running activation checkpointing

The tensors that were saved in the original forward differ from those that were saved during
recomputation, which happens if different operators ran. Compare the operators of section 3, and look
up in sections 1 and 2 where they were called. Calls of "detach" are made by checkpointing itself.
"""

place_in("utils.checkpoint", CheckpointPolicy, SelectiveCheckpointContext)
