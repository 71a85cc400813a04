"""Whether a QConfig gives what a backend asks of dtypes, ranges and scales."""

from __future__ import annotations

import warnings

from ftorch.ao.quantization.fake_quantize import FixedQParamsFakeQuantize
from ftorch.ao.quantization.observer import (
    FixedQParamsObserver,
    ObserverBase,
    _is_activation_post_process,
)
from ftorch.ao.quantization.qconfig import (
    float16_dynamic_qconfig,
    float16_static_qconfig,
    qconfig_equals,
)

_SUGGESTION = (
    "Please use torch.ao.quantization.get_default_qconfig_mapping or "
    "torch.ao.quantization.get_default_qat_qconfig_mapping. Example:\n"
    '    qconfig_mapping = get_default_qconfig_mapping("fbgemm")\n'
    "    model = prepare_fx(model, qconfig_mapping, example_inputs)"
)


def _refused(message) -> bool:
    warnings.warn(message, stacklevel=2)
    return False


def _gives(process, asked, what, qconfig) -> bool:
    observer = process if isinstance(process, ObserverBase) else process.activation_post_process
    low, high = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    eps = getattr(observer, "eps", None)
    bottom, top = asked.quant_min_lower_bound, asked.quant_max_upper_bound
    if bottom is not None and top is not None:
        if low is None or high is None:
            return _refused(f"QConfig {what} must specify 'quant_min' and 'quant_max', ignoring {qconfig}")
        if low < bottom or high > top:
            return _refused(
                f"QConfig {what} quantization range must fall within the backend's:\n"
                f"QConfig range = ({low}, {high}), BackendConfig range = ({bottom}, {top}), ignoring {qconfig}"
            )
    smallest = asked.scale_min_lower_bound
    if smallest is not None:
        if eps is None:
            return _refused(f"QConfig {what} must specify 'eps', ignoring {qconfig}")
        if eps < smallest:
            return _refused(
                f"QConfig {what} eps ({eps}) must be greater than or equal to "
                f"the backend's min scale value ({smallest}), ignoring {qconfig}"
            )
    scale, zero_point = asked.scale_exact_match, asked.zero_point_exact_match
    if scale is None or zero_point is None:
        return True
    if any(qconfig_equals(qconfig, accepted) for accepted in (float16_static_qconfig, float16_dynamic_qconfig)):
        return True
    if not isinstance(process, (FixedQParamsObserver, FixedQParamsFakeQuantize)):
        return _refused(
            "QConfig must specify a FixedQParamsObserver or a FixedQParamsFakeQuantize "
            f"for fixed qparams ops, ignoring {qconfig}.\n{_SUGGESTION}"
        )
    if observer.scale != scale or observer.zero_point != zero_point:
        return _refused(
            f"QConfig fixed scale ({observer.scale}) and zero point ({observer.zero_point}) "
            f"do not match the backend's ({scale} and {zero_point}), ignoring {qconfig}.\n{_SUGGESTION}"
        )
    return True


def _qconfig_satisfies_dtype_config_constraints(qconfig, dtype_with_constraints, is_activation=True) -> bool:
    """Whether a QConfig's observer gives what a backend asks of its dtype; other dtypes are not its concern."""
    if qconfig is None or dtype_with_constraints.dtype is None:
        return True
    make = qconfig.activation if is_activation else qconfig.weight
    if make is None:
        return True
    process = make()
    if not _is_activation_post_process(process):
        raise AssertionError("activation_post_process must be an activation post process")
    if process.dtype != dtype_with_constraints.dtype:
        return True
    return _gives(process, dtype_with_constraints, "activation" if is_activation else "weight", qconfig)
