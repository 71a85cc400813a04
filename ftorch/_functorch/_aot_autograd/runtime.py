"""Calls of compiled graphs: one for the results, one for the gradients, as one function that autograd knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import autograd
from ...eager.tensor import TensorBase, modes, wrap_view
from ...utils import _pytree as pytree
from .graphs import Traced, trace

_TWICE = "torch.compile with aot_autograd does not currently support double backward"


class Compilers:
    """What makes functions of the graphs.

    Args:
        fw_compiler, bw_compiler, inference_compiler: called with a graph and example inputs.
        partition_fn: called with a joint graph, its inputs and the number of its results.
    """

    def __init__(self, fw_compiler, bw_compiler=None, inference_compiler=None, partition_fn=None,
                 decompositions=None, keep_inference_input_mutations=False):
        from ..partitioners import default_partition

        self.forward = fw_compiler
        self.backward = bw_compiler or fw_compiler
        self.inference = inference_compiler or fw_compiler
        self.partition = partition_fn or default_partition
        self.decompositions = decompositions


def _examples(graph_module):
    return [n.meta.get("val") for n in graph_module.graph.find_nodes(op="placeholder")]


def _called(function, values):
    boxed = getattr(function, "_boxed_call", False)
    found = function(values) if boxed else function(*values)
    return list(found) if isinstance(found, (list, tuple)) else [found]


class Specialized:
    """A function of a flat list of arguments, whose graphs are compiled for each kind of them."""

    def __init__(self, function: Callable, compilers: Compilers):
        self.function, self.compilers = function, compilers
        self._kinds: dict[Any, _Call] = {}

    def prepare(self, args: list) -> _Call:
        """Compiles the graphs for arguments."""
        kind = tuple(
            (a._ftorch_geometry, type(a)) if isinstance(a, TensorBase) else (type(a), a) for a in args
        )
        wanted = modes.grad and any(isinstance(a, TensorBase) and a.requires_grad for a in args)
        found = self._kinds.get((kind, wanted))
        if found is None and not wanted:
            found = self._kinds.get((kind, True))
        if found is None:
            found = self._kinds[kind, wanted] = _compiled(self.function, args, self.compilers, wanted)
        return found

    def __call__(self, args: list):
        call = self.prepare(args)
        if call.traced.mutated and _overlap(args, call.traced.mutated):
            return self.function(*args)  # the graph knows nothing of memory that arguments share
        return call(args)


def _overlap(args, mutated):
    """Whether an argument that is written to shares memory with another."""
    storages = [id(a._ftorch_storage) if isinstance(a, TensorBase) else None for a in args]
    return any(storages.count(storages[i]) > 1 for i in mutated)


def _compiled(function, args, compilers, wanted) -> _Call:
    if wanted:
        traced = trace(function, args, joint=True, decompositions=compilers.decompositions)
        if traced.tangents:
            return _Differentiable(traced, args, compilers)
    with autograd.no_grad():
        traced = trace(function, args, joint=False, decompositions=compilers.decompositions)
        return _Inference(traced, args, compilers)


class _Call:
    """What all compiled functions do about results that are arguments, or lie in their memory."""

    is_differentiable = False

    def __init__(self, traced: Traced, args: list):
        self.traced = traced

    def results(self, args, values):
        traced = self.traced
        news, values = values[: len(traced.mutated)], values[len(traced.mutated) :]
        for i, new in zip(traced.mutated, news):
            if new.requires_grad and modes.grad:
                args[i].copy_(new)
            else:
                with autograd.no_grad():
                    args[i].copy_(new)
        flat = [self._result(args, info, value) for info, value in zip(traced.outputs, values)]
        spec = traced.spec
        if spec.type in (list, tuple) and all(c.is_leaf() for c in spec.children()):
            return flat  # as PyTorch's: a list, whatever the function gives
        return pytree.tree_unflatten(flat, spec)

    @staticmethod
    def _result(args, info, value):
        if not info.is_tensor:
            return info.value
        if info.argument is None:
            return value
        source = args[info.argument]
        if info.is_argument:
            return source
        source = source if info.requires_grad or not source.requires_grad else source.detach()
        for target, rest, options, _, item in info.views:
            source = target(source, *rest, **options)
            source = source if item is None else source[item]
        return source


class _Inference(_Call):
    """A function that nobody differentiates."""

    def __init__(self, traced, args, compilers):
        super().__init__(traced, args)
        module = traced.module
        self.function = compilers.inference(module, _examples(module))

    def __call__(self, args):
        with autograd.no_grad():
            values = _called(self.function, list(args))
        return self.results(args, values)


class _Differentiable(_Call):
    """A function with a place in autograd's graph. The backward graph is compiled when it is first needed."""

    is_differentiable = True

    def __init__(self, traced, args, compilers):
        super().__init__(traced, args)
        count = traced.num_fwd_outputs
        inputs = _examples(traced.module)
        self.forward_module, self.backward_module = compilers.partition(
            traced.module, inputs, num_fwd_outputs=count, static_lifetime_input_indices=[]
        )
        self.forward = compilers.forward(self.forward_module, _examples(self.forward_module))
        self._compile = compilers.backward
        self._backward: Any = None
        self.function = _as_function(self)

    def backward(self, values):
        if self._backward is None:
            module = self.backward_module
            self._backward = self._compile(module, _examples(module))
        return _called(self._backward, values)

    def __call__(self, args):
        values = list(self.function(*args))
        if len(self.traced.tangents) > 1:
            self._link(values, {id(a._ftorch_storage) for a in args if isinstance(a, TensorBase)})
        return self.results(args, values)

    def _link(self, values, memory):
        """Makes results that share memory views of the one that is all of it, so that a write is part of each history."""
        groups: dict[int, list[int]] = {}
        for i in self.traced.tangents:
            groups.setdefault(id(values[i]._ftorch_storage), []).append(i)
        for storage, places in groups.items():
            whole = [i for i in places if values[i].nbytes == values[i].untyped_storage().nbytes()]
            if len(places) < 2 or not whole or storage in memory:
                continue
            base = values[whole[0]]
            for i in places:
                if values[i] is not base:
                    t = values[i]
                    with autograd.enable_grad():
                        values[i] = base.as_strided(t.shape, t.stride(), t.storage_offset())


