"""When the parameters of `fully_shard` are gathered and given up: around a module's forward and its backward.

Forward's outputs tell when backward begins: a hook on them gathers the parameters again, so that whatever backward
runs, also a forward that is computed again, finds them whole. Forward's inputs tell when it is through: their
gradient comes last. What has no such input is done at the end of the whole backward.
"""

from __future__ import annotations

import sys
from enum import Enum, auto

import ftorch as torch

from ...autograd import Function
from ...eager.autograd.backward import running
from ...eager.runtime import capture_trace
from ...eager.tensor import modes
from ...utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from ..tensor import DTensor
from ._device_group import DeviceGroup
from ._group import _View


class TrainingState(Enum):
    """Where in a training step a module is."""

    IDLE = auto()
    FORWARD = auto()
    PRE_BACKWARD = auto()
    POST_BACKWARD = auto()


class Root:
    """What all divided modules within one share: the outermost, whose forward is called."""

    def __init__(self, states):
        self.states, self.is_queued = states, False

    def queue(self):
        """Has the running backward call `finish`."""
        if not self.is_queued:
            self.is_queued = True
            torch.autograd.Variable._execution_engine.queue_callback(self.finish)

    def finish(self):
        """At the end of a backward: reduces what no input's gradient has announced."""
        for state in self.states:
            state.modules_to_run.clear()
            if state.training is not TrainingState.POST_BACKWARD:
                state.group.post_backward()
            state.training = TrainingState.IDLE
        self.is_queued = False


class State:
    """What `fully_shard` knows of a module, or of several that are gathered together."""

    def __init__(self, group, policy, modules, is_automatic):
        self.group, self.policy, self.modules = group, policy, modules
        self.is_automatic = is_automatic  # whether the outermost keeps its parameters until backward
        self.root: Root | None = None
        self.is_root = False
        self.training = TrainingState.IDLE
        self.modules_to_run: set[torch.nn.Module] = set()  # of several: those that forward has yet to call
        self.depth = 0
        self.hooks: list = []
        self.unshards_in_backward = True
        self.had_waiting = False  # whether gradients of earlier backwards waited when the last one began

    def reset(self):
        """After a forward or backward that failed: parts are the parameters, gradients that wait are dropped."""
        self._rest()
        if self.root is not None:
            self.root.is_queued = False
        for p in self.group.parameters:
            p.take_gradient()
        self.group.partial.clear()

    def _rest(self):
        while self.hooks:
            hooks = self.hooks.pop()
            if hooks is not None:
                hooks.__exit__(None, None, None)
        self.depth, self.training = 0, TrainingState.IDLE
        self.modules_to_run.clear()
        self.group.reshard()

    def recover(self, module):
        """Of the outermost, as its forward begins: ends what an interrupt or an error has left half done. Gradients that a
        backward has left are dropped, unless those of earlier ones wait with them."""
        if not self.is_root or running() is not None or (self.depth and self.depth < _calls(module)):
            return
        # Of modules that are gathered together forward may have called some: the others are waited for.
        if self.root.is_queued or any(
            not state.modules_to_run and (state.training is not TrainingState.IDLE or state.depth) for state in self.root.states
        ):
            for state in self.root.states:
                if isinstance(state.group, DeviceGroup):
                    continue
                if not state.had_waiting and state.training in (TrainingState.PRE_BACKWARD, TrainingState.POST_BACKWARD):
                    for p in state.group.parameters:
                        p.take_gradient()
                state._rest()
            self.root.is_queued = False

    def begin(self, module):
        """At the first forward of all: the module is the outermost.

        Raises:
            RuntimeError: if one within was that before, or parameters have no memory yet.
        """
        if self.root is not None:
            return
        if len(self.modules) > 1:
            raise RuntimeError(f"FSDP requires a single root module but got {tuple(self.modules)}")
        states: dict[State, None] = {}
        for name, inner in module.named_modules():
            state = getattr(inner, "_fsdp_state", None)
            if state is None:
                continue
            if state is not self and state.is_root:
                raise RuntimeError(
                    f"FSDP state has already been lazily initialized for {name}\nFSDP requires running forward through "
                    "the root module first"
                )
            states[state] = None
        self._check_memory(module, states)
        root, self.is_root = Root([*states]), True
        for state in states:
            state.root = root
        if self.is_automatic:
            self.group.reshard_after_forward = False

    def _check_memory(self, module, states):
        names = {id(p): name for name, p in module.named_parameters()}
        for state in states:
            if state.group.whole is None:
                for p in state.group.parameters:
                    p.adopt()
            missing = [names.get(id(p.sharded), p.owners[0][1]) for p in state.group.parameters if p.local.is_meta]
            if missing:
                raise RuntimeError(
                    "FSDP parameters should be materialized from meta device before training, "
                    f"but the following were still on meta device: {missing}\n"
                    "For example, call module.to_empty(device) to materialize to device and "
                    "call module.reset_parameters() on each module to initialize values."
                )

    def pre_backward(self, grad):
        """Before the backward of what forward computed."""
        self.root.queue()
        if self.training is not TrainingState.PRE_BACKWARD:
            self.had_waiting = not isinstance(self.group, DeviceGroup) and any(p.waits for p in self.group.parameters)
            self.training = TrainingState.PRE_BACKWARD
            if self.unshards_in_backward:
                self.group.unshard()

    def post_backward(self):
        """When all gradients of the module's parameters are there."""
        self.training = TrainingState.POST_BACKWARD
        self.group.post_backward()


