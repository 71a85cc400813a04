"""Exceptions of ``torch.distributed``."""


class DistError(RuntimeError):
    """Something went wrong between processes."""


class DistBackendError(DistError):
    """A collective failed."""


class DistNetworkError(DistError):
    """A process cannot be reached."""


class DistStoreError(DistError):
    """A key was not set in time."""


class QueueEmptyError(DistStoreError):
    """A store's queue has nothing to take."""
