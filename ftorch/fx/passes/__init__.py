"""Passes over graphs: shapes, splitting, drawing, common subexpressions, partitions."""
