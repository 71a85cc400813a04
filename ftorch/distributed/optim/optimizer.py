"""`DistributedOptimizer`: optimizers that live where the parameters are."""

from __future__ import annotations

import threading

from .. import autograd, rpc

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """The optimizer of one process' parameters."""

    lock = threading.Lock()  # of all of a process: two steps would both use ``grad``

    def __init__(self, optim_cls, local_params_rref, *args, **kwargs):
        self.params = [p.local_value() for p in local_params_rref]
        self.optim = optim_cls(self.params, *args, **kwargs)

    def step(self, context_id) -> None:
        """A step with the gradients of a context."""
        grads = autograd.get_gradients(context_id)
        with _LocalOptimizer.lock:
            kept = [p.grad for p in self.params]
            for p in self.params:
                p.grad = next((g for q, g in grads.items() if q is p), None)
            try:
                self.optim.step()
            finally:
                for p, g in zip(self.params, kept):
                    p.grad = g


def _new_local_optimizer(optim_cls, local_params_rref, *args, **kwargs):
    return rpc.RRef(_LocalOptimizer(optim_cls, local_params_rref, *args, **kwargs))


def _local_step(rref, context_id):
    rref.local_value().step(context_id)


class DistributedOptimizer:
    """An optimizer of parameters that several processes own (``torch.distributed.optim.DistributedOptimizer``).

    Args:
        optimizer_class: of `ftorch.optim`; made in each owner with its own parameters and ``args``, ``kwargs``.
        params_rref: references to the parameters.
    """

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        by_owner: dict = {}
        for p in params_rref:
            by_owner.setdefault(p.owner(), []).append(p)
        futures = [
            rpc.rpc_async(owner, _new_local_optimizer, (optimizer_class, own, *args), kwargs)
            for owner, own in by_owner.items()
        ]
        self.remote_optimizers = [f.wait() for f in futures]

    def step(self, context_id: int) -> None:
        """A step of all of them, with the gradients of a `ftorch.distributed.autograd.context`.

        Raises:
            RuntimeError: for a number that is no context's.
        """
        autograd._retrieve_context(context_id)
        futures = [rpc.rpc_async(o.owner(), _local_step, (o, context_id)) for o in self.remote_optimizers]
        for future in futures:
            future.wait()
