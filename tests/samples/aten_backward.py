"""Samples for ftorch/eager/kernels/aten_backward.py."""

from . import S, T, register

_TWO = (T(2, 3), T(2, 3))
_NUMBERS = T(2, 3, low=-4, high=4)
for _name in ("sigmoid_backward", "tanh_backward"):
    register(_name, S(*_TWO))
for _name in ("silu_backward", "mish_backward"):
    register(_name, S(T(2, 3), _NUMBERS))
# PyTorch's second derivatives are formulas of their own at the ends of the slope.
for _name in ("hardsigmoid_backward", "hardswish_backward"):
    register(_name, S(T(2, 3), T(2, 3, low=-2, high=2, grad=False)))
register("gelu_backward", S(T(2, 3), _NUMBERS), S(T(2, 3), _NUMBERS, approximate="tanh"))
register("threshold_backward", S(T(2, 3), _NUMBERS, 0.5), S(T(2, 3), _NUMBERS, 0))
register("hardshrink_backward", S(T(2, 3), _NUMBERS, 0.5))
register("softshrink_backward", S(T(2, 3), _NUMBERS, 0.5))
register("hardtanh_backward", S(T(2, 3), _NUMBERS, -1.0, 2.0))
register("leaky_relu_backward", S(T(2, 3), _NUMBERS, 0.1, False))
register("elu_backward", S(T(2, 3), 1.5, 1.0, 0.5, False, _NUMBERS), S(T(2, 3), 1.5, 1.0, 0.5, True, T(2, 3)))
register("softplus_backward", S(T(2, 3), _NUMBERS, 2.0, 3.0))
register("log_sigmoid_backward", S(T(2, 3), T(2, 3, grad=False), T(2, 3, low=0.1, high=0.9, grad=False)))
register("glu_backward", S(T(2, 3), T(2, 6), 1))

register("mse_loss_backward", S(T(), *_TWO, 1), S(T(), *_TWO, 2), S(T(2, 3), *_TWO, 0))
register("smooth_l1_loss_backward", S(T(), T(2, 3, grad=False), T(2, 3, grad=False), 1, 0.5))
register("huber_loss_backward", S(T(), T(2, 3, grad=False), T(2, 3, grad=False), 2, 0.5))
_SHARE = T(2, 3, low=0.1, high=0.9, grad=False)
register("binary_cross_entropy_backward", S(T(), _SHARE, _SHARE, None, 1), S(T(2, 3), _SHARE, _SHARE, _SHARE, 0))
_CLASS = T(2, values=[0, 2], dtype="int64")
register("nll_loss_backward", S(T(), T(2, 3), _CLASS, None, 1, -100, T(values=2.0, grad=False)),
         S(T(2), T(2, 3), _CLASS, None, 0, -100, T(values=0.0, grad=False)))
register("nll_loss2d_backward", S(T(), T(2, 3, 1, 1), T(2, 1, 1, values=[[[0]], [[2]]], dtype="int64"), None, 1, -100,
                                 T(values=2.0, grad=False)))

_ALL = (True, True, True)
_ROW = T(2, 1, low=0.5, grad=False)
_STILL = T(2, 3, grad=False)
_THREE = T(3, low=0.5, grad=False)
register("native_layer_norm_backward", S(_STILL, _STILL, (3,), _ROW, _ROW, _THREE, _THREE, _ALL))
_MAPS = T(2, 4, 2, 2, grad=False)
_FOUR = T(4, low=0.5, grad=False)
_GROUPS = T(2, 2, low=0.5, grad=False)
register("native_group_norm_backward", S(_MAPS, _MAPS, _GROUPS, _GROUPS, _FOUR, 2, 4, 4, 2, _ALL))
register("native_batch_norm_backward", S(_MAPS, _MAPS, _FOUR, None, None, _FOUR, _FOUR, True, 1e-5, _ALL),
         S(_MAPS, _MAPS, _FOUR, _FOUR, _FOUR, None, None, False, 1e-5, _ALL))
register("convolution_backward",
         S(T(1, 2, 3, 3, grad=False), T(1, 1, 4, 4, grad=False), T(2, 1, 2, 2, grad=False), (2,), (1, 1), (0, 0), (1, 1),
           False, (0, 0), 1, _ALL))
register("avg_pool2d_backward", S(T(1, 1, 2, 2), T(1, 1, 4, 4, grad=False), (2, 2), (2, 2), (0, 0), False, True, None))
register("avg_pool3d_backward",
         S(T(1, 1, 1, 1, 1), T(1, 1, 2, 2, 2, grad=False), (2,) * 3, (2,) * 3, (0,) * 3, False, True, None))
register("_adaptive_avg_pool2d_backward", S(T(1, 1, 2, 2), T(1, 1, 5, 4, grad=False)))
register("_adaptive_avg_pool3d_backward", S(T(1, 1, 1, 2, 2), T(1, 1, 2, 5, 4, grad=False)))

register("embedding_dense_backward", S(T(2, 3), _CLASS, 4, -1, False), S(T(2, 3), _CLASS, 4, 2, True))
register("select_backward", S(T(3), (2, 3), 0, 1), S(T(2), (2, 3), -1, -1))
register("slice_backward", S(T(2, 2), (2, 3), 1, 1, 3, 1), S(T(2, 2), (2, 3), -1, 0, 9223372036854775807, 2))
register("diagonal_backward", S(T(2), (2, 3), 0, 0, 1), S(T(2), (2, 3), 1, 0, 1))
register("unfold_backward", S(T(2, 2, 2), (2, 3), 1, 2, 1))
register("trace_backward", S(T(), (2, 3)))
for _n in (1, 2, 3):
    _small, _large = (1, 2, *(2,) * _n), (1, 2, *(4,) * _n)
    for _name in ("upsample_nearest", "_upsample_nearest_exact"):
        register(f"{_name}{_n}d_backward", S(T(*_large), (4,) * _n, _small), S(T(*_large), (4,) * _n, _small, *(2.0,) * _n))
    _name = ("linear", "bilinear", "trilinear")[_n - 1]
    register(f"upsample_{_name}{_n}d_backward", S(T(*_large), (4,) * _n, _small, False), S(T(*_large), (4,) * _n, _small, True))
register("upsample_bicubic2d_backward", S(T(1, 2, 4, 4), (4, 4), (1, 2, 2, 2), False))
for _n in (2, 3):
    register(f"grid_sampler_{_n}d_backward",
             S(T(1, 2, *(2,) * _n, grad=False), T(1, 2, *(3,) * _n, grad=False),
               T(1, *(2,) * _n, _n, low=-0.9, high=0.9, grad=False), 0, 0, False, (True, True)))
