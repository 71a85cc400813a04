"""``DistributedDataParallel``: the same module in several processes, with averaged gradients."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
import weakref
from typing import Any

import ftorch as torch

from ...eager.native.contexts import contextmanager
from ...eager.runtime import capture_trace
from ..modules.module import Module

_EARLIER_NAME = (
    "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. IMPORTANT: unlike "
    "`broadcast_buffers=False`, `forward_sync_buffers=False` still syncs buffers at init. If you rely on buffers NOT being "
    "synced at init (e.g. rank-local buffers), keep using `broadcast_buffers=False` until `init_sync_buffers` is available."
)
_BOTH_NAMES = (
    "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and its value is "
    "ignored when `forward_sync_buffers` is provided."
)


def _join_classes():
    from ...distributed.algorithms.join import Join, Joinable, JoinHook

    return Join, Joinable, JoinHook


def _dump_DDP_relevant_env_vars():  # noqa: N802
    """Prints the variables of the environment that say how processes talk."""
    from ...distributed._ddp_logging import print_variables

    print_variables()


@dataclasses.dataclass
class _MixedPrecision:
    """In what parameters and buffers are used, and gradients reduced."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group
    (``torch.nn.parallel.DistributedDataParallel``).

    Parameters and buffers begin as those of rank 0; buffers follow rank 0 before each forward.
    Gradients are reduced in buckets while backward runs.

    Args:
        bucket_cap_mb: the size of a bucket (25).
        find_unused_parameters: whether parameters that a forward pass does not reach count as ready.
        gradient_as_bucket_view: whether ``grad`` shares its memory with the bucket.
        static_graph: whether all iterations use the same parameters; parameters may then be used several
            times in one backward (checkpoints inside).

    Raises:
        ValueError: if there is no process group. RuntimeError: if no parameter requires grad, or the
        processes' modules differ.

    >>> import ftorch as torch
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(3, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[3., 3.]])
    >>> dist.destroy_process_group()
    """

    _active_ddp_module = None
    _divide_by_initial_world_size = True
    _ddp_sink_clone = True

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None,
                 init_sync=True, process_group=None, bucket_cap_mb=None,
                 find_unused_parameters=False, check_reduction=False,
                 gradient_as_bucket_view=False, static_graph=False,
                 delay_all_reduce_named_params=None, param_to_hook_all_reduce=None,
                 mixed_precision=None, device_mesh=None, skip_all_reduce_unused_params=False,
                 bucket_cap_mb_list=None, batched_grad_copy=False, forward_sync_buffers=None):
        super().__init__()
        dist = torch.distributed
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(
                    f"Only 1D device mesh is supported, but got {device_mesh}."
                )
            process_group = device_mesh.get_group(0)
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        trained = [
            (n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored
        ]
        if not trained:
            self._raise(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that "
                "requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        kinds = {p.device for p in module.parameters()}
        if (device_ids or output_device is not None) and all(d.type == "cpu" for d in kinds):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-"
                f"device GPU modules or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and "
                f"module parameters {kinds}."
            )
        if process_group is None:
            process_group = dist.distributed_c10d._get_default_group()
        for _, p in trained:
            if isinstance(p, torch.nn.parameter.UninitializedParameter):
                self._raise(
                    "Modules with uninitialized parameters can't be used with "
                    "`DistributedDataParallel`. Run a dummy forward pass to correctly initialize the "
                    "modules"
                )
        self.process_group = process_group
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = device_ids, output_device
        self.device = trained[0][1].device
        self.device_type = self.device.type
        syncs = broadcast_buffers is not False or forward_sync_buffers is not None
        self.forward_sync_buffers = syncs if forward_sync_buffers is None else forward_sync_buffers
        if broadcast_buffers is not None:
            warnings.warn(_BOTH_NAMES if forward_sync_buffers is not None else _EARLIER_NAME, FutureWarning, stacklevel=2)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.mixed_precision = mixed_precision
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        sizes = [int(mb * (1 << 20)) for mb in bucket_cap_mb_list or ([25] if bucket_cap_mb is None else [bucket_cap_mb])]
        self.bucket_bytes_cap = max(sizes)
        self.bucket_cap_mb_list = bucket_cap_mb_list
        self._bucket_limits = [1 << 20, *sizes] if bucket_cap_mb is None and not bucket_cap_mb_list else sizes
        self._parameter_names = [n for n, _ in trained]
        self._comm_hooks: list = []
        from ...distributed import _reducer

        parameters = [p for _, p in trained]
        if init_sync and process_group.size() > 1:
            _reducer.verify_parameters(process_group, parameters)
            held = [*module.named_parameters(), *(module.named_buffers() if syncs else ())]
            self._sync_module_states([t for n, t in held if n not in ignored])
        self._make_reducer(parameters)
        self._ddp_join_init()

    def _raise(self, text):
        raise RuntimeError(text)

    def _make_reducer(self, parameters):
        from ...distributed._reducer import Reducer

        self.reducer = Reducer(
            parameters, self.process_group, self._bucket_limits, self.gradient_as_bucket_view,
            self.find_unused_parameters, self.static_graph, self._parameter_names, bool(self.bucket_cap_mb_list),
            {
                id(m.weight) for m in self.module.modules()
                if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and m.sparse
            },
        )
        self.reducer.reached_by = _reached
        if self.mixed_precision is not None:
            from ...distributed.algorithms.ddp_comm_hooks import mixed_precision_hooks as narrow

            self.reducer.hook_state = narrow._AllreduceUpcastHookState(weakref.ref(self))
            self.reducer.hook = narrow._reducer_allreduce_and_upcast_hook

    def _log_and_throw(self, err_type, err_msg):
        self.reducer.times.error = str(err_msg)
        raise err_type(err_msg)

    def _set_static_graph(self) -> None:
        """The graph of all iterations is the same.

        Raises:
            RuntimeError: if there has been an iteration.
        """
        if self.static_graph:
            warnings.warn("You've set static_graph to be True, no need to set it again.", stacklevel=2)
            return
        if self.reducer.times.iteration:
            self._log_and_throw(
                RuntimeError,
                "set_static_graph() should be called before training loop starts and after DistributedDataParallel is "
                "constructed.",
            )
        self.static_graph = self.reducer.static = True
        if self.find_unused_parameters:
            warnings.warn(
                "You passed find_unused_parameters=true to DistributedDataParallel, `_set_static_graph` will detect "
                "unused parameters automatically, so you do not need to set find_unused_parameters=true, just be sure "
                "these unused parameters will not change during training loop while calling `_set_static_graph`.",
                stacklevel=2,
            )

    def _set_ddp_sink_clone(self, val: bool) -> None:
        """Whether results of which parts may be unused are copies of the module's (True)."""
        self._ddp_sink_clone = val

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate: int) -> None:
        """After the first ten iterations, times are kept of each ``sample_rate``-th one (100)."""
        if sample_rate < 1:
            self._log_and_throw(ValueError, "DDP runtime logging sample rate should be equal or greater than 1")
        self.reducer.times.sample_rate = sample_rate

    def __getstate__(self):
        state = self.__dict__.copy()
        for name in ("process_group", "reducer", "_join_config", "_ftorch_inner"):
            state.pop(name, None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        from ...distributed.distributed_c10d import _get_default_group

        self.__dict__.setdefault("require_forward_param_sync", True)
        self.__dict__.setdefault("require_backward_grad_sync", True)
        self.process_group = _get_default_group()
        self._make_reducer([p for p in self.module.parameters() if p.requires_grad])
        self._ddp_join_init()

    def _sync_module_states(self, tensors):
        if self.process_group.size() > 1 and tensors:
            from ...distributed._reducer import broadcast_coalesced

            broadcast_coalesced(self.process_group, tensors)

    def _synced_buffers(self):
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def _sync_buffers(self):
        if self.process_group.size() == 1:
            return
        root = self._common_rank(True) if self._join_config.enable else 0
        from ...distributed._reducer import broadcast_coalesced

        broadcast_coalesced(self.process_group, self._synced_buffers(), root)

    def _common_rank(self, has_inputs):
        """The highest rank that still has inputs: buffers are its."""
        dist = torch.distributed
        rank = torch.tensor([self.process_group.rank() if has_inputs else -1])
        dist.all_reduce(rank, op=dist.ReduceOp.MAX, group=self.process_group)
        if rank.item() == -1:
            raise ValueError(
                "BUG! Expected rank_cond to be true for at least one process. This indicates a bug in "
                "PyTorch, please report an issue."
            )
        return int(rank.item())

    def _ftorch_compiled_inside(self, compiled):
        """Its call with that of the module inside compiled: what is done around it, for reductions, is done by each call.

        Args:
            compiled: makes a compiled function of one.
        """
        inner = compiled(self.module.__call__)

        def call(*args, **kwargs):
            outer, self.__dict__["_ftorch_inner"] = self.__dict__.get("_ftorch_inner"), inner
            try:
                return self(*args, **kwargs)
            finally:
                self.__dict__["_ftorch_inner"] = outer

        return call

    def forward(self, *inputs, **kwargs):
        capture = capture_trace.capturing()
        if capture is not None:
            from ...distributed._programs import data_parallel

            if data_parallel.fits(self):
                return data_parallel.call(self, inputs, kwargs)
            # A program would not tell the reducer that there is another iteration.
            capture.end("DistributedDataParallel averages gradients in Python")
        synchronizes = torch.is_grad_enabled() and self.require_backward_grad_sync
        if self._join_config.enable:
            Join, *_ = _join_classes()
            work = Join.notify_join_context(self)
            if work:  # the number of those that have not joined
                work.wait()
                self.reducer.divisor = None if self._divide_by_initial_world_size else int(work.result()[0].item())
        if synchronizes:
            self.reducer.check_finished()
            self.reducer.times.begin()
        if self.will_sync_module_buffers():  # also within no_sync, or where none records: the last forward decides
            self._sync_buffers()
        if self._join_config.enable:
            self._check_global_sync(synchronizes)
        if synchronizes:
            if self.reducer.times.samples:
                self.reducer.note()
            self.reducer.rebuild()
        if self.mixed_precision is not None:
            output = self._cast_forward(inputs, kwargs)
        else:
            output = (self.__dict__.get("_ftorch_inner") or self.module)(*inputs, **kwargs)
        if synchronizes:
            self.require_forward_param_sync = True
            reached = None
            if self.find_unused_parameters and not self.static_graph:
                reached = _reached(output)
            self.reducer.prepare(reached)
        else:
            self.require_forward_param_sync = False
            self.reducer.armed = False
            self.reducer.unsynced = self.reducer.unsynced or torch.is_grad_enabled()
        looks = self.find_unused_parameters and not self.static_graph or self.static_graph and self.reducer.expected is None
        return self._through_sink(output) if looks and torch.is_grad_enabled() else output

    def _through_sink(self, output):
        """A result whose backward passes reach all parameters that it depends on, also where only a part of it is used."""
        from ...utils._pytree import tree_flatten, tree_unflatten

        leaves, spec = tree_flatten(output)
        places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.grad_fn is not None]
        if places:
            for i, x in zip(places, _DDPSink.apply(self._ddp_sink_clone, *[leaves[i] for i in places])):
                leaves[i] = x
        return tree_unflatten(leaves, spec)

    def _cast_forward(self, inputs, kwargs):
        from ...eager.transforms.functional_call import functional_call
        from ...utils._pytree import tree_map

        dtype = self.mixed_precision.param_dtype

        def cast(x):
            return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x

        values = {n: cast(p) for n, p in self.module.named_parameters()} if dtype else {}
        if self.mixed_precision.buffer_dtype:
            values |= {
                n: b.to(self.mixed_precision.buffer_dtype) if b.is_floating_point() else b
                for n, b in self.module.named_buffers()
            }
        if dtype:
            inputs, kwargs = tree_map(cast, inputs), tree_map(cast, kwargs)
        return functional_call(self.module, values, inputs, kwargs)

    @property
    def broadcast_buffers(self) -> bool:
        """The earlier name of ``forward_sync_buffers``."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value):
        self.forward_sync_buffers = value

    @property
    def is_multi_device_module(self) -> bool:
        """Whether its parameters are on several devices."""
        return len({p.device for p in self.module.parameters()}) > 1

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward gives all processes the buffers of rank 0."""
        return bool(self.require_forward_param_sync and self.broadcast_buffers and self._synced_buffers())

    @contextmanager
    def no_sync(self):
        """Within it, gradients are only accumulated; the first backward behind it averages them."""
        previous, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = previous

    def train(self, mode: bool = True):
        super().train(mode)
        return self

    # --- communication hooks ---

    def register_comm_hook(self, state: object, hook) -> None:
        """Lets ``hook(state, bucket)``, which gives a future of a tensor, reduce the buckets' gradients.

        Raises:
            TypeError: if it is not callable. ValueError: for wrong annotations. KeyError: if no parameter is ``bucket``.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        signature = inspect.signature(hook)
        from ...distributed._bucket import GradBucket

        annotation = signature.parameters["bucket"].annotation
        if annotation not in (inspect._empty, GradBucket) and "GradBucket" not in str(annotation):
            raise ValueError(
                "Communication hook: bucket annotation should be dist.GradBucket."
            )
        promised = signature.return_annotation
        if promised is not inspect._empty and "Future[" not in str(promised):
            raise ValueError(
                "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
            )
        if self.reducer.hook_state is not self.process_group or self._comm_hooks:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._comm_hooks.append((hook, state))
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _get_ddp_logging_data(self) -> dict:
        """Options, sizes, and times in nanoseconds of the last iteration that was measured."""
        from ...distributed._ddp_logging import logging_data

        return logging_data(self)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    # --- uneven inputs ---

    def _ddp_join_init(self):
        from ...distributed.algorithms.join import _JoinConfig

        self._join_config = _JoinConfig.construct_disabled_join_config()

    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True,
             throw_on_early_termination: bool = False):
        """Within it, processes may have different numbers of inputs: who has no more takes part in
        the others' reductions with zeros."""
        Join, *_ = _join_classes()
        return Join([self], enable, throw_on_early_termination,
                    divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs):
        """What a process without inputs does."""
        return _hook_class()(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self):
        """The device of the module."""
        return self.device

    @property
    def join_process_group(self):
        """The group."""
        return self.process_group

    def _check_global_sync(self, synchronizes):
        flag = torch.tensor([float(synchronizes)])
        torch.distributed.all_reduce(flag, group=self.process_group)
        return flag.item() > 0


