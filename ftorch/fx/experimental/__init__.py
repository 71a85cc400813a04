"""Newer parts: ``make_fx`` and constant folding."""
