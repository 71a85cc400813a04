"""The module paths of functorch that libraries import; everything lives in `ftorch.functional`."""

from . import (  # noqa: F401
    apis,
    batch_norm_replacement,
    eager_transforms,
    functional_call,
    make_functional,
    vmap,
)
