"""`Graph`, `Node` and `GraphModule` edited by hand, beside PyTorch's."""

import copy
import operator
import sys
from collections import namedtuple
from enum import Enum

import pytest
import torch as pt

import ftorch as ft

from ..oracle import shown_call
from .both import assert_same_text, in_both, module, normal


class Color(Enum):
    RED = 1


Point = namedtuple("Point", "x y")


def small(torch):
    """x, y -> (relu(add), [add]) as (graph, {name: node})."""
    g = torch.fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y", type_expr=int, default_value=3)
    add = g.call_function(torch.add, (x, y))
    relu = g.call_method("relu", (add,))
    g.output((relu, [add]))
    return g, {n.name: n for n in g.nodes}


def test_names():
    def program(torch):
        g = torch.fx.Graph()
        for name in ("x", "x", "x_1", "sum", "if", "self", "3a", "a.b", "input", "torch", "None",
                     "x_2", "list", "X", "camelCase", "inf", "*args", "device", "add_5", "add"):
            g.placeholder(name)
        for f in (torch.relu, torch.nn.functional.relu, operator.add, getattr, len, operator.getitem,
                  torch.ops.aten.add.Tensor):
            g.call_function(f, (1,))
        g.create_node("call_module", "a.b.0")
        g.create_node("get_attr", "A.W")
        g.create_node("call_function", torch.relu, (), {}, name="relu")
        return g

    theirs, mine = in_both(program)
    assert_same_text(mine, theirs)


def test_code_of_all_kinds_of_statements():
    def program(torch):
        g = torch.fx.Graph()
        x = g.placeholder("x")
        for f, args in (
            (operator.iadd, (x, 1)), (operator.isub, (x, x)), (operator.setitem, (x, 0, 1)),
            (getattr, (x, "0")), (getattr, (x, "y", None)), (getattr, (x, "y")),
            (operator.getitem, (x, (0, slice(None)))), (operator.getitem, (x, slice(x, 2))),
            (torch.add, (x, float("nan"))), (operator.not_, (x,)), (operator.rshift, (1, x)),
            (operator.abs, (x,)), (operator.invert, (x,)), (operator.neg, (x,)),
            (torch.add, (x, Color.RED, Point(1, x), torch.float32, torch.strided)),
            (torch.add, (torch.device("cuda", 1), torch.channels_last, range(3), ..., b"x")),
            (torch.add, ({"a": x, 1: [2, (x,)]}, (), [], None, 1e-5, 1 + 2j, "it's")),
            (torch.ops.aten.add.Tensor, (x, 1)),
        ):
            g.call_function(f, args)
        g.call_method("add_", (x, 1), {"alpha": x})
        g.call_module("a.0.b", (x,))
        g.get_attr("a.0.w")
        g.output({"x": x}, type_expr=torch.Tensor)
        return g

    theirs, mine = in_both(program)
    assert_same_text(mine, theirs)
    assert_same_text(mine.python_code("self").src, theirs.python_code("self").src)
    assert mine.python_code("self").globals.keys() == theirs.python_code("self").globals.keys()


