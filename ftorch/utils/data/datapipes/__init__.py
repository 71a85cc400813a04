"""Datapipes: datasets that are made of each other (``torch.utils.data.datapipes``)."""

from . import iter, map

__all__ = ["iter", "map"]
