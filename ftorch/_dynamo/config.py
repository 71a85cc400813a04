"""The settings of ``torch.compile`` (``torch._dynamo.config``).

An effect have `recompile_limit`, `accumulated_recompile_limit`, `error_on_recompile`,
`fail_on_recompile_limit_hit`, `automatic_dynamic_shapes`, `assume_static_by_default`, `disable`,
`capture_scalar_outputs`, `capture_dynamic_output_shape_ops` and `compiled_autograd`; the others are for programs that set them.
"""

from __future__ import annotations

from ..utils._config_module import install

_TRUE = """
    replay_side_effects skip_code_recursive_on_recompile_limit_hit dynamic_shapes
    use_lazy_graph_module assume_static_by_default automatic_dynamic_shapes
    force_parameter_static_shapes force_nn_module_property_static_shapes guard_nn_modules
    guard_nn_modules_using_dict_tags rewrite_assert_with_torch_assert same_two_models_use_fp64
    skip_torchrec use_lamba_guard_for_object_aliasing skip_fsdp_guards skip_nnmodule_hook_guards
    skip_no_tensor_aliasing_guards_on_parameters skip_tensor_guards_with_matching_dict_tags
    assume_dunder_attributes_remain_unchanged raise_on_ctx_manager_usage error_on_nested_jit_trace
    error_on_nested_fx_trace capture_sparse_compute report_guard_failures trace_numpy
    enable_cpp_guard_manager enable_trace_contextlib enable_faithful_generator_behavior
    inline_inbuilt_nn_modules install_free_tensors_for_export enable_cpp_framelocals_guard_eval
    issue_3_13_0_warning capture_autograd_function capture_func_transforms log_compilation_metrics
    fake_tensor_cache_enabled fake_tensor_disable_inference_mode enable_dynamo_decompositions
    graph_break_on_nn_param_ctor inline_torch_dispatch_torch_compile automatic_dynamic_local_pgo
    run_gc_after_compile record_runtime_overhead enable_aot_compile
    inline_single_use_invoke_subgraph
"""
_FALSE = """
    verbose verify_correctness leaf_function_validate_outputs
    leaf_function_check_escaped_gradients generate_pycode fail_on_recompile_limit_hit
    specialize_int specialize_float automatic_dynamic_exclusion_guard log_graph_in_out_metadata
    allow_ignore_mark_dynamic prepare_freezing suppress_errors replay_record_enabled disable
    cprofile repro_forward_only repro_ignore_non_fp capture_scalar_outputs
    capture_dynamic_output_shape_ops prefer_deferred_runtime_asserts_over_guards
    force_unspec_int_unbacked_size_like_on_torchrec_kjt allow_unspec_int_on_nn_module
    do_not_emit_runtime_asserts dont_skip_tracing optimize_ddp_lazy_compile
    skip_guards_on_constant_func_defaults use_recursive_dict_tags_for_guards
    raise_on_unsafe_aot_autograd force_compile_during_fx_trace allow_rnn error_on_recompile
    trace_autograd_ops use_numpy_random_stream enable_cpp_symbolic_shape_guards
    enable_trace_unittest enable_trace_load_build_class nested_graph_breaks
    error_on_dynamo_callback_in_fullgraph_compiled_code install_free_tensors
    use_graph_deduplication track_nodes_for_deduplication graph_deduplication_lint
    allow_empty_graphs debug_force_nested_calls debug_force_graph_break_on_leaf_return
    debug_disable_compile_counter record_compile_time_instruction_count
    cudagraph_backend_keep_input_mutation cudagraph_backend_support_input_mutation
    only_allow_pt2_compliant_ops capture_profiler_record_function
    inject_BUILD_SET_unimplemented_TESTING_ONLY fake_tensor_cache_crosscheck_enabled
    caching_precompile strict_precompile compiled_autograd
    skip_fwd_side_effects_in_bwd_under_checkpoint enable_compiler_collectives
    enable_p2p_compilation _unsafe_skip_fsdp_module_guards constant_fold_autograd_profiler_enabled
    wrap_top_frame enable_invoke_subgraph_regional_compile inline_invoke_subgraph
"""
_PLAIN = {
    "debug_backend_override": "", "debug_inductor_config_override": "",
    "debug_dynamo_config_override": "", "minimum_call_count": 1,
    "side_effect_replay_policy": "info", "recompile_limit": 8, "accumulated_recompile_limit": 256,
    "repro_level": 2, "repro_tolerance": 0.001,
    "max_saved_pointers_for_recursive_dict_tags_check": 256, "base_dir": "",
    "numpy_default_float": "float64", "numpy_default_complex": "complex128",
    "numpy_default_int": "int64", "debug_dir_root": "",
}
_OPEN = {
    "log_file_name": None, "dead_code_elimination": None,
    "automatic_dynamic_shapes_mark_as": "dynamic", "traceable_tensor_subclasses": set(),
    "nontraceable_tensor_subclasses": set(), "dynamo_profiler": False,
    "skipfiles_inline_module_allowlist": {}, "allowed_functions_module_string_ignorelist": set(),
    "repro_after": None, "optimize_ddp": True, "reorderable_logging_functions": set(),
    "ignore_logging_functions": set(), "compiled_autograd_kwargs_override": {},
    "automatic_dynamic_remote_pgo": None, "pt2_compile_id_prefix": None,
    "invalidate_compile_context_weakrefs": None,
}
_ALIASES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "skip_code_recursive_on_cache_limit_hit": "skip_code_recursive_on_recompile_limit_hit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
    "ignore_logger_methods": "ignore_logging_functions",
}

install(__name__, true=_TRUE, false=_FALSE, plain=_PLAIN, open=_OPEN, aliases=_ALIASES)
