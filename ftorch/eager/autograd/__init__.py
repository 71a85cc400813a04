"""Autograd: the graph that gradients flow through, and the engine that walks it."""
