"""``torch.nativert``: PyTorch's own runtime of exported programs; here XLA runs them."""
