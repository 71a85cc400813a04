"""What the top-level namespace is made of, beside the ops."""
