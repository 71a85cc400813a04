"""``torch.cuda.green_contexts``: parts of a GPU, which XLA does not hand out."""

from __future__ import annotations

__all__ = ["GreenContext"]


class GreenContext:
    """A part of a GPU's multiprocessors."""

    @staticmethod
    def create(*, num_sms=None, workqueue_scope=None, workqueue_concurrency_limit=None, device_id=None):
        """Raises RuntimeError: XLA uses a device as a whole."""
        raise RuntimeError("Green contexts are not supported: XLA uses a device as a whole.")

    @staticmethod
    def max_workqueue_concurrency(device_id=None) -> int:
        """Raises RuntimeError: XLA uses a device as a whole."""
        raise RuntimeError("Green contexts are not supported: XLA uses a device as a whole.")