EDITS = {
    "erase a used node": lambda g, n, fx: g.erase_node(n["add"]),
    "erase another graph's": lambda g, n, fx: fx.Graph().erase_node(n["output"]),
    "move to another graph": lambda g, n, fx: n["x"].append(fx.Graph().placeholder("z")),
    "insert elsewhere": lambda g, n, fx: g.inserting_before(fx.Graph().placeholder("z")),
    "insert behind": lambda g, n, fx: g.inserting_after(fx.Graph().placeholder("z")),
    "unknown opcode": lambda g, n, fx: g.create_node("foo", "bar"),
    "string as function": lambda g, n, fx: fx.Graph().call_function("foo"),
    "args in a list": lambda g, n, fx: g.create_node("call_method", "relu", [n["x"]]),
    "find functions": lambda g, n, fx: g.find_nodes(op="call_function"),
    "order": lambda g, n, fx: (n["x"].append(n["relu"]), g.lint()),
    "foreign argument": lambda g, n, fx: (setattr(n["relu"], "args", (fx.Graph().placeholder("z"),)),
                                          g.lint()),
    "update arguments": lambda g, n, fx: (n["add"].update_arg(1, 7), n["add"].update_kwarg("alpha", 2),
                                          n["add"].insert_arg(0, n["y"]), n["add"].users, str(g)),
    "insert out of range": lambda g, n, fx: n["add"].insert_arg(9, 1),
    "mutate arguments": lambda g, n, fx: n["output"].args[0][1].append(3),
    "mutate kwargs": lambda g, n, fx: n["add"].kwargs.update(a=1),
    "replace uses": lambda g, n, fx: (n["relu"].replace_all_uses_with(n["add"]), n["add"].users,
                                      g.eliminate_dead_code(), str(g)),
    "replace some uses": lambda g, n, fx: (
        n["add"].replace_all_uses_with(n["x"], lambda user: user.op == "output"), str(g)),
    "replace input": lambda g, n, fx: (n["add"].replace_input_with(n["x"], n["y"]), str(g)),
    "insert before": lambda g, n, fx: (
        g.inserting_before(n["add"]), g.call_method("neg", (n["x"],)), str(g))[1:],
    "insert at the beginning": lambda g, n, fx: (
        g.inserting_before(), g.placeholder("first"), str(g))[1:],
    "neighbours": lambda g, n, fx: (n["add"].next, n["add"].prev, n["relu"] < n["add"],
                                    list(reversed(g.nodes)), len(g.nodes), g.output_node()),
    "map_arg": lambda g, n, fx: fx.map_arg(([n["x"], 1], {"a": n["y"]}, slice(n["x"], 2)), str),
    "map_arg without function": lambda g, n, fx: fx.map_arg(1, 2),
    "inputs": lambda g, n, fx: (n["output"].all_input_nodes, n["add"].users),
    "impure": lambda g, n, fx: [(k, v.is_impure()) for k, v in n.items()],
    "format": lambda g, n, fx: [v.format_node() for v in n.values()],
    "missing in dict": lambda g, n, fx: fx.GraphModule({}, _with_module(fx)),
}


def _with_module(fx):
    g = fx.Graph()
    g.output(g.call_module("sub.lin", (g.placeholder("x"),)))
    return g


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edits(edit):
    def program(torch):
        g, nodes = small(torch)
        return shown_call(lambda: edit(g, nodes, torch.fx), normal, normal)

    theirs, mine = in_both(program)
    assert mine == theirs


def test_copies():
    def program(torch):
        g, _ = small(torch)
        copied, val_map = torch.fx.Graph(), {}
        result = copied.graph_copy(g, val_map)
        copied.lint()
        return copied, result, val_map, copy.deepcopy(g), torch.fx.GraphModule({}, copy.deepcopy(g))

    theirs, mine = in_both(program)
    assert_same_text("\n".join(map(str, mine)), "\n".join(map(str, theirs)))


def nested(torch):
    root = torch.nn.Module()
    root.sub = torch.nn.Module()
    root.sub.w = torch.nn.Parameter(torch.ones(2))
    root.sub.lin = torch.nn.Linear(2, 2)
    root.unused = torch.nn.Linear(2, 2)
    g = torch.fx.Graph()
    x = g.placeholder("x")
    g.output(g.call_function(operator.add, (g.call_module("sub.lin", (x,)), g.get_attr("sub.w"))))
    return torch.fx.GraphModule(root, g, "MyName")


def test_submodules():
    def program(torch):
        gm = nested(torch)
        seen = [str(gm), list(gm.state_dict())]
        seen += [gm.add_submodule("a.b.c", torch.nn.ReLU()), [n for n, _ in gm.named_modules()]]
        gm.delete_all_unused_submodules()
        seen += [[n for n, _ in gm.named_modules()], gm.delete_submodule("sub.q")]
        seen += [gm.delete_submodule("sub.lin"), shown_call(gm.graph.lint, normal, normal)]
        with pytest.warns(UserWarning, match="no underlying reference") as caught:
            gm.graph.get_attr("w")
        return "\n".join(map(str, [*seen, *(w.message for w in caught)]))

    theirs, mine = in_both(program)
    assert_same_text(mine, theirs)


