"""ONNX models of programs (``torch.onnx``). Needs the extra ``ftorch[onnx]``.

A module is exported to a graph of ATen ops (`ftorch.export`), and each op has one translation to ONNX
nodes (the files ``_ops_*.py``).
"""

from __future__ import annotations

import enum
import os
import warnings
from typing import Any

from .._submodules import on_demand
from ..eager.native.contexts import contextmanager
from ..export import ExportedProgram
from ..export import export as export_program
from ..export.dynamic_shapes import Dim
from ..nn import Module
from ..torch_version import __version__
from ..utils import _pytree as pytree
from . import symbolic_helper
from ._symbolic import (
    TensorProtoDataType,
    opset_modules,
    register_custom_op_symbolic,
    unregister_custom_op_symbolic,
)
from ._type_utils import JitScalarType
from .errors import (
    OnnxExporterError,
    OnnxExporterWarning,
    SymbolicValueError,
    UnsupportedOperatorError,
)

producer_name, producer_version = "pytorch", __version__  # what published code writes into its files
_DEFAULT_OPSET = 18


class TrainingMode(enum.Enum):
    """In which mode the older exporter (``dynamo=False``) runs a module."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """What the older exporter made of ops; here they are always ONNX's."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


@contextmanager
def select_model_mode_for_export(model, mode):
    """A module in the mode that a `TrainingMode` says, inside."""
    if not isinstance(model, Module) or mode in (None, TrainingMode.PRESERVE):
        yield
        return
    before = {m: m.training for m in model.modules()}
    model.train(mode is TrainingMode.TRAINING)
    try:
        yield
    finally:
        for m, training in before.items():
            m.training = training


class ONNXProgram:
    """An ONNX model and the program that it is of.

    Attributes:
        model_proto: the ``onnx.ModelProto``; ``model`` is the same.
        exported_program: the `ExportedProgram`.
    """

    _capture_strategy = "TorchExportNonStrictStrategy"

    def __init__(self, model_proto, exported_program):
        self.model_proto, self.exported_program = model_proto, exported_program
        self._session: Any = None
        self._value_names: dict[str, str] = {}  # of the program's nodes in the model

    model = property(lambda self: self.model_proto)

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False,
             external_data=None) -> None:
        """Writes the model to a file.

        Args:
            external_data: writes the weights to a second file, ``<destination>.data``; models of
                more than 2 GB need it.
        """
        import onnx

        destination = os.fspath(destination)
        if external_data is None:
            external_data = self.model_proto.ByteSize() > 2**31 - 1
        model = self.model_proto
        if not include_initializers or keep_initializers_as_inputs:
            model = onnx.ModelProto()
            model.CopyFrom(self.model_proto)
            known = {i.name for i in model.graph.input}
            for t in model.graph.initializer:
                if t.name not in known:
                    model.graph.input.append(
                        onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
                    )
            if not include_initializers:
                del model.graph.initializer[:]
        if external_data:
            onnx.save_model(model, destination, save_as_external_data=True,
                            location=os.path.basename(destination) + ".data", size_threshold=0)
        else:
            onnx.save_model(model, destination)

    def optimize(self) -> None:
        """Folds constants and removes what nobody needs; needs onnxscript's optimizer if there is one."""
        from ._optimize import optimized

        self.model_proto = optimized(self.model_proto)
        self._session = None

    def initialize_inference_session(self, initializer=None) -> None:
        """Makes the onnxruntime session that calls use."""
        import onnxruntime

        make = initializer or (lambda data: onnxruntime.InferenceSession(
            data, providers=["CPUExecutionProvider"]))
        self._session = make(self.model_proto.SerializeToString())

    def release(self) -> None:
        """Forgets the session."""
        self._session = None

    def __call__(self, *args, **kwargs):
        """The model's outputs for tensors, as tensors, computed by onnxruntime."""
        from ..eager.tensor import from_array
        from ._exporting import flat_arrays

        if self._session is None:
            self.initialize_inference_session()
        names = [i.name for i in self._session.get_inputs()]
        outputs = self._session.run(None, dict(zip(names, flat_arrays((args, kwargs)))))
        return tuple(from_array(o) for o in outputs)

    def call_reference(self, *args, **kwargs):
        """The model's outputs for tensors, computed by ONNX's own evaluator."""
        from onnx.reference import ReferenceEvaluator

        from ..eager.tensor import from_array
        from ._exporting import flat_arrays

        names = [i.name for i in self.model_proto.graph.input]
        given = dict(zip(names, flat_arrays((args, kwargs))))
        return tuple(from_array(o) for o in ReferenceEvaluator(self.model_proto).run(None, given))

    def compute_values(self, value_names, args=(), kwargs=None):
        """Values of the model by their names, inner ones, too, for tensors."""
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self.model_proto)
        del model.graph.output[:]
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in value_names)
        return ONNXProgram(model, self.exported_program)(*args, **(kwargs or {}))

    def __repr__(self):
        import onnx

        return f"ONNXProgram\n(\n{onnx.printer.to_text(self.model_proto)}\n)"


