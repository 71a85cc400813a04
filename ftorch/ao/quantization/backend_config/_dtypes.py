"""The dtypes that backends quantize to."""

from __future__ import annotations

import ftorch as torch

from .backend_config import DTypeConfig, DTypeWithConstraints

#: a scale that the kernels of phones can
_SMALLEST_SCALE = 2**-12

weighted_op_quint8 = DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float)
default_op_quint8 = DTypeConfig(torch.quint8, torch.quint8)
default_dynamic_int8 = DTypeConfig(torch.quint8, torch.float, torch.qint8, torch.float, is_dynamic=True)
default_dynamic_float16 = DTypeConfig(torch.float16, torch.float, torch.float16, torch.float, is_dynamic=True)
input_output_weight_quint8 = DTypeConfig(torch.quint8, torch.quint8, torch.float, torch.float)
weight_only_quint8 = DTypeConfig(torch.float, torch.float, torch.quint8)
weight_only_quint4x2 = DTypeConfig(torch.float, torch.float, torch.quint4x2)

act_qint8_scale_min_2_neg_12 = DTypeWithConstraints(dtype=torch.qint8, scale_min_lower_bound=_SMALLEST_SCALE)
weight_qint8_neg_127_to_127_scale_min_2_neg_12 = DTypeWithConstraints(
    dtype=torch.qint8, quant_min_lower_bound=-127, quant_max_upper_bound=127, scale_min_lower_bound=_SMALLEST_SCALE
)
weighted_op_qint8 = DTypeConfig(
    act_qint8_scale_min_2_neg_12,
    act_qint8_scale_min_2_neg_12,
    weight_qint8_neg_127_to_127_scale_min_2_neg_12,
    torch.float,
)
default_op_qint8 = DTypeConfig(act_qint8_scale_min_2_neg_12, act_qint8_scale_min_2_neg_12)
