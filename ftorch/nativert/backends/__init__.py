"""``torch.nativert.backends``."""
