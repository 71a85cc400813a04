"""Collectives in narrower dtypes."""
