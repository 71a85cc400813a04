"""LSTMs that are quantized as custom modules (``torch.ao.quantization.fx.lstm_utils``)."""

from __future__ import annotations

import operator

import ftorch as torch
from ftorch.ao.quantization.stubs import DeQuantStub
from ftorch.ao.quantization.utils import activation_is_statically_quantized
from ftorch.fx.node import Node

from .utils import _get_module, get_new_attr_name_with_prefix

__all__: list[str] = []


def is_custom_module_lstm(node, modules, qconfig=None, handler=None) -> bool:
    """Whether a node calls an LSTM that is (with a QConfig: that is to be) quantized statically as a custom module."""
    module = _get_module(node, modules)
    if qconfig is not None and handler is not None:
        return (isinstance(module, torch.nn.LSTM) and activation_is_statically_quantized(qconfig)
                and handler.is_custom_module())
    return isinstance(module, torch.ao.nn.quantizable.LSTM)


def _is_getitem(node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def _is_tuple(node) -> bool:
    return node.op == "call_function" and node.target is tuple


def insert_dequant_stubs(node, model, modules, graph) -> Node:
    """Takes an LSTM's results apart, ``(output, (h, c))``, and puts a `DeQuantStub` behind each."""

    def stub(value):
        name = get_new_attr_name_with_prefix("dequant_stub_")(model)
        setattr(model, name, module := DeQuantStub())
        modules[name] = module
        with graph.inserting_after(value):
            return graph.call_module(name, (value,))

    def item(value, index, after):
        with graph.inserting_after(after):
            return graph.call_function(operator.getitem, (value, index))

    output = item(node, 0, node)
    output_dq = stub(output)
    hidden = item(node, 1, output_dq)
    parts, after = [], hidden
    for i in range(2):
        parts.append(after := stub(item(hidden, i, after)))
    with graph.inserting_after(after):
        hidden_dq = graph.call_function(tuple, (parts,))
    with graph.inserting_after(hidden_dq):
        whole = graph.call_function(tuple, ([output_dq, hidden_dq],))
    for user in list(node.users):
        if user is not output and user is not hidden:
            user.replace_input_with(node, whole)
    _take_from_tuples(graph)
    return whole


def _take_from_tuples(graph) -> None:
    """Items of tuples that the graph makes itself are the values that the tuples were made of."""
    for node in graph.nodes:
        while _is_getitem(node) and isinstance(node.args[0], Node) and _is_tuple(node.args[0]):
            value = node.args[0].args[0][node.args[1]]
            if not node.users:
                break
            for user in list(node.users):
                user.replace_input_with(node, value)


def custom_module_lstm_of(arg, modules) -> Node | None:
    """The call of the LSTM that a value comes from, through items, tuples and `DeQuantStub`; else None."""
    seen = 0
    while isinstance(arg, Node):
        if is_custom_module_lstm(arg, modules):
            return arg if seen else None
        if isinstance(_get_module(arg, modules), DeQuantStub) or (_is_getitem(arg) and seen):
            arg = arg.args[0]
        elif _is_tuple(arg):
            arg = arg.args[0][0]
        else:
            return None
        seen += 1
    return None
