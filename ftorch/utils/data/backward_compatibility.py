"""A name that older programs pass to `DataLoader`."""

from typing_extensions import deprecated


@deprecated(
    "Usage of `backward_compatibility.worker_init_fn` is deprecated as `DataLoader` automatically "
    "applies sharding in every worker",
    category=FutureWarning,
)
def worker_init_fn(worker_id) -> None:
    """Does nothing: workers shard their datapipes by themselves."""
