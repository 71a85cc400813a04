"""Types of a graph's tensors from equations between their sizes, by unification."""

from __future__ import annotations

from ..tensor_type import TensorType
from .graph_gradual_typechecker import Refine
from .unification import Var, unify

__all__ = [
    "check_for_type_equality", "convert_eq", "infer_symbolic_types", "infer_symbolic_types_single_pass",
    "substitute_all_types", "substitute_solution_one_type", "unify_eq",
]


def _refined(traced) -> Refine:
    refine = Refine(traced)
    refine.refine()
    substitute_all_types(traced.graph, unify_eq(refine.constraints))
    return refine


def infer_symbolic_types_single_pass(traced) -> None:
    """Finds types of a traced module's nodes, once."""
    _refined(traced)


def infer_symbolic_types(traced) -> None:
    """Finds types twice, as broadcasting needs what the first time gave, and then relations between sizes."""
    _refined(traced)
    _refined(traced).symbolic_relations()


def convert_eq(list_of_eq) -> tuple[tuple, tuple]:
    """The left sides of equations, and the right ones."""
    return tuple(eq.lhs for eq in list_of_eq), tuple(eq.rhs for eq in list_of_eq)


def unify_eq(list_of_eq):
    """{variable: value} with which equations hold, or False."""
    return unify(*convert_eq(list_of_eq))


def substitute_solution_one_type(mapping, t):
    """A type with its variables' values.

    >>> from ftorch.fx.experimental.unification import Var
    >>> from ftorch.fx.tensor_type import TensorType
    >>> x = Var("x")
    >>> substitute_solution_one_type({x: 3}, TensorType((x, 2)))
    TensorType[(3, 2)]
    """
    if isinstance(t, Var):
        return mapping.get(t, t)
    if isinstance(t, TensorType):
        return TensorType(tuple(mapping.get(size, size) for size in t.__args__))
    if isinstance(t, (list, tuple)):
        return type(t)(substitute_solution_one_type(mapping, part) for part in t)
    return t


def substitute_all_types(graph, mapping) -> None:
    """Gives all nodes of a graph types without the variables that have values; writes to the mapping."""
    changes = True
    while changes:
        changes = False
        for key, value in mapping.items():
            if value in mapping and mapping[value] != value:
                mapping[key] = mapping[value]
                changes = True
    for node in graph.nodes:
        node.type = substitute_solution_one_type(mapping, node.type)


def check_for_type_equality(g1, g2) -> bool:
    """Whether the nodes of two graphs have the same types."""
    return all(n.type == m.type for n, m in zip(g1.nodes, g2.nodes))
