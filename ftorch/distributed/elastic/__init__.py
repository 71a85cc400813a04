"""Programs whose processes may fail and come back (``torch.distributed.elastic``)."""
