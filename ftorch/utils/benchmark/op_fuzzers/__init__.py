"""Generators of inputs for benchmarks of operators (``torch.utils.benchmark.op_fuzzers``)."""
