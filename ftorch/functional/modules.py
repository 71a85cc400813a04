"""Making modules fit for `vmap`."""

from __future__ import annotations


def batch_norm_without_running_stats(module):
    """Turns off a batch norm's running statistics, in place; other modules stay as they are."""
    from ..nn.modules.batchnorm import _BatchNorm

    if isinstance(module, _BatchNorm) and module.track_running_stats:
        module.running_mean = None
        module.running_var = None
        module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root):
    """Turns off the running statistics of all batch norms of a module, in place; returns it.

    Under `vmap` the statistics, shared by all examples, could not be updated.

    >>> import ftorch as torch
    >>> model = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    >>> torch.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    True
    """
    for module in root.modules():
        batch_norm_without_running_stats(module)
    return root
