"""What says how many zeros there are (``torch.ao.pruning.scheduler``)."""
