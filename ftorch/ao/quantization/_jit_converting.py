"""Prepared modules become quantized ones: what `convert_jit` does with the graph of ``forward``."""

from __future__ import annotations

import ftorch as torch

from ...eager.tensor import TensorBase
from ...jit.torchscript.graph.cleanup import clean
from ...jit.torchscript.graph.ir import Value, clone_node
from ...jit.torchscript.program.objects import ScriptObject, call_method
from ...jit.torchscript.program.types import DTYPE_OF, FLOAT, INT, TENSOR, Type
from ._jit_modules import MISSING, Rewriter
from ._jit_observing import FIXED, GENERAL, PRODUCTS, is_relu, is_tensor, tensors_of

__all__ = ["convert"]

_SIZES = frozenset("aten::dim aten::size aten::len aten::numel prim::shape".split())
_BINARY = ("aten::add", "aten::mul")
_READ_WHERE_USED = ("prim::Constant", "prim::GetAttr", "prim::ListConstruct")
_HALF = 5
_BIG = (dict, ScriptObject)
#: {operator: (the quantized one, operands of it besides the tensor, where scale and zero point stand among them)}
_NORMS = {
    "aten::batch_norm": ("quantized::batch_norm", (1, 2, 3, 4, 7), 5),
    "aten::layer_norm": ("quantized::layer_norm", (1, 2, 3, 4), 4),
    "aten::group_norm": ("quantized::group_norm", (1, 2, 3, 4), 4),
    "aten::instance_norm": ("quantized::instance_norm", (1, 2, 7), 3),
    "aten::hardswish": ("quantized::hardswish", (), 0), "aten::hardswish_": ("quantized::hardswish", (), 0),
    "aten::elu": ("quantized::elu", (1, 2, 3), 0), "aten::elu_": ("quantized::elu", (1, 2, 3), 0),
}
_PACKED = "quantized_forward._jit_pass_packed_weight_"


def convert(data: ScriptObject, debug: bool, is_dynamic: bool, preserved) -> ScriptObject:
    """The object of a quantized module."""
    return _Converting(data, debug, is_dynamic).run(preserved)


