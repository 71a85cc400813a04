"""How operators go with placements, said as PyTorch's tables say it (``torch.distributed.tensor._ops``)."""
