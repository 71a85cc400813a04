"""Launchers (``torch.distributed.elastic.agent``)."""
