"""What chooses zeros (``torch.ao.pruning.sparsifier``)."""
