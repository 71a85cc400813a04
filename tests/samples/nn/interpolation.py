"""Samples of interpolation and grid sampling."""

from tests.samples import S, T, register

_SPACE = (5, 4, 3)
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}

for nd in (1, 2, 3):
    x = T(2, 3, *_SPACE[:nd])
    double = tuple(2 * n for n in _SPACE[:nd])
    odd = (3, 7, 4)[:nd]
    for size in (double, odd, _SPACE[:nd], (1,) * nd):
        for mode in ("nearest", "nearest-exact"):
            register("_interpolate", S(x, size, mode, False, None, False))
        for align in (False, True):
            register("_interpolate", S(x, size, _LINEAR[nd], align, None, False))
            if nd == 2:
                register("_interpolate", S(x, size, "bicubic", align, None, False))
                for mode in ("bilinear", "bicubic"):
                    register("_interpolate", S(x, size, mode, align, None, True))
    register("_interpolate", S(x, tuple(int(n * 1.7) for n in _SPACE[:nd]), _LINEAR[nd], False,
                               (1.7,) * nd, False))

for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            register(
                "grid_sample",
                S(T(2, 3, 4, 5), T(2, 3, 2, 2, low=-1.5, high=1.5), mode, padding, align),
            )
            if mode != "bicubic":
                points = T(1, 2, 3, 2, 3, low=-1.5, high=1.5)
                register("grid_sample", S(T(1, 2, 4, 3, 5), points, mode, padding, align))
for align in (False, True):
    register("affine_grid", S(T(2, 2, 3), (2, 1, 3, 4), align), S(T(1, 3, 4), (1, 2, 2, 1, 4), align))
