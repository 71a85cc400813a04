"""Settings of ``torch.compile`` for users (``torch.compiler.config``): those of `torch._dynamo.config`."""

from __future__ import annotations

from ..utils._config_module import install

_SHARED = """
    dynamic_shapes assume_static_by_default automatic_dynamic_shapes recompile_limit
    accumulated_recompile_limit verbose capture_scalar_outputs capture_dynamic_output_shape_ops
    log_file_name fail_on_recompile_limit_hit allow_unspec_int_on_nn_module
    skip_tensor_guards_with_matching_dict_tags enable_cpp_symbolic_shape_guards wrap_top_frame
    reorderable_logging_functions
"""

install(__name__, false="force_disable_caches", plain={"job_id": "", "cache_key_tag": ""},
        aliases={name: f"ftorch._dynamo.config.{name}" for name in _SHARED.split()})
