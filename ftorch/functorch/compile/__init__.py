"""``functorch.compile``: ahead-of-time graphs and the compilers of their parts."""

from ftorch._functorch import config
from ftorch._functorch.aot_autograd import (
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    make_boxed_func,
)
from ftorch._functorch.compilers import (
    draw_graph_compile,
    memory_efficient_fusion,
    nop,
    print_compile,
    ts_compile,
)
from ftorch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

compiled_function, compiled_module = aot_function, aot_module

__all__ = [
    "aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module",
    "config", "default_partition", "draw_graph_compile", "make_boxed_compiler", "make_boxed_func",
    "memory_efficient_fusion", "min_cut_rematerialization_partition", "nop", "print_compile", "ts_compile",
]