def _as_function(call: _Differentiable):
    """The autograd function of a forward graph and a backward one."""
    traced = call.traced
    count = traced.num_fwd_outputs
    with_gradient = set(traced.tangents)

    class CompiledFunction(autograd.Function):
        _is_own = True

        @staticmethod
        def forward(ctx, *args):
            values = _called(call.forward, list(args))
            results, saved = values[:count], values[count:]
            ctx.tensors = [isinstance(v, TensorBase) for v in saved]
            ctx.save_for_backward(*(v for v in saved if isinstance(v, TensorBase)))
            ctx.others = [v for v in saved if not isinstance(v, TensorBase)]
            plain = [v for i, v in enumerate(results) if isinstance(v, TensorBase) and i not in with_gradient]
            # What is an argument already stays one: results are tensors of their own.
            given = {id(a) for a in args if isinstance(a, TensorBase)}
            results = [v.view_as(v) if isinstance(v, TensorBase) and id(v) in given else v for v in results]
            memory = {id(a._ftorch_storage) for a in args if isinstance(a, TensorBase)}
            results = [
                wrap_view(v._ftorch_storage, v._ftorch_geometry, v._ftorch_offset, None)
                if i in with_gradient and v._base is not None and id(v._ftorch_storage) not in memory else v
                for i, v in enumerate(results)
            ]
            ctx.mark_non_differentiable(*(v for v in results if any(v is p for p in plain)))
            ctx.set_materialize_grads(False)
            ctx.likes = [results[i] for i in traced.tangents]
            ctx.likes = [(v.shape, v.dtype, v.device) for v in ctx.likes]
            return tuple(results)

        @staticmethod
        def backward(ctx, *grads):
            from ...eager.core import api

            tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
            values = [next(tensors) if t else next(others) for t in ctx.tensors]
            for i, (shape, dtype, device) in zip(traced.tangents, ctx.likes):
                grad = grads[i]
                if grad is None:
                    grad = api.zeros(shape, dtype=dtype, device=device)
                values.append(grad.contiguous())
            if modes.grad and any(isinstance(v, TensorBase) and v.requires_grad for v in values):
                return _once(call, values)
            return tuple(call.backward(values))

    return CompiledFunction.apply


def _once(call, values):
    """Gradients whose gradients raise, as PyTorch's compiled functions'."""

    class CompiledFunctionBackward(autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            return tuple(call.backward(list(given)))

        @staticmethod
        def backward(ctx, *_):
            raise RuntimeError(_TWICE)

    return CompiledFunctionBackward.apply(*values)
