"""``torch.ops.quantized``: the operators of quantized tensors by their names."""

from __future__ import annotations

import functools
import re

from .. import _ops
from ..eager.core.errors import could_not_run
from ..eager.tensor import TensorBase
from . import _activations as act
from . import _arithmetic as math
from . import _embedding as emb
from . import _layers as layers
from . import _movement, _normalization, _recurrent
from ._history import tensors_in, with_history
from ._tensor import QuantizedTensor

# Operators that compute on ordinary numbers, by what PyTorch's names have in common.
_OF_NUMBERS = re.compile("dynamic|fp16|byte|[24]bit|_q_dq_")


class QuantizedOverload:
    """An overload of an operator of ``torch.ops.quantized``."""

    _schema = None  # the operators are Python functions: nobody has declared their types

    def __init__(self, packet, name):
        self._packet, self._overloadname = packet, name
        self.namespace, self.__name__ = packet.__dict__["namespace"], f"{packet.__name__}.{name}"

    @property
    def overloadpacket(self):
        return self._packet

    _overloadpacket = overloadpacket

    @property
    def _opname(self):
        return self._packet.__name__

    def name(self):
        """The qualified name, ``"quantized::linear"``."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self._packet._qualified_op_name}{suffix}"

    def __call__(self, /, *args, **kwargs):
        return self._packet(*args, **kwargs)

    def run(self, args, kwargs):
        """The call itself, whatever classes the operands are of."""
        return self._packet.run(args, kwargs)

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self._packet.__name__}', overload='{self._overloadname}')>"

    def __deepcopy__(self, memo=None):
        return self


class QuantizedOperator(_ops.OpOverloadPacket):
    """An operator of ``torch.ops.quantized``: a function and the names of its arguments."""

    _is_in_programs = True  # TorchScript calls it by its name

    def __init__(self, name, function, arguments, overloads, namespace="quantized"):
        super().__init__(name, namespace)
        self._function, self._arguments = function, arguments
        self._overloads = {o: QuantizedOverload(self, o) for o in overloads}  # type: ignore[misc]
        self.__module__ = f"torch.ops.{namespace}"
        self._backend = "CPU" if _OF_NUMBERS.search(name) else "QuantizedCPU"

    def __call__(self, /, *args, **kwargs):
        handled, result = _ops.overridden(self, args, kwargs)
        if handled:
            return result
        return self.run(args, kwargs)

    def run(self, args, kwargs):
        """The call itself, whatever classes the operands are of."""
        if kwargs:
            args, kwargs = self._positional(args, kwargs)
        self._check_backend(args)
        return with_history(self._qualified_op_name, self._function, args, kwargs)

    def _check_backend(self, args):
        """Raises PyTorch's error for ordinary numbers where quantized ones are needed, and the other way round."""
        tensors = list(tensors_in(args))
        given = "QuantizedCPU" if any(isinstance(t, QuantizedTensor) for t in tensors) else "CPU"
        if tensors and given != self._backend:
            hint = "Quantize it first (torch.quantize_per_tensor, or a QuantStub in the model)." if given == "CPU" else ""
            raise could_not_run(self._overloads[self._overload_of(args)].name(), given, hint)

    def _overload_of(self, args):
        numbers = len(args) == 2 and [not isinstance(a, TensorBase) for a in args]
        wanted = "new" if len(args) <= 4 else ""
        if numbers:
            wanted = "Scalar2" if numbers[0] else "Scalar" if numbers[1] else "Tensor"
        return wanted if wanted in self._overloads else "default"

    def _positional(self, args, kwargs):
        """Arguments that were given by the schema's names, by position as far as they go."""
        args, kwargs = list(args), dict(kwargs)
        for name in self._arguments[len(args) :]:
            if name not in kwargs:
                break
            args.append(kwargs.pop(name))
        unknown = set(kwargs) - set(self._arguments)
        if unknown:
            raise RuntimeError(f"Unknown keyword argument '{unknown.pop()}' for operator '{self._qualified_op_name}'.")
        return args, kwargs

    def __reduce__(self):
        return _found, (self.__dict__["namespace"], self.__dict__["__name__"])


def _found(namespace, name):
    return getattr(getattr(_ops.ops, namespace), name)


def operator(declaration, function, overloads="default", namespace="quantized"):
    """Declares an operator: its name and its arguments' names, what it does, its overloads."""
    name, *arguments = declaration.split()
    _ops.REGISTERED[f"{namespace}::{name}"] = QuantizedOperator(
        name, function, arguments, overloads.split(), namespace
    )


def _out(function):
    """The form that writes to ``out`` and takes its quantizer."""

    def run(*args):
        *given, out = args
        quantizer = out._quantizer
        result = function(*given, quantizer.scale, quantizer.zero_point)
        return act.written(out, result)

    return run


