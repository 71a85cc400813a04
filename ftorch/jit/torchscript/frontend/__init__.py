"""From Python to TorchScript programs."""
