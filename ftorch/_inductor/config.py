"""Settings of PyTorch's compiler back end, for programs that set them: XLA has settings of its own."""

from __future__ import annotations

import contextlib
import sys
import types

debug = False
fx_graph_cache = True
fx_graph_remote_cache = None
force_disable_caches = False
max_autotune = False
max_autotune_gemm = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
max_autotune_pointwise = False
coordinate_descent_tuning = False
coordinate_descent_check_all_directions = False
epilogue_fusion = True
permute_fusion = False
pattern_matcher = True
freezing = False
fallback_random = True
cpp_wrapper = False
compile_threads = 1
unique_kernel_names = True
conv_1x1_as_mm = False
shape_padding = True
split_reductions = True
size_asserts = True
nan_asserts = False
reorder_for_locality = True
reorder_for_compute_comm_overlap = False
allow_buffer_reuse = True
dce = True
group_fusion = False
batch_fusion = True
emulate_precision_casts = False
keep_output_stride = True
triton = types.SimpleNamespace(
    cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True, autotune_pointwise=True,
    cudagraph_skip_dynamic_graphs=False, cudagraph_dynamic_shape_warn_limit=50,
    store_cubin=False, descriptive_names="original_aten",
)  # fmt: skip
cpp = types.SimpleNamespace(threads=-1, simdlen=None, min_chunk_size=4096, enable_kernel_profile=False)
cuda = types.SimpleNamespace(arch=None, version=None)
trace = types.SimpleNamespace(enabled=False, graph_diagram=False)
aot_inductor = types.SimpleNamespace(output_path="", package=False)


@contextlib.contextmanager
def patch(arg1=None, arg2=None, **changes):
    """Settings for a while: ``patch(name=value)``, ``patch("triton.cudagraphs", True)``."""
    changes = {**(arg1 if isinstance(arg1, dict) else {}), **changes}
    if isinstance(arg1, str):
        changes[arg1] = arg2
    undo = []
    for path, value in changes.items():
        *outer, name = path.split(".")
        holder = sys.modules[__name__]
        for part in outer:
            holder = getattr(holder, part)
        undo.append((holder, name, getattr(holder, name)))
        setattr(holder, name, value)
    try:
        yield
    finally:
        for holder, name, value in reversed(undo):
            setattr(holder, name, value)
