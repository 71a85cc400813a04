"""Sparsifiers in training loops of Lightning (``…data_sparsifier.lightning``)."""
