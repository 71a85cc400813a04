"""Calls captured as programs: their signatures, guards, lowering and results."""
