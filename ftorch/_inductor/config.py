"""Settings of PyTorch's compiler back end, for programs that set them: XLA has settings of its own."""

from __future__ import annotations

from ..utils._config_module import install

_TRUE = """
    inplace_padding enable_auto_functionalized_v2 disable_progress fx_graph_cache
    non_blocking_remote_cache_write autotune_local_cache cpp_cache_precompile_headers
    online_softmax apply_gumbel_max_trick static_weight_shapes size_asserts scalar_asserts
    alignment_asserts pick_loop_orders inplace_buffers allow_buffer_reuse benchmark_harness
    epilogue_fusion prologue_fusion pattern_matcher split_cat_fx_passes batch_fusion
    reorder_for_locality dynamic_scale_rblock keep_addmm_fused_for_half_dtypes use_mixed_mm
    reorder_for_peak_memory use_experimental_benchmarker max_autotune_report_choices_stats
    graph_partition use_dce use_pre_grad_passes use_joint_graph_passes use_post_grad_passes
    autoheuristic_use.mixed_mm layout_optimization keep_output_stride delay_realize_cheap_outputs
    implicit_fallbacks loop_ordering_after_fusion loop_reindexing_after_fusion
    loop_index_inversion_in_fusion benchmark_epilogue_fusion split_reductions
    constant_and_index_propagation assert_indirect_indexing combo_kernel_foreach_dynamic_shapes
    combo_kernel_autotune_grouping joint_graph_constant_folding optimize_scatter_upon_const_tensor
    worker_suppress_logging aten_distributed_optimizations.enable_fusion_regions
    aten_distributed_optimizations.prioritize_bucketing_during_scheduling
    aten_distributed_optimizations.pre_bucketing_fsdp_collectives quiesce_async_compile_pool
    use_static_cuda_launcher use_fast_triton_launcher use_launch_metadata_schema shape_padding
    comprehensive_padding disable_padding_cpu bw_outputs_user_visible
    _use_fp64_for_unbacked_floats enable_caching_generated_triton_templates cpp.no_redundant_loops
    cpp.weight_prepack cpp.fallback_scatter_reduce_sum cpp.enable_tiling_heuristics
    cpp.enable_loop_tail_vec cpp.use_constexpr_for_int_array triton.cudagraph_trees
    triton.slow_path_cudagraph_asserts triton.cudagraph_support_input_mutation
    triton.reorder_for_reducing_graph_partitions triton.coalesce_tiling_analysis
    triton.autotune_pointwise triton.autotune_cublasLt triton.tiling_prevents_pointwise_fusion
    triton.tiling_prevents_reduction_fusion triton.unique_kernel_names
    triton.persistent_reductions triton.divisible_by_16 triton.emit_pointer_range_32
    triton.transpose_discontiguous_tensor_descriptor triton.codegen_upcast_to_fp32
    triton.mix_order_reduction triton.mix_order_reduction_allow_multi_stages
    triton.proton_group_by_sm triton.proton_split_invocations triton.proton_per_cta_occupancy
    triton.dynamic_disable_pipelining aot_inductor.enable_frame_pointer
    aot_inductor.enable_line_tables aot_inductor.use_consts_asm_build aot_inductor.dynamic_linkage
    aot_inductor.raise_error_on_ignored_optimization aot_inductor.check_lowerbound
    aot_inductor.package_constants_in_so aot_inductor.precompile_headers
    aot_inductor.link_libtorch cutlass.cutlass_prescreening cutlass.use_binary_remote_cache
    cutlass.enable_caching_codegen cuda.cutlass_prescreening cuda.use_binary_remote_cache
    cuda.enable_caching_codegen xpu.cutlass_prescreening xpu.use_binary_remote_cache
    xpu.enable_caching_codegen rocm.use_fast_math rocm.flush_denormals trace.fx_graph
    trace.fx_graph_transformed trace.ir_pre_fusion trace.ir_post_fusion trace.output_code
    write_are_deterministic_algorithms_enabled lookup_table.check_src_hash
    test_configs.assume_bucketing_reduces_latency emulate_precision_casts_on_saved_tensors
"""
_FALSE = """
    can_inplace_pad_graph_input debug verbose_progress remote_gemm_autotune_cache
    unsafe_skip_cache_dynamic_shape_guards cpp_wrapper cpp_wrapper_build_separate fx_wrapper dce
    nan_asserts runtime_triton_nan_asserts memory_planning use_fast_math
    epilogue_fusion_with_atomic_add epilogue_fusion_first
    epilogue_fusion_user_defined_triton_kernel b2b_gemm_pass efficient_conv_bn_eval_fx_passes
    is_predispatch group_fusion force_fuse_int_mm_with_mul reorder_for_compute_comm_overlap
    reorder_for_peak_memory_debug dedup_reduce_scatters runtime_estimations_mms_benchmark
    distributed_max_autotune_gemm pipeline_max_autotune_gemm use_torch_profiler_benchmarker
    max_autotune max_autotune_pointwise max_autotune_gemm
    max_autotune_prune_choices_based_on_shared_mem triton_disable_device_detection
    max_autotune_allow_flexible_layouts nvgemm_supplement_configs fallback_by_default
    selective_decompose cutedsl_enable_autotuning autotune_fallback_to_aten search_autotune_cache
    save_args autotune_in_subproc autotune_multi_device coordinate_descent_tuning
    coordinate_descent_check_all_directions autoheuristic_collect.pad_mm
    autoheuristic_collect.mixed_mm run_jit_post_compile_hook force_layout_optimization
    cache_sdpa_constraint warn_mix_layout fallback_random align_random_eager
    fallback_embedding_bag_byte_unpack assume_unaligned_fallback_output aggressive_fusion
    debug_fusion benchmark_fusion force_pointwise_cat comment_origin conv_1x1_as_mm deterministic
    batch_invariant benchmark_kernel always_keep_tensor_constants do_not_emit_runtime_assertions
    compute_all_bounds combo_kernels benchmark_combo_kernel combo_kernel_per_subkernel_blocks
    combo_kernels_pointwise_only debug_index_asserts is_nightly_or_source developer_warnings
    log_tlparse _fuse_ddp_communication _micro_pipeline_tp partitioned_scatter_enabled
    _collective.auto_select aten_distributed_optimizations.enable_overlap_scheduling
    aten_distributed_optimizations.log_final_collectives_estimations
    aten_distributed_optimizations.bucket_only_internode_comms
    aten_distributed_optimizations.spmd_check
    aten_distributed_optimizations.overlap_scheduling_autofix_cycles
    aten_distributed_optimizations.enable_low_contention_collectives
    aten_distributed_optimizations.low_contention_skip_overlap_check
    aten_distributed_optimizations.pre_bucketing_fsdp_collectives_verbose
    aten_distributed_optimizations.allow_comms_decompositions
    static_launch_user_defined_triton_kernels strict_static_cuda_launcher keep_static_cubin_raw
    pad_channels_last pad_dynamic_shapes expand_dimension_for_pointwise_nodes pad_outputs
    force_shape_pad permute_fusion profiler_mark_wrapper_call generate_intermediate_hooks
    debug_ir_traceback _raise_error_for_testing profile_bandwidth
    profile_bandwidth_with_do_bench_using_profiling disable_cpp_codegen freezing
    freezing_discard_parameters decompose_mem_bound_mm wrap_inductor_compiled_regions
    assume_aligned_inputs assume_32bit_indexing unsafe_ignore_unsupported_triton_autotune_args
    check_stack_no_cycles_TESTING_ONLY force_disable_cudagraph_TESTING_ONLY
    enable_linear_binary_folding annotate_training enable_autograd_for_aot auto_chunker.enable
    cpp.dynamic_threads cpp.enable_kernel_profile cpp.enable_unsafe_math_opt_flag
    cpp.enable_grouped_gemm_template cpp.enable_concat_linear cpp.use_decompose_tanh
    cpp.use_small_dequant_buffer cpp.force_inline_kernel triton.cudagraphs
    triton.cudagraph_skip_dynamic_graphs triton.cudagraph_trees_history_recording
    triton.cudagraph_trees_objgraph triton.force_cudagraph_sync triton.force_cudagraphs_warmup
    triton.cudagraph_or_error triton.fast_path_cudagraph_asserts triton.skip_cudagraph_warmup
    triton.debug_sync_graph triton.debug_sync_kernel triton.dense_indexing triton.prefer_nd_tiling
    triton.autotune_with_sample_inputs triton.tile_reductions triton.native_matmul
    triton.unique_user_kernel_names triton.decompose_sort_ops triton.cooperative_reductions
    triton.force_cooperative_reductions triton.store_cubin triton.use_block_ptr
    triton.use_tensor_descriptor triton.enable_persistent_tma_matmul
    triton.enable_template_tma_store triton.enable_tma_load_for_template_epilogue
    triton.skip_l1_cache triton.disallow_failing_autotune_kernels_TESTING_ONLY triton.enable_pdl
    triton.mix_order_reduction_autotune_split_size triton.mix_order_reduction_non_strict_mode
    triton.nested_reduction triton.proton_profiling aot_inductor.autotune_per_kernel_alloc
    aot_inductor.debug_compile aot_inductor.debug_symbols
    aot_inductor.use_runtime_constant_folding aot_inductor.force_mmap_weights aot_inductor.package
    aot_inductor.dump_aoti_minifier aot_inductor.allow_stack_allocation
    aot_inductor.use_minimal_arrayref_interface aot_inductor.weight_use_caching_allocator
    aot_inductor.enable_lto aot_inductor_mode.compile_standalone cutlass.enable_debug_info
    cutlass.use_fast_math cutlass.cutlass_epilogue_fusion_enabled cutlass.cutlass_tma_only
    cutlass.generate_test_runner cutlass.cutlass_hash_with_compile_cmd
    cutlass.upload_to_binary_remote_cache cutlass.binary_remote_cache_force_write
    cuda.enable_cuda_lto cuda.enable_ptxas_info cuda.enable_debug_info cuda.use_fast_math
    cuda.cutlass_epilogue_fusion_enabled cuda.cutlass_tma_only cuda.generate_test_runner
    cuda.cutlass_hash_with_compile_cmd cuda.upload_to_binary_remote_cache
    cuda.binary_remote_cache_force_write xpu.enable_debug_info xpu.use_fast_math
    xpu.cutlass_epilogue_fusion_enabled xpu.cutlass_tma_only xpu.generate_test_runner
    xpu.cutlass_hash_with_compile_cmd xpu.upload_to_binary_remote_cache
    xpu.binary_remote_cache_force_write rocm.is_debug rocm.save_temps
    rocm.print_kernel_resource_usage rocm.generate_test_runner rocm.use_preselected_instances
    rocm.origami mtia.disable_welford_reduction halide.asserts halide.debug halide.scan_kernels
    trace.enabled trace.save_real_tensors trace.debug_log trace.info_log trace.graph_diagram
    trace.draw_orig_fx_graph trace.compile_profile trace.log_autotuning_results
    test_configs.force_extern_kernel_in_multi_template test_configs.force_no_impl_grouping
    test_configs.runtime_triton_dtype_assert test_configs.runtime_triton_shape_assert
    test_configs.static_cpp_dtype_assert test_configs.graphsafe_rng_func_ignores_fallback_random
    test_configs.use_libtorch test_configs.force_filter_reduction_configs
    test_configs.bisect_pre_grad_graph test_configs.bisect_keep_custom_backend_for_inductor
    eager_numerics.division_rounding eager_numerics.disable_ftz
    eager_numerics.use_pytorch_libdevice emulate_precision_casts
"""
_PLAIN = {
    "precompilation_timeout_seconds": 300, "size_threshold_for_succ_based_strategy": 0,
    "estimate_op_runtime": "default", "cpu_gpu_bw": 50.0, "inductor_default_autotune_warmup": 25,
    "inductor_default_autotune_rep": 100, "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
    "max_autotune_conv_backends": "ATEN,TRITON", "max_autotune_conv_bwd_weight_backends": "ATEN",
    "max_autotune_conv_bwd_input_backends": "ATEN", "unbacked_symint_fallback": 8192,
    "max_autotune_subproc_result_timeout_seconds": 60.0,
    "max_autotune_subproc_graceful_timeout_seconds": 0.0,
    "max_autotune_subproc_terminate_timeout_seconds": 0.0, "collective_benchmark_nruns": 50,
    "collective_benchmark_timeout": 30.0, "coordinate_descent_search_radius": 1,
    "autoheuristic_log_path": "DEFAULT", "layout_opt_default": "1", "realize_reads_threshold": 4,
    "_realize_opcount_threshold_default": 30, "realize_cpu_opcount_threshold": 50,
    "_realize_acc_reads_threshold_default": 8, "realize_cpu_acc_reads_threshold": 12,
    "enabled_metric_tables": "", "score_fusion_memory_threshold": 10,
    "max_epilogue_benchmarked_choices": 1, "max_fusion_size": 64, "min_overlap_ratio": 1.1,
    "max_fusion_buffer_group_pairwise_attempts": 64, "max_complex_pointwise_cat_inputs": 8,
    "max_pointwise_cat_inputs": 8, "unroll_reductions_threshold": 8, "min_num_split": 0,
    "combo_kernels_autotune": 1, "combo_kernel_allow_mixed_sizes": 1,
    "combo_kernel_max_num_args": 250, "combo_kernel_max_num_nodes": 8,
    "combo_kernel_max_distance": -1, "disabled_passes": "", "worker_start_method": "subprocess",
    "small_memory_access_threshold": 16777216, "_fuse_ddp_bucket_size": 25,
    "partitioned_scatter_min_partitions": 2, "partitioned_scatter_max_partitions": 128,
    "partitioned_scatter_memory_budget": 0.1,
    "_collective.one_shot_all_reduce_threshold_bytes": 131072,
    "aten_distributed_optimizations.low_contention_min_bytes_per_rank": 16777216,
    "aten_distributed_optimizations.pre_bucketing_fsdp_collectives_min_bucket_cap_mb": 10.0,
    "aten_distributed_optimizations.pre_bucketing_fsdp_collectives_max_bucket_cap_mb": 500.0,
    "aten_distributed_optimizations.pre_bucketing_fsdp_collectives_saturation_calibration_multiplier": 1.0,
    "quiesce_async_compile_time": 60, "kernel_name_max_ops": 10, "padding_alignment_bytes": 128,
    "padding_stride_threshold": 1024, "profile_bandwidth_regex": "", "file_lock_timeout": 600,
    "compile_worker_wait_timeout": 0, "torchinductor_worker_logpath": "",
    "auto_chunker.output_size_threshold": 1048576, "auto_chunker.amplify_ratio_threshold": 8,
    "cpp.threads": -1, "cpp.min_chunk_size": 512, "cpp.max_horizontal_fusion_size": 16,
    "cpp.enable_floating_point_contract_flag": "off", "cpp.gemm_max_k_slices": 1,
    "cpp.use_two_step_variance_threshold": 1024, "triton.cudagraph_min_partition_size": 0,
    "triton.cudagraph_unexpected_rerecord_limit": 128,
    "triton.cudagraph_partition_memory_budget": 1.1,
    "triton.use_two_step_variance_min_numel": 1024,
    "triton.use_two_step_variance_threshold": 32768, "triton.min_split_scan_rblock": 256,
    "triton.spill_threshold": 16, "triton.num_decompose_k_splits": 10,
    "triton.decompose_k_threshold": 32, "triton.mix_order_reduction_initial_xblock": 1,
    "triton.mix_order_reduction_max_reads": 10, "triton.max_kernel_dump_occurrences": 3,
    "aot_inductor.output_path": "", "aot_inductor.compile_wrapper_opt_level": "O1",
    "aot_inductor.serialized_in_spec": "", "aot_inductor.serialized_out_spec": "",
    "aot_inductor.repro_level": 2, "cutlass.cutlass_dir": "",
    "cutlass.cutlass_backend_min_gemm_size": 1, "cutlass.cutlass_instantiation_level": "0",
    "cutlass.cutlass_enabled_ops": "all", "cuda.compile_opt_level": "-O1", "cuda.cutlass_dir": "",
    "cuda.cutlass_backend_min_gemm_size": 1, "cuda.cutlass_instantiation_level": "0",
    "cuda.cutlass_enabled_ops": "all", "xpu.cutlass_dir": "", "xpu.compile_opt_level": "-O1",
    "xpu.cutlass_backend_min_gemm_size": 1, "xpu.cutlass_instantiation_level": "0",
    "xpu.cutlass_enabled_ops": "all", "rocm.split_k_threshold": 16,
    "rocm.contiguous_threshold": 16, "rocm.origami_topk": 6, "halide.cpu_target": "host",
    "halide.gpu_target": "host-cuda", "trace.graph_diagram_format": "svg",
    "trace.orig_fx_graph_diagram_format": "svg", "trace.provenance_tracking_level": 0,
    "test_configs.distort_benchmarking_result": "",
}
_OPEN = {
    "worker_log_path": None, "fx_graph_remote_cache": None,
    "bundle_triton_into_fx_graph_cache": True, "autotune_remote_cache": None,
    "bundled_autotune_remote_cache": None, "unsafe_marked_cacheable_functions": {},
    "sleep_sec_TESTING_ONLY": None,
    "triton_kernel_default_layout_constraint": "needs_fixed_stride_order",
    "memory_pool": "intermediates", "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None, "custom_partitioner_fn": None,
    "joint_custom_pre_pass": None, "joint_custom_post_pass": None, "pre_grad_custom_pass": None,
    "pre_grad_fusion_options": {}, "post_grad_fusion_options": {}, "fx_passes_numeric_check": {},
    "mixed_mm_choice": "heuristic", "reorder_for_compute_comm_overlap_passes": [],
    "reorder_prefetch_limit": None, "bucket_all_gathers_fx": "none",
    "bucket_all_gathers_fx_bucket_size_determinator": None,
    "bucket_all_gathers_bucket_mode": "default", "bucket_reduce_scatters_fx": "none",
    "bucket_reduce_scatters_fx_bucket_size_determinator": None,
    "bucket_reduce_scatters_bucket_mode": "default", "bucket_all_reduces_fx": "none",
    "bucket_all_reduces_fx_bucket_size_determinator": None, "intra_node_bw": None,
    "inter_node_bw": None, "incremental_autotune": False, "autotune_num_choices_displayed": 10,
    "cudagraph_policy": None, "custom_should_partition_ops": [],
    "cudagraph_unsafe_unbacked_ops": [], "multi_kernel_hints": [],
    "nvgemm_max_profiling_configs": 5, "max_autotune_gemm_search_space": "DEFAULT",
    "max_autotune_flex_search_space": "DEFAULT", "pre_grad_pass_timing": "default",
    "autoheuristic_use.pad_mm": None, "realize_opcount_threshold": None,
    "realize_acc_reads_threshold": None, "realize_acc_reads_size_threshold": None,
    "inductor_choices_class": None, "max_fusion_unique_io_buffers": None,
    "combo_kernel_peak_memory_increase_gb": None, "combo_kernel_peak_memory_pct_threshold": 0.05,
    "add_pre_grad_passes": None, "remove_pre_grad_passes": None,
    "aten_distributed_optimizations.collective_bucketing": None,
    "aten_distributed_optimizations.insert_overlap_deps": None,
    "aten_distributed_optimizations.max_compute_pre_fetch": None,
    "aten_distributed_optimizations.compute_overlap_multipler": None,
    "aten_distributed_optimizations.custom_runtime_estimation": None,
    "aten_distributed_optimizations.collective_estimator": "analytical",
    "aten_distributed_optimizations.compute_estimator": "benchmark",
    "aten_distributed_optimizations.profile_guided_estimations_profile_path": None,
    "aten_distributed_optimizations.max_memory_increase_gb": None,
    "aten_distributed_optimizations.max_memory_increase_ratio": None,
    "aten_distributed_optimizations.max_in_flight_gb": None,
    "aten_distributed_optimizations.max_coll_distance": None,
    "aten_distributed_optimizations.bucket_exposed_first": None,
    "aten_distributed_optimizations.bucket_mode": None,
    "aten_distributed_optimizations.spmd_mismatch": "warn",
    "aten_distributed_optimizations.pre_bucketing_fsdp_collectives_bucket_cap_mb": None,
    "compile_threads": 1, "global_cache_dir": None, "profile_bandwidth_output": None,
    "autotune_lookup_table": {}, "auto_chunker.num_chunk": None, "cpp.simdlen": None,
    "cpp.cxx": (None, "g++"), "cpp.march": None, "cpp.inject_relu_bug_TESTING_ONLY": None,
    "cpp.inject_log1p_bug_TESTING_ONLY": None, "cpp.vec_isa_ok": None,
    "cpp.descriptive_names": "original_aten", "cpp.gemm_cache_blocking": None,
    "cpp.gemm_thread_factors": None, "triton.cudagraph_capture_sizes": None,
    "triton.cudagraph_dynamic_shape_warn_limit": 8, "triton.max_tiles": None,
    "triton.autotune_at_compile_time": None, "triton.descriptive_names": "original_aten",
    "triton.multi_kernel": 0, "triton.inject_relu_bug_TESTING_ONLY": None,
    "triton.mix_order_reduction_split_size": None, "triton.debug_dump_kernel_inputs": {},
    "triton.proton_output_dir": None, "aot_inductor.debug_intermediate_value_printer": "0",
    "aot_inductor.filtered_kernel_names": None, "aot_inductor.package_cpp_only": None,
    "aot_inductor.metadata": {}, "aot_inductor.presets": {},
    "aot_inductor.package_constants_on_disk_format": None,
    "aot_inductor.embed_kernel_binary": None, "aot_inductor.emit_multi_arch_kernel": None,
    "aot_inductor.model_name_for_generated_files": None, "aot_inductor.custom_ops_to_c_shims": {},
    "aot_inductor.custom_op_libs": None, "aot_inductor.cross_target_platform": None,
    "aot_inductor.aoti_shim_library": None, "aot_inductor.aoti_shim_library_path": None,
    "cutlass.compile_opt_level": "-O1", "cutlass.cutlass_max_profiling_configs": None,
    "cutlass.cutlass_max_profiling_swizzle_options": [1, 2, 4, 8],
    "cutlass.cutlass_dynamic_cluster_shape": (2, 1, 1),
    "cutlass.cutlass_dynamic_cluster_fallback": (2, 1, 1),
    "cutlass.cutlass_op_allowlist_regex": None, "cutlass.cutlass_op_denylist_regex": None,
    "cuda.arch": None, "cuda.version": None, "cuda.cuda_cxx": None,
    "cuda.nvgemm_max_profiling_configs": 5, "cuda.cutlass_max_profiling_configs": None,
    "cuda.cutlass_max_profiling_swizzle_options": [1, 2, 4, 8],
    "cuda.cutlass_dynamic_cluster_shape": (2, 1, 1),
    "cuda.cutlass_dynamic_cluster_fallback": (2, 1, 1), "cuda.cutlass_op_allowlist_regex": None,
    "cuda.cutlass_op_denylist_regex": None, "xpu.arch": None, "xpu.version": None,
    "xpu.oneapi_root": None, "xpu.cutlass_max_profiling_configs": None,
    "xpu.cutlass_max_profiling_swizzle_options": [1, 2, 4, 8],
    "xpu.cutlass_dynamic_cluster_shape": (2, 1, 1),
    "xpu.cutlass_dynamic_cluster_fallback": (2, 1, 1), "xpu.cutlass_op_allowlist_regex": None,
    "xpu.cutlass_op_denylist_regex": None, "rocm.arch": [],
    "rocm.ck_supported_arch": ["gfx90a", "gfx942", "gfx950"], "rocm.compile_opt_level": "-O2",
    "rocm.rocm_home": None, "rocm.ck_dir": None, "rocm.n_max_profiling_configs": None,
    "rocm.ck_max_profiling_configs": None, "rocm.ck_tile_max_profiling_configs": None,
    "rocm.kBatch_sweep": None, "cpu_backend": "cpp", "cuda_backend": "triton",
    "tpu_backend": "pallas", "xpu_backend": "triton", "halide.scheduler_cuda": "Anderson2021",
    "halide.scheduler_cpu": "Adams2019", "trace.debug_dir": None, "trace.dot_graph_shape": None,
    "trace.log_url_for_graph_xform": None, "trace.upload_tar": None, "external_matmul": [],
    "lookup_table.table": None, "test_configs.force_custom_op_decomposition": None,
    "test_configs.max_mm_configs": None, "test_configs.max_flex_configs": None,
    "test_configs.autotune_choice_name_regex": None,
    "test_configs.autotune_choice_desc_regex": None, "test_configs.track_memory_lifecycle": None,
}
_ALIASES = {
    "force_disable_caches": "ftorch.compiler.config.force_disable_caches",
    "use_static_triton_launcher": "use_static_cuda_launcher",
    "strict_static_triton_launcher": "strict_static_cuda_launcher",
}

install(__name__, true=_TRUE, false=_FALSE, plain=_PLAIN, open=_OPEN,
        aliases=_ALIASES)