def test_recompile_and_meta():
    gm = nested(ft)
    gm.meta["key"] = 1
    for n in gm.graph.nodes:
        if n.target is operator.add:
            n.target = operator.sub
    assert "+" in gm.code
    gm.recompile()
    assert "+" not in gm.code and "-" in gm.code
    again = copy.deepcopy(gm)
    assert again.meta == {"key": 1} and again.sub.lin is not gm.sub.lin
    assert again(ft.ones(2)).tolist() == gm(ft.ones(2)).tolist()
    assert copy.copy(gm).sub.lin is gm.sub.lin
    gm.meta["_user_preserved_attributes"] = {"kept": 3}
    assert copy.copy(gm).kept == 3
    again.graph = ft.fx.symbolic_trace(lambda x: x + 1).graph
    assert again(1) == 2 and gm(ft.ones(2)).shape == (2,)


def test_to_folder(tmp_path, monkeypatch):
    gm = ft.fx.symbolic_trace(ft.nn.Sequential(ft.nn.Linear(2, 2), ft.nn.Tanh()))
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="Was not able to save the following children modules"):
        gm.to_folder("written_model", "Model")
    monkeypatch.syspath_prepend(str(tmp_path))
    from written_model import Model  # type: ignore[import-not-found]

    sys.modules.pop("written_model")
    assert Model()(ft.ones(2)).tolist() == gm(ft.ones(2)).tolist()


def test_failing_code_is_shown(capsys):
    gm = ft.fx.symbolic_trace(lambda x: x + ft.ones(3))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        gm(ft.ones(2))
    shown = capsys.readouterr().err
    assert "Call using an FX-traced Module, line 6 of the traced Module's generated forward" in shown
    assert "add = x + _tensor_constant0" in shown and "<--- HERE" in shown
    with pytest.raises(RuntimeError, match="While executing %add :"):
        ft.fx.Interpreter(gm).run(ft.ones(2))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        ft.fx.Interpreter(gm).run()


def test_proxies_by_hand():
    def program(torch):
        g = torch.fx.Graph()
        x = torch.fx.Proxy(g.placeholder("x"))
        y = torch.relu(x) + torch.nn.functional.softmax(x, dim=1) * x.foo.bar(1) + x.shape[0]
        g.output(y.node)
        return g

    theirs, mine = in_both(program)
    assert normal(str(mine)) == normal(str(theirs))


def test_print_tabular(capsys):
    small(ft)[0].print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[2].split()[:3] == ["placeholder", "x", "x"] and len(lines) == 7


def test_normalized_arguments():
    def f(x):
        return ft.nn.functional.relu(x), ft.sum(x, 0), ft.nn.functional.linear(x, x)

    nodes = [n for n in ft.fx.symbolic_trace(f).graph.nodes if n.op == "call_function"]
    relu, total, linear = [n.normalized_arguments(None, normalize_to_only_use_kwargs=True)
                           for n in nodes]
    assert relu.kwargs == {"input": nodes[0].args[0], "inplace": False}
    assert total.kwargs["dim"] == 0 and total.kwargs["keepdim"] is False
    assert list(linear.kwargs) == ["input", "weight", "bias"] and not linear.args
    fx = module(ft, "fx.operator_schemas")
    assert fx.normalize_function(operator.add, (1, 2)) is None
    assert str(fx.get_signature_for_torch_op(ft.relu)[0]).startswith("(input: ")
    assert pt.fx is not ft.fx


def test_statements_are_rewritten_and_tables_printed(capsys):
    def program(torch):
        traced = torch.fx.symbolic_trace(lambda x: x + 1)
        traced.graph.on_generate_code(lambda before: lambda body: ["import os\n", *body])
        traced.recompile()
        traced.graph.print_tabular()
        return traced.code, capsys.readouterr().out

    theirs, mine = in_both(program)
    assert mine[0] == theirs[0]
    assert [r.split() for r in mine[1].splitlines()] == [r.split() for r in theirs[1].splitlines()]
    assert mine[1].splitlines()[1] == theirs[1].splitlines()[1]
