"""Helpers of passes: matching subgraphs."""
