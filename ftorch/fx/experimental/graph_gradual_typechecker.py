"""Gradual types of tensors in graphs (``torch.fx.experimental.graph_gradual_typechecker``).

A `TensorType` says sizes, `Dyn` nothing. `GraphTypeChecker` finds the type of each node from those of the
placeholders' annotations; `Refine` puts variables in the place of unknown sizes, and equations between them.
"""

from __future__ import annotations

import itertools
import operator
from functools import reduce

from ... import nn
from ...eager.core import api as torch
from ..node import Node
from ..tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from .refinement_types import Equality
from .unification import Var

__all__ = [
    "GraphTypeChecker", "Refine", "all_eq", "broadcast_types", "calculate_out_dimension", "element_wise_eq",
    "expand_to_tensor_dim", "first_two_eq", "get_greatest_upper_bound", "get_parameter",
    "register_algebraic_expressions_inference_rule", "register_inference_rule", "register_refinement_rule",
]

_INFERENCE_RULES: dict = {}
_REFINEMENT_RULES: dict = {}
_RULES: dict = {}


def _register(table, target):
    def decorator(function):
        if target in table:
            raise RuntimeError(f"Rule already registered for target {target}")
        table[target] = function
        return function

    return decorator


def register_inference_rule(call_target):
    """Declares what finds the type of calls of a function or class of modules."""
    return _register(_INFERENCE_RULES, call_target)


def register_refinement_rule(call_target):
    """Declares what gives the equations of such calls."""
    return _register(_REFINEMENT_RULES, call_target)


def register_algebraic_expressions_inference_rule(call_target):
    """Declares what gives the result's sizes as expressions."""
    return _register(_RULES, call_target)


# --- types


def expand_to_tensor_dim(t, n):
    """A type with ``n`` sizes: those it has, or unknown ones.

    Raises:
        TypeError: it has another number of sizes.
    """
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if isinstance(t, TensorType):
        if len(t.__args__) != n:
            raise TypeError(f"Cannot extend tensor. Tensor {t} has rank {len(t.__args__)}. It should have rank {n}")
        return t
    raise TypeError(f"Cannot match the type {t}")


def broadcast_types(t1, t2):
    """Two types as broadcasting makes them: of as many sizes, 1 in the place of what the other has."""
    if t1 == Dyn or t2 == Dyn or isinstance(t1, Var) or isinstance(t2, Var):
        return t1, t2
    if not isinstance(t1, TensorType) or not isinstance(t2, TensorType):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    a, b = list(t1.__args__), list(t2.__args__)
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    for i, (x, y) in enumerate(zip(a, b)):
        if x == 1:
            a[i] = y
        elif y == 1:
            b[i] = x
    return TensorType(tuple(a)), TensorType(tuple(b))


def get_greatest_upper_bound(type1, type2):
    """The more precise of two types, size by size.

    Raises:
        TypeError: they are not consistent.
    """
    if type1 == Dyn:
        return type2
    if type2 == Dyn:
        return type1
    if isinstance(type1, TensorType) and isinstance(type2, TensorType):
        if not is_consistent(type1, type2):
            raise TypeError(f"Inconsistent types {type1}, {type2}")
        sizes = [a if is_more_precise(a, b) else b for a, b in zip(type1.__args__, type2.__args__)]
        return TensorType(tuple(sizes))
    return None


def get_parameter(traced, target: str):
    """A parameter of a module by its path."""
    return traced.get_parameter(target)


# --- inference


def _node_of(argument) -> Node:
    assert isinstance(argument, Node), f"Expected Node, got {type(argument)}"
    return argument


