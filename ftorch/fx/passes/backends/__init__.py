"""Parts of graphs that a backend runs."""
