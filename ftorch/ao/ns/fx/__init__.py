"""Pairs of parts of two graph modules, and what they compute (``torch.ao.ns.fx``)."""
