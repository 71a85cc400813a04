"""Compilers for `aot_function` that show or keep graphs (``torch._functorch.compilers``)."""

from __future__ import annotations

from .._dynamo.backends import inductor
from ..nn import Module
from .aot_autograd import aot_function, aot_module, make_boxed_compiler
from .partitioners import default_partition, min_cut_rematerialization_partition

__all__ = [
    "aot_function", "aot_module", "default_partition", "draw_graph_compile", "make_boxed_compiler",
    "memory_efficient_fusion", "min_cut_rematerialization_partition", "nop", "print_compile",
    "ts_compile",
]


@make_boxed_compiler
def nop(fx_g, _):
    """The graph as it is."""
    return fx_g


@make_boxed_compiler
def print_compile(fx_g, _):
    """Prints the graph's code."""
    print(fx_g.code)
    return fx_g


@make_boxed_compiler
def ts_compile(fx_g, inps):
    """The graph as one XLA program."""
    return inductor(fx_g, inps)


def draw_graph_compile(name: str):
    """A compiler that writes a picture of the graph to ``name.svg``, by graphviz."""

    def compiler(fx_g, _):
        from ..fx.passes.graph_drawer import FxGraphDrawer

        FxGraphDrawer(fx_g, name).get_dot_graph().write_svg(f"{name}.svg")
        return fx_g

    return make_boxed_compiler(compiler)


def memory_efficient_fusion(fn, **kwargs):
    """A function or module whose passes are one XLA program each."""
    config = {"fw_compiler": ts_compile, "bw_compiler": ts_compile, **kwargs}
    return aot_module(fn, **config) if isinstance(fn, Module) else aot_function(fn, **config)
