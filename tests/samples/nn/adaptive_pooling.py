"""Samples of adaptive pooling."""

from tests.samples import S, T, register

from .pooling import distinct, ties

_EXTENT = (7, 6, 5)

for nd in (1, 2, 3):
    space = _EXTENT[:nd]
    sizes = ((1,) * nd, (2, 3, 4)[:nd], (3, 6, 5)[:nd], (9, 2, 1)[:nd])
    for size in sizes:
        register(f"adaptive_avg_pool{nd}d", S(T(2, 3, *space), size))
        register(f"adaptive_max_pool{nd}d", S(T(2, 3, *space, make=distinct), size))
    register(f"adaptive_avg_pool{nd}d", S(T(3, *space, dtype="float64"), (2,) * nd))
    register(f"adaptive_max_pool{nd}d", S(T(3, *space, make=ties), (2,) * nd))
