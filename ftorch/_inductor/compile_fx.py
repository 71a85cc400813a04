"""What backends of ``torch.compile`` hand their graphs on to (``torch._inductor.compile_fx``)."""

from __future__ import annotations

from .._dynamo.backends import inductor, make_boxed_func

__all__ = ["compile_fx", "compile_fx_inner"]


def compile_fx(model_, example_inputs_, inner_compile=None, config_patches=None, decompositions=None, **_):
    """A graph of public calls as XLA programs, forward and backward.

    Args:
        inner_compile: a compiler of ATen graphs to be called instead of XLA.

    >>> import ftorch as torch
    >>> from ftorch._inductor.compile_fx import compile_fx
    >>> def backend(gm, example_inputs):
    ...     print([n.target for n in gm.graph.nodes if n.op == "call_method"])
    ...     return compile_fx(gm, example_inputs)
    >>> torch.compile(lambda x: x.relu() + 1, backend=backend)(torch.zeros(1))
    ['relu']
    tensor([1.])
    """
    if inner_compile is None or inner_compile is compile_fx_inner:
        return inductor(model_, example_inputs_)
    from .._dynamo.backends import aot_autograd

    return aot_autograd(inner_compile, decompositions=decompositions)(model_, example_inputs_)


def compile_fx_inner(gm, example_inputs, **_):
    """A graph of ATen's ops as one XLA program, a function of a list of inputs."""
    return make_boxed_func(inductor(gm, example_inputs))
