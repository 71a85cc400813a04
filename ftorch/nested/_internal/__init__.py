"""The modules of jagged tensors, by PyTorch's private names."""
