"""Helpers of passes: matching subgraphs, and parts of graphs as modules."""

from .common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]
