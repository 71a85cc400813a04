"""The loggers of PyTorch's parts and the kinds of messages (``torch._logging._registrations``)."""

from __future__ import annotations

from ._internal import register_artifact, register_log

DYNAMIC = [f"torch.fx.experimental.{part}" for part in ("symbolic_shapes", "sym_node", "recording")]
DISTRIBUTED = ["torch.distributed", "torch._dynamo.backends.distributed", "torch.nn.parallel.distributed"]

for _name, _loggers in {
    "dynamo": ["torch._dynamo", *DYNAMIC],
    "fake_tensor": ["torch._subclasses.fake_tensor"],
    "aot": ["torch._functorch.aot_autograd", "torch._functorch._aot_autograd"],
    "autograd": ["torch.autograd"],
    "inductor": ["torch._inductor", "torch._inductor.cudagraph_trees"],
    "dynamic": DYNAMIC,
    "torch": ["torch"],
    "distributed": DISTRIBUTED,
    "c10d": ["torch.distributed.distributed_c10d", "torch.distributed.rendezvous"],
    "ddp": DISTRIBUTED[:0:-1],
    "pp": ["torch.distributed.pipelining"],
    "fsdp": ["torch.distributed.fsdp", "torch.distributed._composable.fsdp"],
    "dtensor": ["torch.distributed._tensor", "torch.distributed.tensor"],
    "onnx": ["torch.onnx"],
    "export": ["torch._dynamo", "torch.export", "torch.export.dynamic_shapes", *DYNAMIC, "torch._export.converter",
               "torch.fx.experimental.proxy_tensor"],
}.items():
    register_log(_name, _loggers)

# What `set_logs` shows here, then PyTorch's other kinds: what they are of does not exist where XLA compiles.
for _name, _text in {
    "graph_breaks": "Where functions leave the captured program, and why",
    "recompiles": "Why a function is compiled again: the conditions that failed",
    "guards": "The conditions under which a program is used again",
    "graph_code": "Captured graphs as Python",
    "graph": "Captured graphs",
    "output_code": "The program that runs",
}.items():
    register_artifact(_name, _text, visible=True, off_by_default=_name == "output_code")
for _name in """
        annotation aot_graphs aot_graphs_effects aot_joint_graph bytecode compiled_autograd ddp_graphs graph_code_verbose
        graph_sizes not_implemented post_grad_graphs pre_grad_graphs side_effects trace_bytecode trace_call
        trace_source""".split():
    register_artifact(_name, _name.replace("_", " "))
for _name in """
        auto_chunker autotuning benchmarking caching compiled_autograd_verbose compute_dependencies
        cudagraph_static_inputs cudagraphs fusion graph_region_expansion hierarchical_compile incremental inductor_metrics
        ir_post_fusion ir_pre_fusion kernel_code loop_ordering loop_tiling
        node_runtime_estimation onnx_diagnostics overlap overlap_scheduling perf_hints
        recompiles_verbose schedule sym_node trace_shape_events verbose_guards""".split():
    register_artifact(_name, _name.replace("_", " "), off_by_default=_name != "cudagraphs")
register_artifact("custom_format_test_artifact", "For tests of formats", log_format="")
