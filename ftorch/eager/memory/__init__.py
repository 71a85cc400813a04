"""Storages, and how they are read and written through strides."""