def _two(form, scalar_form, relu):
    """``add(qa, qb, scale, zero_point)``, ``add(qa, number)`` and ``add(number, qa)``, by what is given."""

    def run(qa, qb, scale=None, zero_point=None, out=None):
        if out is not None:
            return act.written(out, form(qa, qb, out._quantizer.scale, out._quantizer.zero_point, relu))
        if scale is None:
            return scalar_form(qa, qb, relu) if hasattr(qa, "_quantizer") else scalar_form(qb, qa, relu)
        return form(qa, qb, scale, zero_point, relu)

    return run


# --- arithmetic ----------------------------------------------------------------------

for _name, _form, _scalar in (("add", math.add, math.add_scalar), ("mul", math.mul, math.mul_scalar)):
    for _suffix, _relu in (("", False), ("_relu", True)):
        operator(f"{_name}{_suffix} qa qb scale zero_point", _two(_form, _scalar, _relu),
                 "default out Scalar Scalar2 Scalar_out")
        operator(f"{_name}{_suffix}_out qa qb out",
                 lambda qa, qb, out, _f=_form, _r=_relu: act.written(
                     out, _f(qa, qb, out._quantizer.scale, out._quantizer.zero_point, _r)))
        operator(f"{_name}_scalar{_suffix} qa b", functools.partial(_scalar, relu=_relu), "default Tensor")
        operator(f"{_name}_scalar{_suffix}_out qa b out",
                 lambda qa, b, out, _f=_scalar, _r=_relu: act.written(out, _f(qa, b, _r)), "default Tensor")
operator("matmul qa qb scale zero_point", math.matmul)


def _cat(relu):
    def run(qx, dim, scale=None, zero_point=None):
        quantizer = qx[0]._quantizer
        scale = quantizer.scale if scale is None else scale
        zero_point = quantizer.zero_point if zero_point is None else zero_point
        return _movement.cat_as(list(qx), dim, scale, zero_point, relu)

    return run


for _suffix, _relu in (("", False), ("_relu", True)):
    operator(f"cat{_suffix} qx dim scale zero_point", _cat(_relu))
    operator(f"cat{_suffix}_out qx dim out", _out(_cat(_relu)))

# --- activations ---------------------------------------------------------------------

operator("clamp qx min max", act.clamp)
operator("relu6 qx inplace", act.relu6)
operator("threshold qx threshold value", act.threshold)
operator("leaky_relu qx negative_slope inplace output_scale output_zero_point", act.leaky_relu)
operator("elu self output_scale output_zero_point alpha scale input_scale",
         lambda x, s, z, alpha=1.0, scale=1.0, input_scale=1.0: act.elu(x, alpha, scale, input_scale, s, z))
operator("celu self output_scale output_zero_point alpha", act.celu)
operator("hardswish input output_scale output_zero_point", act.hardswish)
operator("sigmoid qx output_scale output_zero_point", act.sigmoid)
operator("softmax qx dim output_scale output_zero_point", act.softmax)
operator("prelu qx weight output_scale output_zero_point", act.prelu)
operator("dropout self output_scale output_zero_point p training",
         lambda x, s, z, p=0.5, training=False: act._dropout(x, p, training))

# --- layers --------------------------------------------------------------------------

operator("linear_prepack W B", layers.linear_prepack)
operator("linear_prepack_legacy W B", layers.linear_prepack)
operator("linear_prepack_fp16 W B", layers.linear_prepack_fp16)
operator("linear_prepack_fp16_legacy W B", layers.linear_prepack_fp16)
operator("linear_unpack W_prepack", layers.linear_unpack, "default legacy")
operator("linear_unpack_fp16 W_prepack", layers.linear_unpack, "default legacy")
for _suffix, _relu in (("", False), ("_relu", True)):
    operator(f"linear{_suffix} X W_prepack Y_scale_i Y_zero_point_i", functools.partial(layers.linear, relu=_relu))
    operator(f"linear{_suffix}_dynamic X W_prepack reduce_range", functools.partial(layers.linear_dynamic, relu=_relu))
    operator(f"linear{_suffix}_dynamic_fp16 X W_prepack", functools.partial(layers.linear_dynamic_fp16, relu=_relu))
    operator(f"linear_with_input_q_dq_qweight_dq{_suffix}_output_fp32 X X_scale X_zero_point W_prepack",
             functools.partial(layers.linear_of_quantized_input, relu=_relu))
operator("linear_dynamic_fp16_unpacked_weight X weight bias", layers.linear_dynamic_fp16_unpacked_weight)
operator("linear_leaky_relu X W_prepack Y_scale_i Y_zero_point_i negative_slope", layers.linear_leaky_relu)
operator("linear_tanh X W_prepack Y_scale_i Y_zero_point_i", layers.linear_tanh)

