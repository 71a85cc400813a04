"""TorchScript programs: their objects, types and execution."""
