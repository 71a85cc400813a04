"""Samples of the convolutions."""

from tests.samples import S, T, register

_EXTENT = (6, 5, 4)

for nd in (1, 2, 3):
    space, kernel = _EXTENT[:nd], (3, 2, 2)[:nd]
    ones = (1,) * nd
    register(
        f"conv{nd}d",
        S(T(2, 4, *space), T(3, 4, *kernel), T(3)),
        S(T(4, *space), T(3, 4, *kernel)),
        S(T(2, 4, *space), T(6, 2, *kernel), T(6), stride=2, padding=1, dilation=1, groups=2),
        S(T(2, 4, *space), T(4, 1, *kernel), None, ones, ones, 2, groups=4),
        S(T(2, 3, *space, dtype="float64"), T(2, 3, *ones, dtype="float64")),
        S(T(0, 4, *space), T(3, 4, *kernel), T(3)),
        S(T(2, 4, *space, dtype="bfloat16"), T(3, 4, *kernel, dtype="bfloat16")),
        S(T(1, 2, *space, dtype="complex64"), T(3, 2, *kernel, dtype="complex64")),
    )
    register(
        f"conv{nd}d.padding",
        S(T(2, 4, *space), T(3, 4, *kernel), T(3), padding="same"),
        S(T(2, 4, *space), T(3, 4, *kernel), T(3), 1, "same", 3),
        S(T(2, 4, *space), T(4, 2, *kernel), T(4), 2, "valid", 1, 2),
    )
    register(
        f"conv_transpose{nd}d" + (".input" if nd > 1 else ""),
        S(T(2, 4, *space), T(4, 3, *kernel), T(3)),
        S(T(4, *space), T(4, 3, *kernel)),
        S(T(2, 4, *space), T(4, 3, *kernel), T(6), 2, 1, 1, 2),
        S(T(2, 4, *space), T(4, 3, *kernel), None, stride=2, padding=1, output_padding=1,
          dilation=2),
        S(T(0, 4, *space), T(4, 3, *kernel), T(3)),
        S(T(2, 2, *space, dtype="float16"), T(2, 3, *kernel, dtype="float16")),
    )

register("conv2d", S(T(4, 1, 8, 8), T(16, 1, 3, 3), T(16), padding=1))
register("conv2d", S(T(4, 16, 8, 8), T(32, 16, 3, 3), T(32), padding=1))
register(
    "conv2d", S(T(2, 3, 6, 7), T(6, 1, 3, 2), T(6), (2, 1), (1, 2), (1, 2), groups=3),
    S(T(2, 3, 6, 7), T(3, 1, 4, 4), None, 1, "same", groups=3),
)
register("conv_tbc", S(T(5, 2, 3), T(3, 3, 4), T(4), 1))
register(
    "convolution",
    S(T(2, 4, 6), T(3, 4, 3), None, (1,), (1,), (1,), False, (0,), 1),
    S(T(2, 4, 6), T(4, 3, 3), T(3), (2,), (1,), (1,), True, (1,), 1),
)
