"""What those modules are written from (``torch.distributed.nn.jit.templates``)."""
