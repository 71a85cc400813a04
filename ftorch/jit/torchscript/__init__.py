"""TorchScript: its language, its programs and its files."""
