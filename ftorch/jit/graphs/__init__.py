"""Captured calls as graphs: for backends, and to be read."""