@register_inference_rule(torch.add)
@register_inference_rule(operator.add)
def add_inference_rule(n: Node):
    """The broadcast type."""
    left, right = _node_of(n.args[0]), _node_of(n.args[1])
    t1, t2 = left.type, right.type
    if t1 is int and isinstance(t2, TensorType):
        n.type = t2
        return n.type
    if t2 is int and isinstance(t1, TensorType):
        n.type = t1
        return n.type
    new1, new2 = broadcast_types(t1, t2)
    if new1 != t1 or new2 != t2:
        n.meta["broadcast"] = True
        n.meta[str(left)], n.meta[str(right)] = new1, new2
    else:
        n.meta["broadcast"] = False
    if not is_consistent(new1, new2):
        raise TypeError(
            f"Cannot add arguments {n.args[0]} ({left.type}) and {n.args[1]} ({right.type}) in node {n}. Types "
            "should match "
        )
    n.type = new2 if is_more_precise(new1, new2) else new1
    return n.type


@register_inference_rule(getattr)
def get_attr_inference_rule(n: Node, traced):
    """``x.shape``: nothing is known of it."""
    if n.args[1] != "shape":
        raise NotImplementedError("Not yet implemented")
    n.type = Dyn
    return n.type


@register_inference_rule(torch.transpose)
def transpose_inference_rule(n: Node):
    """Two sizes exchanged."""
    t = _node_of(n.args[0]).type
    d0, d1 = n.args[1], n.args[2]
    if t == Dyn:
        n.type = Dyn
        return n.type
    if isinstance(t, TensorType) and 0 <= d0 < len(t.__args__) and 0 <= d1 < len(t.__args__):
        sizes = list(t.__args__)
        sizes[d0], sizes[d1] = sizes[d1], sizes[d0]
        n.type = get_greatest_upper_bound(n.type, TensorType(sizes))
        return n.type
    raise TypeError(f"Cannot transpose {d0} and {d1} in type {t} for node {n}")


@register_inference_rule(torch.reshape)
def reshape_inference_rule(n: Node):
    """The sizes that are asked for, if the number of elements may fit."""
    t, sizes = _node_of(n.args[0]).type, n.args[1]
    assert isinstance(sizes, list), f"Expected list, got {type(sizes)}"
    wanted = TensorType([Dyn if s == -1 else s for s in sizes])
    if t == Dyn:
        n.type = wanted
        return n.type
    if isinstance(t, TensorType):
        known = reduce(operator.mul, (s for s in t.__args__ if s != Dyn), 1)
        asked = reduce(operator.mul, (s for s in sizes if s != -1), 1)
        if known % asked == 0 or asked % known == 0:
            n.type = wanted
            return n.type
    raise TypeError(f"Cannot reshape in node {n} from {t} to {wanted}")


def _refused(module, t, n):
    return TypeError(f"Cannot apply {module} with input type {t} and existing type {n.type} on {n}")


@register_inference_rule(nn.BatchNorm2d)
def bn2d_inference_rule(n: Node, module_instance):
    """The input's type; its second size is the module's."""
    argument = _node_of(n.args[0])
    n.type = expand_to_tensor_dim(n.type, 4)
    argument.type = expand_to_tensor_dim(argument.type, 4)
    if is_consistent(argument.type.__args__[1], module_instance.num_features) and is_consistent(n.type, argument.type):
        n.type = get_greatest_upper_bound(argument.type, n.type)
        return n.type
    raise _refused(module_instance, argument.type, n)


