"""Functions and modules compiled by compilers of ATen graphs (``torch._functorch.aot_autograd``).

A function becomes a joint graph of its results and their gradients, which is cut in two: a forward graph, and a
backward one that takes what the forward graph saves.
"""

from __future__ import annotations

import functools
from typing import Any

from ..eager.tensor import TensorBase, modes
from ..functional import functional_call
from ..fx import GraphModule
from ..nn import Module
from ..utils import _pytree as pytree
from ._aot_autograd.graphs import trace
from ._aot_autograd.runtime import Compilers, Specialized
from ._aot_autograd.schemas import GraphSignature, signature
from ._aot_autograd.utils import make_boxed_func
from .partitioners import default_partition

__all__ = [
    "GraphSignature", "aot_export_joint_simple", "aot_export_module", "aot_function", "aot_module",
    "aot_module_simplified", "default_partition", "make_boxed_compiler", "make_boxed_func",
]


def make_boxed_compiler(compiler):
    """A compiler whose functions take a list of inputs, which they empty."""

    def boxed(fx_g, inps):
        return make_boxed_func(compiler(fx_g, inps))

    return boxed


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                 num_params_buffers: int = 0, keep_inference_input_mutations: bool = False,
                 inference_compiler=None, **_):
    """A function whose forward and backward graphs are compiled by compilers of ATen graphs.

    A graph is for the sizes of the arguments of its first call; others get graphs of their own.

    Args:
        fw_compiler, bw_compiler, inference_compiler: called with a ``fx.GraphModule`` and example inputs:
            the first when the function is first called, the second when a gradient is first wanted, the third
            where no argument requires grad. They give functions of the graph's inputs.
        partition_fn: cuts the joint graph (`ftorch._functorch.partitioners`).
        decompositions: {op: function} that the graphs are written with (`torch._decomp`).

    >>> import ftorch as torch
    >>> from ftorch._functorch.aot_autograd import aot_function
    >>> def show(gm, inputs):
    ...     print([str(n.target) for n in gm.graph.nodes if n.op == "call_function"])
    ...     return gm
    >>> x = torch.zeros(1, requires_grad=True)
    >>> y = aot_function(lambda x: x.cos() * 2, fw_compiler=show)(x)
    ['aten.cos.default', 'aten.mul.Tensor']
    >>> y.backward()
    ['aten.mul.Tensor', 'aten.sin.default', 'aten.neg.default', 'aten.mul.Tensor']
    """
    if bw_compiler is None:
        bw_compiler = fw_compiler
    compilers = Compilers(fw_compiler, bw_compiler, inference_compiler, partition_fn, decompositions)
    kinds: dict[Any, Specialized] = {}

    @functools.wraps(fn)
    def returned_function(*args, **kwargs):
        flat, spec = pytree.tree_flatten((args, kwargs))
        found = kinds.get(spec)
        if found is None:

            def flattened(*leaves):
                args, kwargs = pytree.tree_unflatten(list(leaves), spec)
                return fn(*args, **kwargs)

            found = kinds[spec] = Specialized(flattened, compilers)
        return found(flat)

    return returned_function


class AOTModule(Module):
    """A module whose call is compiled; ``orig_module`` is the module."""

    def __init__(self, module, compiled):
        super().__init__()
        self.orig_module = module
        self.__dict__["_compiled"] = compiled

    def forward(self, *args, **kwargs):
        state = dict(self.orig_module.named_parameters(remove_duplicate=False))
        buffers = dict(self.orig_module.named_buffers(remove_duplicate=False))
        return self.__dict__["_compiled"](state, buffers, args, kwargs)


def aot_module(mod: Module, *args, **kwargs) -> Module:
    """A module compiled by `aot_function`, whose parameters and buffers are the first inputs of the graphs.

    Raises:
        AssertionError: for what is no module.
    """
    if not isinstance(mod, Module):
        raise AssertionError(f"expected a module, got {type(mod)}")

    def functional(params, buffers, args, kwargs):
        return functional_call(mod, {**params, **buffers}, args, kwargs)

    return AOTModule(mod, aot_function(functional, *args, **kwargs))


def _lifted(mod):
    """A module as a function of its parameters, its buffers and its arguments; their values; how many are parameters."""
    parameters = dict(mod.named_parameters(remove_duplicate=False))
    buffers = dict(mod.named_buffers(remove_duplicate=False))
    names, values = [*parameters, *buffers], [*parameters.values(), *buffers.values()]

    def function(*flat, **kwargs):
        if names:
            out = functional_call(mod, dict(zip(names, flat)), flat[len(names) :], kwargs)
        else:
            out = mod(*flat, **kwargs)
        if not isinstance(out, (tuple, list)):
            raise RuntimeError(
                "Graph output must be a (). This is so that we can avoid pytree processing of the outputs. Please "
                "change the module to have tuple outputs or use aot_module instead."
            )
        return out

    return function, names, values, len(parameters)


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=default_partition,
                          decompositions=None, keep_inference_input_mutations=False,
                          inference_compiler=None, **_):
    """`aot_module` for backends of ``torch.compile``: a function of a graph's inputs, compiled for ``args``."""
    function, _, state, _ = _lifted(mod)
    compilers = Compilers(fw_compiler, bw_compiler, inference_compiler, partition_fn, decompositions)
    call = Specialized(function, compilers)
    if all(isinstance(a, TensorBase | int | float | bool | None) for a in args):
        call.prepare([*state, *args])

    def forward(*runtime_args):
        return call([*state, *runtime_args])

    return forward


