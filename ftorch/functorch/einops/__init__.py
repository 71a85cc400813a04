"""``functorch.einops``: `rearrange` of first-class dimensions' package."""

from ftorch.functional.rearrange import rearrange

__all__ = ["rearrange"]
