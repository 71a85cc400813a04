"""Which values of a compiled module's graph are observed: the rules of quantization, for `prepare_jit` and `convert_jit`."""

from __future__ import annotations

import copy

from ...eager.tensor import TensorBase
from ...jit.torchscript.program.objects import ScriptObject
from ...jit.torchscript.program.types import TENSOR, Type
from ._jit_modules import Rewriter

__all__ = ["FIXED", "GENERAL", "PRODUCTS", "Observing", "is_relu", "only_relu", "tensors_of"]

#: {operator with a weight: which operand that is}
PRODUCTS = {"aten::conv1d": 1, "aten::conv2d": 1, "aten::conv3d": 1, "aten::conv_transpose1d": 1, "aten::conv_transpose2d": 1,
            "aten::linear": 1}
#: Operators whose result is quantized by an observer of its own, if their first operand is quantized.
_UNARY = frozenset(f"aten::{n}" for n in ("hardswish", "hardswish_", "elu", "elu_", "celu", "celu_", "batch_norm", "layer_norm",
                                          "group_norm", "instance_norm"))
#: Of these both operands have to be.
_BINARY = frozenset(("aten::add", "aten::add_", "aten::mul", "aten::mul_"))
#: Operators that compute with quantized tensors and keep their scale.
GENERAL = frozenset(f"aten::{n}" for n in (
    "max_pool1d max_pool2d max_pool3d flatten max min dropout reshape resize_ chunk view transpose contiguous permute repeat "
    "repeat_interleave relu relu_ avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "mean upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d "
    "upsample_bicubic2d interpolate leaky_relu leaky_relu_ hardtanh hardtanh_ clamp squeeze squeeze_ unsqueeze unsqueeze_ "
    "detach detach_ stack __getitem__ __interpolate").split())
#: Operators whose result has a known scale: {operator: (scale, zero point)}.
FIXED = {f"aten::{n}": (1 / 256, 0) for n in ("sigmoid", "sigmoid_", "hardsigmoid", "hardsigmoid_")}
FIXED |= {f"aten::{n}": (2 / 256, 128) for n in ("tanh", "tanh_")}
#: Of these PyTorch rounds weight and bias, too: {operator: which operands}. In scripts it does not where a function of
#: ``nn.functional`` of that name calls the operator.
ROUNDED = {"aten::layer_norm": (2, 3), "aten::group_norm": (2, 3)}
ROUNDED_IN_TRACES = {**ROUNDED, "aten::instance_norm": (1, 2), "aten::batch_norm": (1, 2, 3, 4)}
_RELU_FOLLOWS = frozenset((*PRODUCTS, *_BINARY, "aten::batch_norm")) - {"aten::conv_transpose1d", "aten::conv_transpose2d"}


def is_relu(node) -> bool:
    """Whether a node is a rectifier."""
    return node is not None and node.op in ("aten::relu", "aten::relu_")


def only_relu(rewriter: Rewriter, value):
    """The rectifier that alone uses a value and is called by the same module as what makes it, or None."""
    users = [u.user for u in value.uses() if u.user is None or u.user.op not in ("aten::dim", "aten::size")]
    if len(users) != 1 or not is_relu(users[0]):
        return None
    callers = [{owner, owner.rpartition(".")[0]} for owner in map(rewriter.owner, (value.producer, users[0]))]
    return users[0] if callers[0] & callers[1] else None


def tensors_of(node):
    """The values of which a general operator's result is made."""
    made = node.operands[0].producer if node.operands else None
    if node.op in ("aten::cat", "aten::stack") and made is not None and made.op == "prim::ListConstruct":
        return made.operands
    return node.operands[:1]


def is_tensor(value) -> bool:
    """Whether a value is a tensor."""
    return str(value.kind) == "Tensor" or str(value.kind).endswith(")")


