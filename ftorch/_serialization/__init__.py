"""What checkpoints are made of."""
