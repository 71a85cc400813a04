"""Modules that compute their forward again in backward."""
