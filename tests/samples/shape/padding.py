"""Samples for ftorch/eager/kernels/shape/padding.py."""

from tests.samples import S, T, register

register("constant_pad_nd", S(T(2, 3), [1, 2], 4.0), S(T(2, 3), [-1, 0, 1, -1]))
register("pad", S(T(2, 3), [1, 2]), S(T(2, 3), [1, -1, 0, 2], value=3), S(T(), []))
for _mode in ("reflect", "replicate", "circular"):
    register("pad", S(T(1, 2, 4), [1, 2], mode=_mode), S(T(1, 2, 3, 4), [1, 1, 2, 0], mode=_mode),
             S(T(1, 3, 3, 3), [1, 1, 1, 1, 2, 1], mode=_mode),
             S(T(2, 4), [-1, 2], mode=_mode))
register("pixel_shuffle", S(T(2, 8, 3, 2), 2), S(T(4, 1, 1), 1))
register("pixel_unshuffle", S(T(2, 2, 4, 6), 2), S(T(1, 3, 3), 3))
register("channel_shuffle", S(T(2, 6, 2, 2), 3), S(T(1, 4, 2), 2))
register("im2col", S(T(2, 3, 4, 5), (2, 3), (1, 1), (0, 0), (1, 1)),
         S(T(3, 6, 5), (2, 2), (2, 1), (1, 2), (2, 1)))
register("col2im", S(T(2, 12, 12), (4, 5), (2, 2), (1, 1), (0, 0), (1, 1)),
         S(T(12, 24), (6, 5), (2, 2), (2, 1), (1, 2), (2, 1)))
