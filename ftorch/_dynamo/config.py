"""The settings of ``torch.compile`` (``torch._dynamo.config``).

Those with an effect come first; the others are there for programs that set them.
"""

from __future__ import annotations

import contextlib
import sys

recompile_limit = 8  # programs of one function, before calls that fit none run uncompiled
cache_size_limit = 8  # its older name; the smaller of the two counts
accumulated_recompile_limit = 256
error_on_recompile = False
fail_on_recompile_limit_hit = False
automatic_dynamic_shapes = True  # sizes that vary do not count for the limit
assume_static_by_default = True
suppress_errors = False
disable = False
verbose = False

accumulated_cache_size_limit = 256
allow_rnn = False
allow_unspec_int_on_nn_module = False
cache_size_limit_per_function = 8
capture_dynamic_output_shape_ops = False
capture_func_transforms = True
capture_scalar_outputs = False
compiled_autograd = False
do_not_emit_runtime_asserts = False
dynamic_shapes = True
dead_code_elimination = True
enable_cpp_guard_manager = True
force_nn_module_property_static_shapes = True
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_file_name = None
numpy_default_float = "float64"
numpy_default_int = "int64"
optimize_ddp = True
output_code = False
prefer_deferred_runtime_asserts_over_guards = False
raise_on_ctx_manager_usage = True
replay_record_enabled = False
report_guard_failures = True
rewrite_assert_with_torch_assert = True
skip_nnmodule_hook_guards = False
skip_fsdp_guards = True
specialize_float = False
specialize_int = False
traceable_tensor_subclasses: set = set()
trace_numpy = True
trace_distributed = False
use_single_step_graph = False
verify_correctness = False
log_level = None
print_graph_breaks = False
recompile_limit_hit = False


@contextlib.contextmanager
def patch(arg1=None, arg2=None, **changes):
    """Settings for a while: ``patch(name=value)``, ``patch("name", value)`` or ``patch({...})``."""
    changes = {**(arg1 if isinstance(arg1, dict) else {}), **changes}
    if isinstance(arg1, str):
        changes[arg1] = arg2
    module = sys.modules[__name__]
    before = {name: getattr(module, name) for name in changes}
    for name, value in changes.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def limit() -> int:
    """How many programs one function may have."""
    return min(recompile_limit, cache_size_limit)