class _Converting:
    def __init__(self, data, debug, is_dynamic):
        self.rewriter = Rewriter(data, is_final=True)
        self.debug, self.is_dynamic = debug, is_dynamic
        self.observers: dict[Value, ScriptObject] = {}
        self.weights: dict[tuple, ScriptObject] = {}
        self.q: dict[Value, Value] = {}  # the quantized value of a value
        self.packed: dict[str, object] = {}
        self.known: dict[tuple, tuple] = {}  # {whose they are: (name of the attribute, type)} of packed weights
        self.original: set = set()  # the nodes that the graph had
        self.done: set = set()  # nodes that are part of another one's quantized operator

    def run(self, preserved) -> ScriptObject:
        rewriter, graph = self.rewriter, self.rewriter.graph
        self._collect()
        self.original = set(graph.walk())
        first = graph.body[0] if graph.body else graph.append(graph.create("prim::Constant", (), [INT], value=0))
        for value in graph.parameters:
            if value in self.observers:
                self._quantize(value, first)
        self._block(graph)
        self._returned(graph)
        clean(graph)
        if self.debug:
            kept = {n for n in rewriter.data.__dict__ if not n.startswith("_observer_")}
            return rewriter.module(self.packed, kept)
        self._freeze(preserved)
        clean(graph)
        rest = {n.attributes["name"] for n in graph.walk() if n.op == "prim::GetAttr"}
        return rewriter.module(self.packed, {*preserved, *rest} - set(self.packed))

    def _collect(self) -> None:
        """Finds the observers and takes their calls away."""
        rewriter = self.rewriter
        for node in list(rewriter.graph.walk()):
            if node.op != "prim::CallMethod" or not is_observer(node):
                continue
            observer, value = rewriter.known(node.operands[0]), node.operands[1]
            path = rewriter.path(value)
            if path is None or value is rewriter.graph.parameters[0]:
                self.observers[value] = observer
            else:
                self.weights[path] = observer
            rewriter.graph.replace({node.results[0]: value})
            rewriter.graph.forget(node)
        if self.is_dynamic:  # values are quantized as they come
            self.observers.clear()
        for node in rewriter.graph.walk():  # of branches that did not run, too
            path = rewriter.path(node.operands[PRODUCTS[node.op]]) if node.op in PRODUCTS else None
            if path in self.weights:
                call_method(self.weights[path], "forward", rewriter.known(node.operands[PRODUCTS[node.op]]))

    def _freeze(self, preserved) -> None:
        changed = {}
        for node in list(self.rewriter.graph.walk()):
            path = self.rewriter.path(node.results[0]) if node.op == "prim::GetAttr" else None
            if path is None or path[0] in preserved:
                continue
            value = self.rewriter.known(node.results[0])
            if value is MISSING or isinstance(value, _BIG) or hasattr(type(value), "_qualified"):
                continue
            if isinstance(value, TensorBase):
                value = value.detach()
            changed[node.results[0]] = self.rewriter.constant_before(node, value)
        self.rewriter.graph.replace(changed)

    # --- nodes

    def _block(self, block) -> None:
        for node in list(block.body):
            if node not in self.original or node in self.done or node.op in _READ_WHERE_USED:
                continue
            for inner in node.nested:
                self._block(inner)
            if node.op == "prim::If":
                self._branches(node)
            elif not self._converted(node):
                self._keep(node)

    def _branches(self, node) -> None:
        for i, value in enumerate(node.results):
            if all(b.returned[i] in self.q for b in node.nested):
                for b in node.nested:
                    b.returned[i] = self.q[b.returned[i]]
                self.q[value] = value
            else:
                for b in node.nested:
                    b.returned[i] = self._plain_at_end(b, b.returned[i])
            self._observed(node, value)

    def _keep(self, node) -> None:
        """An operator that computes with floats."""
        for inner in node.nested:
            self._returned(inner)
        for i, value in enumerate(node.operands):
            made = value.producer
            if value in self.q:
                quantized = self.q[value]
                node.operands[i] = quantized if node.op in _SIZES else self._plain(quantized, node)
            elif made is not None and made.op == "prim::ListConstruct":
                parts = [self._plain(self.q[v], node) if v in self.q else v for v in made.operands]
                if parts != made.operands:
                    node.operands[i] = self.rewriter.before(node, made.op, parts, [value.kind]).results[0]
        for value in node.results:
            self._observed(node, value)

    def _observed(self, node, value) -> None:
        if value in self.observers and value not in self.q:
            self._quantize(value, self._behind(node))

    def _returned(self, block) -> None:
        for i, value in enumerate(block.returned):
            block.returned[i] = self._plain_at_end(block, value)

    def _plain_at_end(self, block, value):
        if value not in self.q:
            return value
        end = block.append(self.rewriter.graph.create("prim::Constant", (), [INT], value=0))
        return self._plain(self.q[value], end)

    def _plain(self, quantized, node):
        return self.rewriter.before(node, "aten::dequantize", [quantized]).results[0]

    def _parameters(self, value):
        scale, zero_point = call_method(self.observers[value], "calculate_qparams")
        return float(scale), int(zero_point)

    def _quantize(self, value, node) -> None:
        scale, zero_point = self._parameters(value)
        given = [value, *self._constants(node, scale, zero_point, self.observers[value].__dict__["dtype"])]
        self.q[value] = self.rewriter.before(node, "aten::quantize_per_tensor", given).results[0]

    def _constants(self, node, *values):
        return [self.rewriter.constant_before(node, v) for v in values]

    def _converted(self, node) -> bool:
        """Puts a quantized operator in the place of a node, if there is one."""
        op = node.op
        if op in PRODUCTS:
            return self._product(node)
        given = tensors_of(node)
        if not given or not all(v in self.q for v in given) or not node.results or not is_tensor(node.results[0]):
            return False
        if self.debug and op not in GENERAL:
            is_scaled = op.rstrip("_") in _BINARY and not is_tensor(node.operands[1])
            return (op in FIXED or is_scaled) and self._rounded(node)
        if op in GENERAL or op in FIXED:
            return self._general(node)
        if op.rstrip("_") in _BINARY:
            return self._binary(node, op.rstrip("_").removeprefix("aten::"))
        if op == "aten::cat":
            parts = self.rewriter.before(node, "prim::ListConstruct", [self.q[v] for v in given], [node.operands[0].kind])
            return self._make(node, "quantized::cat", [parts.results[0], node.operands[1]], 2)
        if op in _NORMS:
            name, places, at = _NORMS[op]
            rest = [self._rounded_weight(node, node.operands[i]) for i in places]
            return self._make(node, name, [self.q[given[0]], *rest], at + 1,
                              has_relu=op == "aten::batch_norm")
        return False

    def _make(self, node, op, given, at, has_relu=False) -> bool:
        """A quantized operator whose scale and zero point stand at a place among its operands."""
        relu = self._relu(node) if has_relu else None
        result = (relu or node).results[0]
        if result not in self.observers:
            return False
        made = [*given[:at], *self._constants(node, *self._parameters(result)), *given[at:]]
        self.q[result] = self.q[node.results[0]] = self.rewriter.before(node, op + ("_relu" if relu else ""), made).results[0]
        self.done.update(n for n in (node, relu) if n is not None)
        return True

    def _relu(self, node):
        """The rectifier that is part of a node's quantized operator, or None: `Observing` did not observe between."""
        users = [u.user for u in node.results[0].uses() if u.user is None or u.user.op not in _SIZES]
        is_one = len(users) == 1 and is_relu(users[0]) and node.results[0] not in self.observers
        return users[0] if is_one else None

    def _rounded(self, node) -> bool:
        """An operator on floats whose result is quantized with a scale that is known, or its operand's."""
        source = self.q[node.operands[0]]
        self._keep(node)
        value = node.results[0]
        behind = self._behind(node)
        if node.op in FIXED:
            given = self._constants(behind, *FIXED[node.op], 13)
        else:
            given = [self.rewriter.before(behind, f"aten::q_{n}", [source], [kind]).results[0]
                     for n, kind in (("scale", FLOAT), ("zero_point", INT))]
            given += self._constants(behind, 13)
        self.q[value] = self.rewriter.before(behind, "aten::quantize_per_tensor", [value, *given]).results[0]
        return True

    def _behind(self, node):
        """The node behind one; a new one if there is none."""
        at = node.block.body.index(node) + 1
        if at == len(node.block.body):
            node.block.append(self.rewriter.graph.create("prim::Constant", (), [INT], value=0))
        return node.block.body[at]

    def _general(self, node) -> bool:
        if node.op == "aten::dropout":
            self.q[node.results[0]] = self.q[node.operands[0]]
            return True
        known = {v: self.q[v] for v in node.operands if v in self.q}
        if node.operands[0] not in self.q:  # a list
            parts = [self.q[v] for v in tensors_of(node)]
            known[node.operands[0]] = self.rewriter.before(
                node, "prim::ListConstruct", parts, [node.operands[0].kind]).results[0]
        made = clone_node(self.rewriter.graph, node, known)
        made.op = node.op.rstrip("_") if not node.op.endswith("__") else node.op
        node.block.insert(node.block.body.index(node), made)
        for old, new in zip(node.results, made.results):
            self.q[old] = new
        return True

    def _binary(self, node, name) -> bool:
        first, second = node.operands[:2]
        if name == "add" and self.rewriter.known(node.operands[2]) != 1:
            return False
        if is_tensor(second):
            return second in self.q and self._make(node, f"quantized::{name}", [self.q[first], self.q[second]], 2, True)
        relu = self._relu(node)
        result = (relu or node).results[0]
        op = f"quantized::{name}_scalar" + ("_relu" if relu else "")
        self.q[result] = self.q[node.results[0]] = self.rewriter.before(node, op, [self.q[first], second]).results[0]
        self.done.update(n for n in (node, relu) if n is not None)
        return True

    # --- products

    def _product(self, node) -> bool:
        path = self.rewriter.path(node.operands[1])
        observer = self.weights.get(path) if path is not None else None
        if observer is None:
            return False
        weight = self.rewriter.known(node.operands[1])
        if self.debug:
            return self._debugged(node, weight, observer)
        settings = [self.rewriter.known(v) for v in node.operands[2:]]
        if any(s is MISSING or isinstance(s, str) for s in settings):
            return False
        kind = node.op.removeprefix("aten::")
        if self.is_dynamic:
            return self._dynamic(node, weight, observer, settings[0])
        if node.operands[0] not in self.q:
            return False
        key = kind, path, self.rewriter.path(node.operands[2]), repr(settings[1:])
        if key not in self.known:
            packed = self._pack(node, kind, _quantized_weight(weight, observer), settings)
            self.known[key] = packed.producer.attributes["name"], packed.kind
        else:
            packed = self.rewriter.attribute_before(node, *self.known[key])
        return self._make(node, f"quantized::{kind}", [self.q[node.operands[0]], packed], 2,
                          has_relu=not kind.startswith("conv_transpose"))

    def _rounded_weight(self, node, value):
        """A norm's weight or bias, which was observed as what comes in was."""
        path = self.rewriter.path(value)
        observer = self.weights.get(path) if path else None
        if observer is None:
            return value
        return self.rewriter.constant_before(node, _quantized_weight(self.rewriter.known(value), observer).dequantize())

    def _attribute(self, node, packed):
        name = f"{_PACKED}{len(self.packed)}"
        self.packed[name] = packed
        return self.rewriter.attribute_before(node, name, Type(type(packed)._qualified))

    def _pack(self, node, kind, weight, settings):
        quantized = torch.ops.quantized
        bias = None if settings[0] is None else settings[0].detach()
        if kind == "linear":
            return self._attribute(node, quantized.linear_prepack(weight, bias))
        given = settings[1:]
        if kind.startswith("conv_transpose"):
            stride, padding, output_padding, groups, dilation = given
            given = [stride, padding, output_padding, dilation, groups]
        return self._attribute(node, getattr(quantized, f"{kind}_prepack")(weight, bias, *given))

    def _dynamic(self, node, weight, observer, bias) -> bool:
        bias = None if bias is None else bias.detach()
        if observer.__dict__["dtype"] == _HALF:
            packed = self._attribute(node, torch.ops.quantized.linear_prepack_fp16(weight.detach(), bias))
            made = self.rewriter.before(node, "quantized::linear_dynamic_fp16", [node.operands[0], packed])
        else:
            packed = self._attribute(node, torch.ops.quantized.linear_prepack(_quantized_weight(weight, observer), bias))
            given = [node.operands[0], packed, *self._constants(node, _reduces_range())]
            made = self.rewriter.before(node, "quantized::linear_dynamic", given)
        self.rewriter.graph.replace({node.results[0]: made.results[0]})
        self.done.add(node)
        return True

    def _debugged(self, node, weight, observer) -> bool:
        """Floats between quantized and dequantized values, as quantized operators compute."""
        rewriter = self.rewriter
        if observer.__dict__["dtype"] == _HALF:
            half = self._constants(node, _HALF, False, None)
            narrow = rewriter.before(node, "aten::to", [node.operands[1], half[0], *half[1:2], half[1], half[2]])
            wide = self._constants(node, 6)
            node.operands[1] = rewriter.before(
                node, "aten::to", [narrow.results[0], *wide, half[1], half[1], half[2]]).results[0]
            return False
        quantized = _quantized_weight(weight, observer)
        if quantized.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
            given = self._constants(node, quantized.q_per_channel_scales(), quantized.q_per_channel_zero_points(),
                                    quantized.q_per_channel_axis(), observer.__dict__["dtype"])
            made = rewriter.before(node, "aten::quantize_per_channel", [node.operands[1], *given])
        else:
            given = self._constants(node, quantized.q_scale(), quantized.q_zero_point(), observer.__dict__["dtype"])
            made = rewriter.before(node, "aten::quantize_per_tensor", [node.operands[1], *given])
        node.operands[1] = self._plain(made.results[0], node)
        if self.is_dynamic:
            reduces = self._constants(node, _reduces_range())
            chosen = rewriter.before(node, "aten::_choose_qparams_per_tensor", [node.operands[0], *reduces], [FLOAT, INT])
            given = [node.operands[0], *chosen.results, *self._constants(node, 13)]
            made = rewriter.before(node, "aten::quantize_per_tensor", given, [TENSOR])
            node.operands[0] = self._plain(made.results[0], node)
        return False


def is_observer(node) -> bool:
    """Whether a node calls an observer."""
    owner = node.operands[0].producer
    return owner is not None and owner.op == "prim::GetAttr" and owner.attributes["name"].startswith("_observer_")


def _reduces_range() -> bool:
    """Whether activations that are quantized as they come have 7 bits: where products of 8 bits could overflow."""
    return torch.backends.quantized.engine != "qnnpack"


def _quantized_weight(weight, observer):
    scale, zero_point = call_method(observer, "calculate_qparams")
    dtype = DTYPE_OF[observer.__dict__["dtype"]]
    if "ch_axis" in observer.__dict__:
        return torch.quantize_per_channel(weight.detach(), scale, zero_point, observer.__dict__["ch_axis"], dtype)
    return torch.quantize_per_tensor(weight.detach(), float(scale), int(zero_point), dtype)
