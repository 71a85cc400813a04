"""Function transforms: the levels of ``vmap`` and forward mode, and what `ftorch.func` makes of them and of the tape."""
