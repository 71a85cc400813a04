"""Parameters averaged now and then (``torch.distributed.algorithms.model_averaging``)."""