class Observing:
    """Finds the values of a graph that are quantized.

    Args:
        qconfigs: {name of a module: a QConfig of compiled observers, or None}.
        is_dynamic: whether activations are quantized as they come.
    """

    def __init__(self, rewriter: Rewriter, qconfigs: dict, is_dynamic: bool):
        self.rewriter, self.qconfigs, self.is_dynamic = rewriter, qconfigs, is_dynamic
        self.rounded = ROUNDED_IN_TRACES if rewriter.is_traced else ROUNDED
        self.observers: dict = {}  # {value: the observer}
        self.weights: dict = {}  # {path: the observer}
        self.quantized: set = set()  # values that are quantized, also by an operator that keeps the scale

    def config(self, node):
        """The configuration of the module that a node is in, or None."""
        name = self.rewriter.owner(node)
        while True:
            if name in self.qconfigs:
                return self.qconfigs[name]
            if not name:
                return None
            name = name.rpartition(".")[0]

    def run(self) -> None:
        """Fills `observers` and `weights`."""
        self._block(self.rewriter.graph)

    def _block(self, block) -> None:
        for node in block.body:
            for inner in node.nested:
                self._block(inner)
            if node.op == "prim::If":
                for i, value in enumerate(node.results):
                    if all(b.returned[i] in self.quantized for b in node.nested):
                        self.quantized.add(value)
                continue
            if node.results and not self.is_dynamic:
                self._static(node, self.config(node))
            elif node.op == "aten::linear":
                self._product(node, self.config(node))

    def _observe(self, value, observer) -> None:
        if value not in self.quantized:
            self.observers[value] = observer
        self.quantized.add(value)

    def _product(self, node, config) -> bool:
        if config is None or not isinstance(config.weight, ScriptObject):
            return False
        path = self.rewriter.path(node.operands[PRODUCTS[node.op]])
        if path is None or not isinstance(self.rewriter.known(node.operands[PRODUCTS[node.op]]), TensorBase):
            return False
        if not self.is_dynamic or _dtype(config.activation) != 5:
            self._observe(node.operands[0], config.activation)
        self.weights.setdefault(path, config.weight)
        return True

    def _output(self, node, config) -> None:
        relu = only_relu(self.rewriter, node.results[0]) if node.op in _RELU_FOLLOWS else None
        self._observe((relu or node).results[0], config.activation)

    def _static(self, node, config) -> None:
        op, operands = node.op, node.operands
        if op in PRODUCTS:
            if self._product(node, config):
                self._output(node, config)
        elif op in _UNARY:
            if config is not None:
                self._observe(operands[0], config.activation)
                for i in self.rounded.get(op, ()):
                    path = self.rewriter.path(operands[i])
                    if path is not None and isinstance(self.rewriter.known(operands[i]), TensorBase):
                        self.weights.setdefault(path, config.activation)
                self._output(node, config)
        elif op in _BINARY and is_tensor(node.results[0]) and is_tensor(operands[1]):
            if config is not None and all(v in self.quantized for v in operands[:2]):
                self._output(node, config)
        elif op == "aten::cat":
            if config is not None and all(v in self.quantized for v in tensors_of(node)):
                self._output(node, config)
        elif op in GENERAL or op in FIXED or op in _BINARY:
            given = tensors_of(node)
            if given and all(v in self.quantized for v in given):
                self.quantized.update(v for v in node.results if is_tensor(v))

    def insert(self) -> ScriptObject:
        """The object of the module in which observers see these values."""
        added: dict = {}
        rewriter = self.rewriter
        for value, observer in self.observers.items():
            _call(rewriter, _behind(rewriter, value), value, observer, added)
        uses = {}
        for node in rewriter.graph.walk():
            for i in (PRODUCTS[node.op],) if node.op in PRODUCTS else self.rounded.get(node.op, ()):
                uses.setdefault(rewriter.path(node.operands[i]), (node, node.operands[i]))
        for path, observer in self.weights.items():
            _call(rewriter, *uses[path], observer, added)
        return rewriter.module(added)


def _dtype(observer: ScriptObject):
    return observer.__dict__.get("dtype", observer._type.constants.get("dtype"))


def _behind(rewriter: Rewriter, value):
    """The node behind the one that makes a value; a new one if there is none."""
    node = value.producer
    block = rewriter.graph if node is None else node.block
    at = 0 if node is None else block.body.index(node) + 1
    if at == len(block.body):
        block.append(rewriter.graph.create("prim::Constant", (), [TENSOR], value=0))
    return block.body[at]


def _call(rewriter: Rewriter, node, value, observer: ScriptObject, added: dict) -> None:
    taken = rewriter.data.__dict__
    number = next(i for i in range(len(taken) + len(added) + 1) if f"_observer_{i}" not in {*taken, *added})
    name = f"_observer_{number}"
    added[name] = copy.deepcopy(observer)
    kind = Type(observer._type.name)
    read = rewriter.attribute_before(node, name, kind)
    rewriter.before(node, "prim::CallMethod", [read, value], name="forward")
