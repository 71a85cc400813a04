"""What passes are made with: their base class, the pass manager, the partitioner."""
