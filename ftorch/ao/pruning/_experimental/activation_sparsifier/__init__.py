"""Zeros in activations (``torch.ao.pruning._experimental.activation_sparsifier``)."""