_SETTINGS = "weight bias stride padding dilation groups"
for _dims in (1, 2, 3):
    for _suffix, _relu in (("", False), ("_relu", True)):
        operator(f"conv{_dims}d{_suffix} qx packed_weight output_scale output_zero_point", layers.conv(_dims, _relu),
                 "default" if _dims == 1 else "default new")
    operator(f"conv{_dims}d_dynamic qx packed_weight reduce_range", layers.conv_dynamic(_dims))
    operator(f"conv{_dims}d_prepack {_SETTINGS}", layers.conv_prepack(_dims))
    operator(f"conv{_dims}d_unpack packed_weights", layers.linear_unpack)
    operator(f"conv_transpose{_dims}d qx packed_weight output_scale output_zero_point", layers.conv(_dims))
    operator(f"conv_transpose{_dims}d_dynamic qx packed_weight reduce_range", layers.conv_dynamic(_dims))
    operator(f"conv_transpose{_dims}d_prepack weight bias stride padding output_padding dilation groups",
             layers.conv_prepack(_dims, True))
    operator(f"conv_transpose{_dims}d_unpack packed_weights", layers.linear_unpack)
    for _setting in "stride padding output_padding dilation groups transpose".split():
        for _kind in ("conv", "conv_transpose"):
            operator(f"{_kind}{_dims}d_{_setting} packed_weights",
                     lambda packed_weights, _s=_setting: getattr(packed_weights, _s)())
operator(f"conv_prepack {_SETTINGS}", layers.conv_prepack(2))
operator("conv_unpack packed_weights", layers.linear_unpack)
operator("conv2d_add qx qaccum packed_weight output_scale output_zero_point", layers.conv(2, False, True))
operator("conv2d_add_relu qx qaccum packed_weight output_scale output_zero_point", layers.conv(2, True, True))

# --- normalization, pooling ----------------------------------------------------------

_STATISTICS = "qx weight bias mean var eps output_scale output_zero_point"
for _dims in ("", "1d", "2d", "3d"):
    operator(f"batch_norm{_dims} {_STATISTICS}", _normalization.batch_norm)
    operator(f"batch_norm{_dims}_relu {_STATISTICS}", functools.partial(_normalization.batch_norm, relu=True))
_AFFINE = "weight bias eps output_scale output_zero_point"
operator(f"layer_norm input normalized_shape {_AFFINE}", _normalization.layer_norm)
operator(f"group_norm input num_groups {_AFFINE}", _normalization.group_norm)
operator(f"instance_norm input {_AFFINE}", _normalization.instance_norm)


def _max_pool(name):
    def run(qx, kernel_size, stride, padding, dilation, ceil_mode):
        from ..nn import functional

        return getattr(functional, name)(
            qx, list(kernel_size), list(stride) or None, list(padding), list(dilation), ceil_mode
        )

    return run


for _name in ("max_pool1d", "max_pool2d"):
    operator(f"{_name} qx kernel_size stride padding dilation ceil_mode", _max_pool(_name))

# --- embeddings ----------------------------------------------------------------------

operator("embedding_bag_prepack weight", emb.embedding_bag_prepack)
operator("embedding_bag_unpack W_prepack", lambda packed: packed.weight)
_BAGS = ("weight indices offsets scale_grad_by_freq mode pruned_weights per_sample_weights compressed_indices_mapping "
         "include_last_offset")
for _kind, _prepack, _unpack in (
    ("byte", emb.byte_prepack, emb.byte_unpack), ("4bit", emb.sub_byte_prepack(4), emb.sub_byte_unpack(4)),
    ("2bit", emb.sub_byte_prepack(2), emb.sub_byte_unpack(2)),
):
    _bits = 8 if _kind == "byte" else int(_kind[0])
    _options = "" if _kind == "byte" else " optimized_qparams nbins ratio"
    operator(f"embedding_bag_{_kind}_prepack weight{_options}", _prepack)
    operator(f"embedding_bag_{_kind}_prepack_with_rowwise_min_max weight rowwise_min_max{_options}", _prepack)
    operator(f"embedding_bag_{_kind}_unpack weight", _unpack)
    operator(f"embedding_bag_{_kind}_rowwise_offsets {_BAGS}", emb.rowwise_offsets(_unpack, _bits))
    if _kind != "2bit":
        operator(f"embedding_bag_{_kind} {_BAGS}", functools.partial(emb.embedding_bag, bits=_bits))
        operator(f"embedding_{_kind} weight indices pruned_weights", emb.embedding)

# --- recurrent cells -----------------------------------------------------------------

_CELL = "input hx w_ih w_hh b_ih b_hh"
operator("make_quantized_cell_params_dynamic w_ih w_hh bias_ih bias_hh reduce_range", _recurrent.make_cell)
operator("make_quantized_cell_params_fp16 w_ih w_hh", _recurrent.make_cell_fp16)
operator("quantized_lstm_cell_dynamic input hx w_ih w_hh bias_ih bias_hh", _recurrent.lstm_cell)
operator(f"quantized_gru_cell_dynamic {_CELL}", _recurrent.gru_cell)
operator(f"quantized_rnn_tanh_cell_dynamic {_CELL}", _recurrent.rnn_cell("tanh"))
operator(f"quantized_rnn_relu_cell_dynamic {_CELL}", _recurrent.rnn_cell("relu"))

