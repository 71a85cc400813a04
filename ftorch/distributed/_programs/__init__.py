"""What compiled functions hold of the exchange between processes."""