def calculate_out_dimension(d_in, module_instance, index):
    """A size behind a convolution or pooling."""
    pick = [v if isinstance(v, tuple) else (v, v) for v in (
        module_instance.padding, module_instance.kernel_size, module_instance.stride, module_instance.dilation)]
    padding, kernel, stride, dilation = (v[index] for v in pick)
    if d_in == Dyn:
        return Dyn
    if not isinstance(d_in, int) and not hasattr(d_in, "free_symbols"):  # a symbol of sympy is fine
        raise TypeError(f"{d_in} in {module_instance} must be a number or Dyn. Received {type(d_in)}")
    return (d_in + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


@register_inference_rule(nn.Conv2d)
def conv2d_inference_rule(n: Node, module_instance):
    """The sizes behind a convolution of an input whose second size is the module's."""
    argument = _node_of(n.args[0])
    argument.type = expand_to_tensor_dim(argument.type, 4)
    sizes = argument.type.__args__
    if is_consistent(sizes[1], module_instance.in_channels):
        out = TensorType((sizes[0], module_instance.out_channels, *(
            calculate_out_dimension(sizes[i + 2], module_instance, i) for i in (0, 1))))
        n.type = get_greatest_upper_bound(out, expand_to_tensor_dim(n.type, 4))
        return n.type
    raise _refused(module_instance, argument.type, n)


@register_inference_rule(nn.ReLU)
def relu_inference_rule(n: Node, module_instance):
    """The input's type."""
    t = _node_of(n.args[0]).type
    if t == Dyn and isinstance(n.type, TensorType):
        _node_of(n.args[0]).type = expand_to_tensor_dim(t, len(n.type.__args__))
    if isinstance(t, TensorType):
        n.type = get_greatest_upper_bound(t, n.type)
    return n.type


def maxpool2d_check(typ, module_instance):
    """The type behind pooling.

    Raises:
        TypeError: the type has not three or four sizes.
    """
    sizes = list(typ.__args__)
    if len(sizes) not in (3, 4):
        raise TypeError(f"Wrong size {typ} for {module_instance}")
    ends = [calculate_out_dimension(sizes[i - 2], module_instance, i) for i in (0, 1)]
    return TensorType((*sizes[:-2], *ends))


@register_inference_rule(nn.MaxPool2d)
def maxpool2d_inference_rule(n: Node, module_instance):
    """The sizes behind pooling."""
    t = _node_of(n.args[0]).type
    if isinstance(t, TensorType):
        n.type = get_greatest_upper_bound(maxpool2d_check(t, module_instance), n.type)
    return n.type


def linear_check(tensor_type, module_instance):
    """The type behind a linear layer.

    Raises:
        TypeError: the last size is not the layer's, or there is but one.
    """
    if len(tensor_type.__args__) < 2:
        raise TypeError(f"Type {tensor_type} must have rank 2 or more.")
    if not is_consistent(module_instance.in_features, tensor_type.__args__[-1]):
        raise TypeError(
            f"Inconsistent {module_instance.in_features} and {tensor_type.__args__[-1]} in {module_instance}"
        )
    return TensorType((*tensor_type.__args__[:-1], module_instance.out_features))


@register_inference_rule(nn.Linear)
def linear_inference_rule(n: Node, module_instance):
    """The input's sizes with the layer's last one."""
    t = _node_of(n.args[0]).type
    if isinstance(t, TensorType):
        n.type = get_greatest_upper_bound(linear_check(t, module_instance), n.type)
    return n.type


def adaptiveavgpool2d_check(tensor_type, module_instance):
    """The type behind adaptive pooling.

    Raises:
        TypeError: the type has not three or four sizes.
    """
    wanted = module_instance.output_size
    wanted = wanted if isinstance(wanted, tuple) else (wanted, wanted)
    sizes = list(tensor_type.__args__)
    if len(sizes) not in (3, 4):
        raise TypeError(f"Tensor ranks must be 3 or 4. Got {tensor_type}")
    ends = [s if w is None else w for s, w in zip(sizes[-2:], wanted)]
    return TensorType((*sizes[:-2], *ends))


@register_inference_rule(nn.AdaptiveAvgPool2d)
def adaptiveavgpool2d_inference_rule(n: Node, module_instance):
    """The sizes that the module gives."""
    t = _node_of(n.args[0]).type
    if isinstance(t, TensorType):
        n.type = get_greatest_upper_bound(n.type, adaptiveavgpool2d_check(t, module_instance))
    return n.type


def flatten_check(tensor_type, start_dim, end_dim):
    """The type with some sizes multiplied into one.

    Raises:
        TypeError: there are no such dimensions.
    """
    sizes = list(tensor_type.__args__)
    rank = len(sizes)
    start = rank if start_dim == -1 else start_dim
    end = rank + end_dim + 1 if end_dim < 0 else end_dim + 1
    if not (0 <= start <= rank - 1 and 0 <= end <= rank and start < end):
        raise TypeError(f"Incompatible dimensions {start_dim}, {end_dim} in type {tensor_type}")
    middle = sizes[start:end]
    product = Dyn if Dyn in middle else reduce(operator.mul, middle)
    return TensorType((*sizes[:start], product, *sizes[end:]))


@register_inference_rule(torch.flatten)
def flatten_inference_rule(n: Node):
    """Some sizes multiplied into one."""
    t = _node_of(n.args[0]).type
    start, end = (*n.args[1:3], *(1, -1)[len(n.args) - 1 :]) if len(n.args) < 3 else n.args[1:3]
    if t == Dyn and n.type is None:
        n.type = Dyn
    if isinstance(t, TensorType):
        n.type = get_greatest_upper_bound(flatten_check(t, start, end), n.type)
    return n.type


class GraphTypeChecker:
    """Finds and checks the types of a graph's nodes.

    Args:
        env: the types so far; ``traced`` the module, whose placeholders may be annotated.
    """

    def __init__(self, env, traced):
        self.env, self.traced = env, traced

    def type_check(self):
        """Finds the types of all nodes; gives whether they fit.

        Raises:
            TypeError: they do not.
        """
        well = True
        for n in self.traced.graph.nodes:
            well = well and bool(self.type_check_node(n))
        return well

    def type_check_node(self, n: Node):
        """Finds the type of a node."""
        if n.type is None:
            n.type = Dyn
        if n.op == "placeholder":
            return n.type
        if n.op == "get_attr":
            t = get_parameter(self.traced, n.target)
            if isinstance(t.data, torch.Tensor):
                n.type = TensorType(tuple(t.data.shape))
            return n.type
        if n.op == "call_function":
            if n.target is getattr:
                return _INFERENCE_RULES[n.target](n, self.traced)
            if n.target in _INFERENCE_RULES:
                return _INFERENCE_RULES[n.target](n)
            raise RuntimeError(f"No inference rule registered for target {n.target}!")
        if n.op == "call_module":
            module = self.traced.get_submodule(n.target)
            if type(module) in _INFERENCE_RULES:
                return _INFERENCE_RULES[type(module)](n, module)
            raise RuntimeError(f"No inference rule registered for class {type(module)}!")
        if n.op == "output":
            n.type = reduce_types(n.args[0])
            return n.type
        raise NotImplementedError(f"Method {n.op} not yet implemented")


def reduce_types(argument):
    """The types of nodes in containers."""
    if isinstance(argument, (tuple, list)):
        return type(argument)(map(reduce_types, argument))
    return argument.type if isinstance(argument, Node) else argument


# --- refinement


def all_eq(n: Node):
    """All sizes of the result are the argument's."""
    return element_wise(n, None)


def first_two_eq(n: Node):
    """The first two sizes of the result are the argument's."""
    return element_wise(n, 2)


def element_wise(n, count):
    """Equations between the first sizes of a node and its argument."""
    argument = _node_of(n.args[0]).type
    if not isinstance(argument, TensorType) or not isinstance(n.type, TensorType):
        return []
    return [Equality(a, b) for a, b in list(zip(argument.__args__, n.type.__args__))[:count]]


for _kind in (nn.ReLU, nn.BatchNorm2d):
    register_refinement_rule(_kind)(all_eq)
for _kind in (nn.MaxPool2d, nn.AdaptiveAvgPool2d):
    register_refinement_rule(_kind)(first_two_eq)


@register_refinement_rule(nn.Conv2d)
def conv_refinement_rule(n: Node):
    """The first size stays."""
    return element_wise(n, 1)


@register_refinement_rule(nn.Linear)
def linear_refinement_rule(n: Node):
    """The first size stays."""
    return element_wise(n, 1)


@register_refinement_rule(torch.flatten)
def flatten_refinement_rule(n: Node):
    """The sizes before the flattened ones stay."""
    start = n.args[1] if len(n.args) > 1 else 1
    return element_wise(n, start)


@register_refinement_rule(torch.add)
@register_refinement_rule(operator.add)
def element_wise_eq(n: Node):
    """Sizes of both arguments that are not broadcast are the result's."""
    if not isinstance(n.args[0], Node) or not isinstance(n.args[1], Node):
        return []
    left, right = n.args[0].type, n.args[1].type
    if not all(isinstance(t, TensorType) for t in (left, right, n.type)):
        return []
    one, two = broadcast_types(left, right)
    found = []
    for i, (a, b) in enumerate(zip(one.__args__, two.__args__)):
        if a == b:
            found.append(Equality(a, n.type.__args__[i]))
    return found


@register_algebraic_expressions_inference_rule(nn.Conv2d)
def conv_rule(n: Node, module_instance):
    """The last two sizes behind a convolution as expressions of those before."""
    before, after = _node_of(n.args[0]).type, n.type
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return None
    behind = [calculate_out_dimension(before.__args__[i + 2], module_instance, i) for i in range(2)]
    n.type = TensorType((*after.__args__[:2], *behind))
    return n.type


class Refine:
    """Variables for unknown sizes, and the equations between them.

    Attributes:
        constraints: the equations that `refine` found.
    """

    def __init__(self, traced):
        self.constraints: list[Equality] = []
        self.traced = traced
        self.symbol_iter = itertools.count(start=0, step=1)

    def refine(self):
        """Does it for all nodes; gives True."""
        for n in self.traced.graph.nodes:
            self.refine_node(n)
        return True

    def replace_dyn_with_fresh_var(self, typ):
        """A type with new variables in the place of `Dyn`."""
        if typ == Dyn:
            return Var(next(self.symbol_iter))
        if isinstance(typ, TensorType):
            return TensorType(tuple(map(self.replace_dyn_with_fresh_var, typ.__args__)))
        if isinstance(typ, (list, tuple)):
            return type(typ)(map(self.replace_dyn_with_fresh_var, typ))
        return typ

    def symbolic_relations(self):
        """Writes sizes behind convolutions as expressions of those before; gives True. Needs sympy."""
        for n in self.traced.graph.nodes:
            self.infer_symbolic_relations(n)
        return True

    def convert_to_sympy_symbols(self, typ):
        """A type with symbols of sympy in the place of variables."""
        import sympy

        if isinstance(typ, Var):
            return sympy.symbols(str(typ))
        if isinstance(typ, TensorType):
            return TensorType(tuple(map(self.convert_to_sympy_symbols, typ.__args__)))
        if isinstance(typ, (list, tuple)):
            return type(typ)(map(self.convert_to_sympy_symbols, typ))
        return typ

    def infer_symbolic_relations(self, n: Node):
        """Does it for a node, whose arguments have expressions."""
        n.type = self.convert_to_sympy_symbols(n.type)
        if n.op == "output":
            n.type = reduce_types(n.args[0])
            return n.type
        if n.op == "call_function" and n.target in _RULES:
            return _RULES[n.target](n)
        module = self.traced.get_submodule(n.target) if n.op == "call_module" else None
        return _RULES[type(module)](n, module) if type(module) in _RULES else None

    def refine_node(self, n: Node):
        """Does it for a node, whose arguments were refined."""
        if n.type is None:
            n.type = Dyn
        if n.op == "output":
            n.type = reduce_types(n.args[0])
            return
        n.type = self.replace_dyn_with_fresh_var(n.type)
        rule = None
        if n.op == "call_function":
            if n.target not in _REFINEMENT_RULES:
                return
            rule = _REFINEMENT_RULES[n.target]
        elif n.op == "call_module":
            rule = _REFINEMENT_RULES.get(type(self.traced.get_submodule(n.target)))
        if rule is not None:
            self.constraints += rule(n)
