"""Recording an example run for ``jit.trace``."""
