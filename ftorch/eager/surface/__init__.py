"""The public surface, derived from the registry."""