def _from_axes(axes, names, count):
    """``dynamic_shapes`` of ``dynamic_axes``: {input: [dimensions] or {dimension: name}}."""
    shapes: list[Any] = [None] * count
    labels: dict[str, Dim] = {}
    for name, dims in (axes or {}).items():
        if names is None or name not in names:
            continue  # an output's
        spec = {}
        for d in dims:
            label = dims[d] if isinstance(dims, dict) else None
            if label is not None and str(label).isidentifier():
                spec[d] = labels.setdefault(label, Dim(label))
            else:
                spec[d] = Dim.AUTO
        shapes[names.index(name)] = spec
    return tuple(shapes)


def export(model, args=(), f=None, *, kwargs=None, verbose=None, input_names=None,
           output_names=None, opset_version=None, dynamo=True, external_data=None,
           dynamic_shapes=None, custom_translation_table=None, report=False, optimize=True,
           verify=False, export_params=True, keep_initializers_as_inputs=False, dynamic_axes=None,
           training=None, do_constant_folding=True, fallback=False, **_):
    """The ONNX model of a module.

    Args:
        model: a module (in the mode in which it is to run: call ``eval()`` first) or a program.
        args, kwargs: an example call; a single tensor counts as one argument.
        f: where to write the model; None writes nothing.
        input_names, output_names: of the model's inputs and outputs.
        opset_version: of ONNX; 18 by default.
        dynamic_shapes: as for `ftorch.export.export`.
        dynamic_axes: the older way: {input name: [dimensions] or {dimension: name}}.
        custom_translation_table: {op: function(g, *args) giving values}.
        optimize: folds constants.
        verify: runs the model with onnxruntime, and compares.
        dynamo: both ways of PyTorch are this one; False runs the module in eval mode, unless
            ``training`` says another.

    Returns:
        An `ONNXProgram`.

    Raises:
        UnsupportedOperatorError: an op has no translation; the message names it and its call.
        OnnxExporterError: for the arguments of an op, or for a missing package.
    """
    try:
        from ._exporting import to_model
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise OnnxExporterError(
            "Module onnx is not installed! Please install it: pip install 'ftorch[onnx]'"
        ) from None
    args = args if isinstance(args, tuple) else (args,)
    if args and isinstance(args[-1], dict) and kwargs is None and not isinstance(
        model, ExportedProgram
    ) and not _takes_dict(model, args):
        args, kwargs = args[:-1], args[-1]
    names: dict[str, str] = {}
    if isinstance(model, ExportedProgram):
        program = model
    else:
        if not isinstance(model, Module):
            raise OnnxExporterError(f"a module or an ExportedProgram is needed, got {type(model)}")
        if dynamic_axes and dynamic_shapes is None:
            dynamic_shapes = _from_axes(dynamic_axes, input_names, len(args) + len(kwargs or {}))
        mode = training if dynamo or training is not None else TrainingMode.EVAL
        with select_model_mode_for_export(model, mode), _in_export():
            program = export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)
        names = _labels(program, dynamic_shapes)
    opset = _DEFAULT_OPSET if opset_version is None else opset_version
    if opset < 17:
        warnings.warn(
            f"opset_version {opset} lacks ops that are needed; 18 is used", UserWarning, stacklevel=2
        )
        opset = _DEFAULT_OPSET
    proto, values = to_model(program, input_names, output_names, opset, custom_translation_table, names)
    made = ONNXProgram(proto, program)
    made._value_names = values
    if optimize:
        made.optimize()
    if verify:
        _verify(made, model, args, kwargs or {})
    if f is not None:
        if hasattr(f, "write"):
            f.write(made.model_proto.SerializeToString())
        else:
            made.save(f, include_initializers=export_params, external_data=external_data,
                      keep_initializers_as_inputs=keep_initializers_as_inputs)
    if verbose:
        print(made)
    return made


def _takes_dict(model, args):
    import inspect

    try:
        inspect.signature(model.forward).bind(*args[:-1], **args[-1])
    except TypeError:
        return True
    return False


def _labels(program, dynamic_shapes):
    """{symbol: the user's name of the size}."""
    labels = {}
    leaves = pytree.tree_leaves(
        dynamic_shapes, is_leaf=lambda v: isinstance(v, Dim) or v is None
    )
    named = list(dict.fromkeys(getattr(d, "root", d).__name__ for d in leaves if isinstance(d, Dim)))
    for symbol, name in zip((s for s in program.range_constraints if s.kind == "symbol"), named):
        labels[str(symbol)] = name
    return labels


def _verify(made, model, args, kwargs):
    from ..testing import assert_close

    expected = pytree.tree_leaves(model(*args, **kwargs) if isinstance(model, Module) else
                                  model.module()(*args, **kwargs))
    for mine, wanted in zip(made(*args, **kwargs), expected):
        assert_close(mine, wanted.detach(), atol=1e-4, rtol=1e-4)


_exports = 0  # that are going on


@contextmanager
def _in_export():
    global _exports
    _exports += 1
    try:
        yield
    finally:
        _exports -= 1


def is_in_onnx_export() -> bool:
    """Whether a module is run by `export`.

    >>> import ftorch as torch
    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return _exports > 0


globals().update(opset_modules(__name__))
__getattr__ = on_demand(globals(), "ops testing utils verification")

__all__ = [
    "JitScalarType", "ONNXProgram", "OnnxExporterError", "OnnxExporterWarning", "OperatorExportTypes",
    "SymbolicValueError", "TensorProtoDataType", "TrainingMode", "UnsupportedOperatorError", "export",
    "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export", "symbolic_helper",
    "unregister_custom_op_symbolic",
]
