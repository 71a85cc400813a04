"""Functions and modules compiled by compilers of ATen graphs (``torch._functorch.aot_autograd``).

The graphs are those of `ftorch._dynamo.backends.aot_autograd`: of the forward pass, and of the backward one.
"""

from __future__ import annotations

from .._dynamo.backends import aot_autograd as _backend
from .._dynamo.backends import make_boxed_func
from ..jit.compiled_function import Compiled
from ..nn import Module
from .partitioners import default_partition

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "default_partition",
    "make_boxed_compiler", "make_boxed_func",
]


def make_boxed_compiler(compiler):
    """A compiler whose functions take a list of inputs, which they empty."""

    def boxed(fx_g, inps):
        return make_boxed_func(compiler(fx_g, inps))

    return boxed


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition,
                 decompositions=None, num_params_buffers: int = 0,
                 keep_inference_input_mutations: bool = False, inference_compiler=None, **_):
    """A function whose forward and backward graphs are compiled by compilers of ATen graphs.

    Args:
        fw_compiler, bw_compiler, inference_compiler: called with a ``fx.GraphModule`` and example
            inputs, when the function is first called with a kind of arguments.
        partition_fn: of no effect: the backward pass keeps what is not cheap to compute again.
        decompositions: {op: function} that the graphs are written with (`torch._decomp`).

    >>> import ftorch as torch
    >>> from ftorch._functorch.aot_autograd import aot_function
    >>> def show(gm, inputs):
    ...     print([str(n.target) for n in gm.graph.nodes if n.op == "call_function"])
    ...     return gm
    >>> aot_function(lambda x: x.cos() * 2, fw_compiler=show)(torch.zeros(1))
    ['aten.cos.default', 'aten.mul.Tensor']
    tensor([2.])
    """
    return Compiled(fn, backend=_backend(fw_compiler, bw_compiler, inference_compiler, decompositions))


class AOTModule(Module):
    """A module whose call is compiled; ``orig_module`` is the module."""

    def __init__(self, module, compiled):
        super().__init__()
        self.orig_module = module
        self.__dict__["_compiled"] = compiled

    def forward(self, *args, **kwargs):
        return self.__dict__["_compiled"](*args, **kwargs)


def aot_module(mod: Module, *args, **kwargs) -> Module:
    """A module compiled by `aot_function`, whose parameters are inputs of the graphs.

    Raises:
        AssertionError: for what is no module.
    """
    if not isinstance(mod, Module):
        raise AssertionError(f"expected a module, got {type(mod)}")
    return AOTModule(mod, aot_function(mod.__call__, *args, **kwargs))


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=default_partition,
                          decompositions=None, keep_inference_input_mutations=False,
                          inference_compiler=None, **_):
    """`aot_module` for backends of ``torch.compile``: a function of a graph's inputs."""
    return aot_function(mod.forward, fw_compiler, bw_compiler, partition_fn, decompositions,
                        inference_compiler=inference_compiler)
