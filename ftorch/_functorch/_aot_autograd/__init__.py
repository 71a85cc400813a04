"""Ahead-of-time autograd: a function of tensors as graphs of ATen's ops, forward and backward."""
