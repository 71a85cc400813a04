"""Dispatch: what may take over a call: transform levels, ``__torch_function__``, autocast."""