def _hook_class():
    _, _, JoinHook = _join_classes()

    class _DDPJoinHook(JoinHook):
        def __init__(self, ddp, divide_by_initial_world_size):
            ddp._divide_by_initial_world_size, ddp.reducer.divisor = divide_by_initial_world_size, None
            self.ddp = ddp

        def main_hook(self):
            ddp = self.ddp
            if ddp.will_sync_module_buffers():
                from ...distributed._reducer import broadcast_coalesced

                broadcast_coalesced(ddp.process_group, ddp._synced_buffers(), ddp._common_rank(False))
            ddp.require_forward_param_sync = ddp._check_global_sync(False)
            if ddp.require_forward_param_sync:
                ddp.reducer.shadow()

        def post_hook(self, is_last_joiner):
            from ...distributed._reducer import broadcast_coalesced

            root = self.ddp._common_rank(is_last_joiner)
            broadcast_coalesced(
                self.ddp.process_group, [*self.ddp.module.parameters(), *self.ddp.module.buffers()], root
            )

    return _DDPJoinHook


class _DDPSink(torch.autograd.Function):
    """Results as they are. Parameters that only results which a loss does not use depend on get undefined gradients: the
    reducer hears of them, and nothing more is expected."""

    @staticmethod
    def forward(ctx, clones, *tensors):
        ctx.set_materialize_grads(False)
        return tuple(t.clone() for t in tensors) if clones else tensors

    @staticmethod
    def backward(ctx, *grads):
        return None, *grads


def _reached(output):
    """ids of the leaves that an output depends on."""
    from ...utils._pytree import tree_leaves

    found, seen = set(), set()
    leaves = [_dataclass_values(x) for x in tree_leaves(output)]
    stack = [
        t.grad_fn for t in tree_leaves(leaves) if isinstance(t, torch.Tensor) and t.grad_fn
    ]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        stack.extend(n for n, _ in node.next_functions if n is not None)
    return found


def _find_tensors(obj):
    """The tensors in lists, tuples, dicts and dataclasses, in their order: what a reducer is told of a forward's output."""
    if isinstance(obj, torch.Tensor):
        return [obj]
    if isinstance(obj, dict):
        obj = obj.values()
    elif dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        obj = [getattr(obj, f.name) for f in dataclasses.fields(obj)]
    elif not isinstance(obj, (list, tuple)):
        return []
    return [tensor for part in obj for tensor in _find_tensors(part)]


def _dataclass_values(x):
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [getattr(x, f.name) for f in dataclasses.fields(x)]
    return x
