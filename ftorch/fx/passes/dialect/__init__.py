"""Passes by the kind of ops they know."""