class RegisterPostBackwardFunction(Function):
    """The inputs of a forward; their gradient is the last thing that its backward computes."""

    @staticmethod
    def forward(ctx, state, *inputs):
        ctx.state = state
        ctx.set_materialize_grads(False)
        return inputs

    @staticmethod
    def backward(ctx, *grads):
        ctx.state.post_backward()
        return None, *grads


def _local(x):
    return x._local_tensor if isinstance(x, DTensor) else x


def _announced(state, args):
    """Arguments whose gradient says that the module's backward is through."""
    leaves, spec = tree_flatten(args)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not places:
        return args
    for i, x in zip(places, RegisterPostBackwardFunction.apply(state, *[_local(leaves[i]) for i in places])):
        before = leaves[i]
        leaves[i] = DTensor._made(x, before.device_mesh, before.placements, tuple(before.shape)) if (
            isinstance(before, DTensor)
        ) else x
    return tree_unflatten(leaves, spec)


class _Packed:
    """What the hooks around a module's forward made of a tensor that it saved."""

    def __init__(self, value, unpack):
        self.value, self.unpack = value, unpack


def _saving(group):
    """Has saved views of whole parameters remembered as views; all else is left to the hooks around."""
    around = modes.saved_hooks[-1] if modes.saved_hooks else None

    def pack(t):
        kept = group.pack(t)
        if around is None or isinstance(kept, _View):
            return kept
        return _Packed(around[0](t), around[1])

    return torch.autograd.graph.saved_tensors_hooks(pack, _unpacked)


def _unpacked(kept):
    if isinstance(kept, _View):
        return kept.tensor()
    return kept.unpack(kept.value) if isinstance(kept, _Packed) else kept


def _cast(x, dtype):
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


_CALLS = {"_ftorch_run_hooks": "self", "wrapped": "module"}  # functions that call `before`, and their variable of the module


def _calls(module):
    """How many calls of a module the thread is in, the one that begins included: after an interrupt fewer than have begun."""
    found, frame = 0, sys._getframe()
    while frame is not None:
        variable = _CALLS.get(frame.f_code.co_name)
        found += variable is not None and frame.f_locals.get(variable) is module
        frame = frame.f_back
    return found


def before(state, module, args, kwargs):
    """Before a forward: gathers the parameters."""
    group, dtype = state.group, state.policy.param_dtype
    is_on_devices = isinstance(group, DeviceGroup)
    if is_on_devices:
        args, kwargs = group.spread((args, kwargs))
    elif (capture := capture_trace.capturing()) is not None:
        # A program would neither gather when backward comes, nor leave the module as these hooks do.
        capture.end("fully_shard gathers parameters in Python")
    if not is_on_devices:
        state.recover(module)
    begins = not state.modules_to_run and not state.depth  # not within its own call
    if len(state.modules) > 1 and begins:
        state.modules_to_run.update(state.modules)
    if begins and state.training is not TrainingState.PRE_BACKWARD:
        if not is_on_devices:
            state.begin(module)
            state.training = TrainingState.FORWARD
        group.unshard()
    state.depth += 1
    grads = torch.is_grad_enabled()
    if group.reshard_after_forward and grads:
        hooks = _saving(group)
        hooks.__enter__()
        state.hooks.append(hooks)
    else:
        state.hooks.append(None)
    if dtype is not None and state.policy.cast_forward_inputs:
        args, kwargs = tree_map(lambda x: _cast(x, dtype), (args, kwargs))
    if begins and grads and not is_on_devices and state.training is TrainingState.FORWARD:
        args, kwargs = _announced(state, (args, kwargs))
    return args, kwargs


def after(state, module, args, output):
    """Behind a forward: gives the parameters up, unless backward finds them there."""
    if not state.depth:
        return None  # it has not begun
    hooks = state.hooks.pop()
    if hooks is not None:
        hooks.__exit__(None, None, None)
    state.depth -= 1
    group, is_on_devices = state.group, isinstance(state.group, DeviceGroup)
    if len(state.modules) > 1:
        state.modules_to_run.discard(module)
    ends = not state.depth and not state.modules_to_run
    if ends and (is_on_devices or (group.reshard_after_forward and state.training is TrainingState.FORWARD)):
        group.reshard()
    if (dtype := state.policy.output_dtype) is not None:
        output = tree_map(lambda x: _cast(x, dtype), output)
    if ends and state.training is TrainingState.FORWARD:
        state.training = TrainingState.IDLE
        if torch.is_grad_enabled():
            for x in tree_leaves(output):
                if isinstance(x, torch.Tensor) and x.requires_grad:
                    _local(x).register_hook(state.pre_backward)
    return output if dtype is not None else None
