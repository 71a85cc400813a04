"""TorchScript archives."""
