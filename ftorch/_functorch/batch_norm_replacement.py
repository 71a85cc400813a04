"""``torch._functorch.batch_norm_replacement``."""

from ..functional.modules import (  # noqa: F401
    batch_norm_without_running_stats,
    replace_all_batch_norm_modules_,
)
