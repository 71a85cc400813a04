"""A name that older programs pass to `DataLoader`."""

import warnings


def worker_init_fn(worker_id) -> None:
    """Does nothing: workers shard their datapipes by themselves."""
    warnings.warn(
        "Usage of `backward_compatibility.worker_init_fn` is deprecated as `DataLoader` "
        "automatically applies sharding in every worker",
        FutureWarning,
        stacklevel=2,
    )
