"""Passes for all ops."""
