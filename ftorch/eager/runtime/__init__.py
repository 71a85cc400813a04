"""Recorded steps, and how they become programs that run."""
