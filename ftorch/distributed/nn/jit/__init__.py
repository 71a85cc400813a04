"""Modules that are written for remote modules with an interface (``torch.distributed.nn.jit``)."""
