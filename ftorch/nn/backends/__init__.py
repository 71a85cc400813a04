"""Names in old pickles (``torch.nn.backends``)."""