def aot_export_module(mod: Module, args, *, decompositions=None, trace_joint: bool,
                      output_loss_index: int | None = None, pre_dispatch: bool = False,
                      dynamic_shapes: bool | None = None, kwargs=None) -> tuple[GraphModule, GraphSignature]:
    """A module's graph, functional, with parameters and buffers as its first inputs; and what is what in it.

    Args:
        trace_joint: with the gradients of the result of number ``output_loss_index``, a scalar.
        pre_dispatch: of the ops above autograd.

    Raises:
        RuntimeError: the module gives no tuple; or, for a joint graph, there is no loss in it, or others require grad.

    >>> import ftorch as torch
    >>> from ftorch._functorch.aot_autograd import aot_export_module
    >>> class Tuple(torch.nn.Linear):
    ...     def forward(self, x):
    ...         return (super().forward(x),)
    >>> graph, signature = aot_export_module(Tuple(2, 1), [torch.zeros(3, 2)], trace_joint=False)
    >>> signature.parameters, [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    (['weight', 'bias'], ['aten.t.default', 'aten.addmm.default'])
    """
    if pre_dispatch and trace_joint:
        raise RuntimeError("pre_dispatch is not supported when trace_joint is True.")
    function, names, state, parameters = _lifted(mod)
    flat, spec = pytree.tree_flatten((tuple(args), kwargs or {}))

    def run(*leaves):
        own, rest = leaves[: len(names)], leaves[len(names) :]
        args, kwargs = pytree.tree_unflatten(list(rest), spec)
        out = function(*own, *args, **kwargs)
        return _with_loss(out, output_loss_index) if trace_joint else out

    given = [*state, *flat]
    traced = trace(run, given, joint=trace_joint, decompositions=decompositions, pre_dispatch=pre_dispatch,
                   loss=output_loss_index if trace_joint else None)
    wanted = [modes.grad and isinstance(a, TensorBase) and a.requires_grad for a in given] if trace_joint else []
    _, in_spec = pytree.tree_flatten(((*state, *args), kwargs or {}))
    return traced.module, signature(traced, names, parameters, in_spec, wanted, output_loss_index)


def _with_loss(out, index):
    """The results of a module, checked: one is the loss, and only that requires grad."""
    if index is None:
        raise RuntimeError(
            "If trace_joint=Trueit is required that one of your forward outputs must be a scalar loss.\n"
            "You must specify the which (index) output is the loss with output_loss_index."
        )
    for i, o in enumerate(out):
        if o.requires_grad and i != index:
            raise RuntimeError(
                "Found an output of the forward that requires gradients, that was not the scalar loss.\n"
                "We require all outputs to the forward that are not the scalar loss to not require gradient,\n"
                "because we will only compute a backward graph against the scalar loss.\n"
                "You can fix this by calling .detach() on each of your forward outputs that is not the loss.\n"
                f"You specified that output index {index} is the loss, but we found that\n"
                f"the output at index {i} requires gradients."
            )
    if not out[index].requires_grad:
        raise RuntimeError(
            f"The output at index {index} was marked as the loss, but it does not require gradients"
        )
    if out[index].numel() != 1:
        raise RuntimeError(
            f"We require the output marked as the loss (at index {index}) to be a scalar, but it has shape "
            f"{out[index].shape}"
        )
    return out


def aot_export_joint_simple(func, args, *, trace_joint: bool, num_params_buffers: int = 0,
                            decompositions=None) -> GraphModule:
    """The graph of a function of tensors that writes to none of them; the joint one with tangents as inputs.

    >>> import ftorch as torch
    >>> from ftorch._functorch.aot_autograd import aot_export_joint_simple
    >>> x = torch.zeros(2, requires_grad=True)
    >>> joint = aot_export_joint_simple(lambda x: (x.sin(),), (x,), trace_joint=True)
    >>> joint([x.detach()], [torch.ones(2)])
    [tensor([0., 0.]), tensor([1., 1.])]
    """
    flat, spec = pytree.tree_flatten(tuple(args))

    def run(*leaves):
        return func(*pytree.tree_unflatten(list(leaves), spec))

    traced = trace(run, flat, joint=trace_joint, decompositions=decompositions)
    if traced.mutated:
        raise RuntimeError(
            f"aot_export_joint_simple does not support input mutations. {len(traced.mutated)} inputs are mutated."
        )
    return traced.module
