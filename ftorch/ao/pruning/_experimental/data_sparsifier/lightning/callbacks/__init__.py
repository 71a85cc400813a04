"""What callbacks of Lightning call (``…data_sparsifier.lightning.callbacks``)."""
