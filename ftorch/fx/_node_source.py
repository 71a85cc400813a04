"""`NodeSource`: which node a node was made from, by which pass (``torch.fx.traceback.NodeSource``)."""

from __future__ import annotations

import copy
import enum
from typing import Any

__all__ = ["NodeSource", "NodeSourceAction"]

_DEEPEST = 9


class NodeSourceAction(enum.Enum):
    """What a pass did."""

    __module__ = "torch.fx.traceback"

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """The node that another one was made from, as ``meta["from_node"]`` has it.

    Args:
        node: that node, or None.
        pass_name: who made the other one.
        action: a `NodeSourceAction`, or a list of them.
    """

    __module__ = "torch.fx.traceback"

    class NodeInfo:
        """What is kept of a node: its name, its target's text, and the number of its graph."""

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name, self.target, self.graph_id = name, target, graph_id

    def __init__(self, node, pass_name: str = "", action=None) -> None:
        actions = [] if action is None else action if isinstance(action, list) else [action]
        for each in actions:
            if not isinstance(each, NodeSourceAction):
                raise AssertionError(f"Expected NodeSourceAction, got {type(each)}")
        self.pass_name, self.action = pass_name, actions
        self.node_info, self.from_node = None, []
        if node:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            self.from_node = copy.deepcopy(node.meta.get("from_node", []))

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        """The text of the node's target."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        """The number of the node's graph."""
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join(a.name.lower() for a in self.action)

    def print_readable(self, indent: int = 0) -> str:
        """Lines of text: the node, and indented below it what it was made from."""
        if indent > _DEEPEST:
            return ""
        line = (f"{'    ' * indent}(name={self.name}, pass_name={self.pass_name}, action={self._get_action_string()}, "
                f"graph_id={self.graph_id})\n")
        return line + "".join(source.print_readable(indent + 1) for source in self.from_node)

    __repr__ = print_readable

    def to_dict(self) -> dict[str, Any]:
        """The same as plain objects."""
        return {
            "name": self.name, "target": self.target, "graph_id": self.graph_id, "pass_name": self.pass_name,
            "action": self._get_action_string(), "from_node": [source.to_dict() for source in self.from_node],
        }

    @classmethod
    def _from_dict(cls, given: dict[str, Any] | None) -> NodeSource | None:
        """What `to_dict` gave."""
        if given is None:
            return None
        if not isinstance(given, dict):
            raise AssertionError(f"Expected a dict, got {type(given)}")
        known = {action.name.lower(): action for action in NodeSourceAction}
        made = cls(None, given.get("pass_name", ""),
                   [known[name] for name in given.get("action", "").lower().split("+") if name in known])
        if {"name", "target", "graph_id"} <= given.keys():
            made.node_info = cls.NodeInfo(given["name"], given["target"], given["graph_id"])
        made.from_node = [source for d in given.get("from_node", []) if (source := cls._from_dict(d)) is not None]
        return made

    def __eq__(self, other):
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash(repr(self.to_dict()))
