"""Sparsifiers of activations, of data and of whole rows (``torch.ao.pruning._experimental``)."""
