"""``.code`` and ``.graph`` of compiled programs, as PyTorch prints them."""

import re

import pytest
import torch as pt

import ftorch as ft
from tests.jit import printed
from tests.jit.both import of_ftorch

MINE = of_ftorch("printed")
NAMES = [f.__name__ for f in printed.FUNCTIONS]


def graph(program):
    """The graph's text with values numbered by their first appearance, places without the file."""
    known: dict = {}
    text = re.sub(r"%\d+\b", lambda m: known.setdefault(m[0], f"%v{len(known)}"), str(program.graph))
    text = re.sub(r"# .*/\w+\.py:", "# ", text)
    return re.sub(r"___torch_mangle_\d+\.", "", text).replace("printed_of_ftorch", "printed").replace(
        "tests.jit.", "")


@pytest.mark.parametrize("name", NAMES)
def test_code_of_functions(name):
    expected = pt.jit.script(getattr(printed, name))
    found = ft.jit.script(getattr(MINE, name))
    assert found.code == expected.code


@pytest.mark.parametrize("name", ["sequence", "control"])
def test_graphs_of_functions(name):
    expected = pt.jit.script(getattr(printed, name))
    found = ft.jit.script(getattr(MINE, name))
    assert graph(found) == graph(expected)


@pytest.mark.parametrize("name", [f.__name__ for f in printed.TRACED])
def test_traces(name):
    expected = pt.jit.trace(getattr(printed, name), (pt.ones(2, 3), pt.ones(3, 2)))
    found = ft.jit.trace(getattr(MINE, name), (ft.ones(2, 3), ft.ones(3, 2)))
    assert found.code == expected.code
    assert graph(found) == graph(expected)
    assert hasattr(found, "code_with_constants") == hasattr(expected, "code_with_constants")


def test_modules():
    expected, found = pt.jit.script(printed.Layer()), ft.jit.script(MINE.Layer())
    assert found.code == expected.code
    assert found.fc.code == expected.fc.code
    assert graph(found) == graph(expected)
    expected = pt.jit.trace(printed.Layer(), pt.ones(2, 3))
    found = ft.jit.trace(MINE.Layer(), ft.ones(2, 3))
    assert found.code_with_constants[0] == found.code == expected.code
    assert found.code_with_constants[1].const_mapping == expected.code_with_constants[1].const_mapping
    assert graph(found) == graph(expected)


def test_nodes():
    found = ft.jit.script(MINE.control).graph
    expected = pt.jit.script(printed.control).graph
    assert [n.kind() for n in found.nodes()] == [n.kind() for n in expected.nodes()]
    for a, b in zip(found.nodes(), expected.nodes()):
        assert [str(v.type()) for v in a.outputs()] == [str(v.type()) for v in b.outputs()]
        assert a.attributeNames() == b.attributeNames()
        assert a.inputsSize() == b.inputsSize()
        assert [len(list(x.nodes())) for x in a.blocks()] == [len(list(x.nodes())) for x in b.blocks()]
    assert len(found.findAllNodes("aten::add")) == len(expected.findAllNodes("aten::add"))


def test_checked_by_file_check():
    text, graph = ft.jit.script(MINE.sequence).code, ft.jit.script(MINE.sequence).graph
    for check in (ft.testing.FileCheck, pt.testing.FileCheck):
        check().check("torch.add").check_next("return torch.mul").check_not("div").run(text)
        check().check_count("aten::add", 1, exactly=True).check_same("%2, %2").run(str(graph))
        check().check_dag("torch.mul").check_dag("torch.add").run(text)
        check().check_not("mul").check("add").check_regex("m.l").run(text)
        for wrong in (check().check("torch.div"), check().check("mul").check("add"), check().check_not("add"),
                      check().check_next("torch.mul").check_next("def"), check().check_count("torch", 1, True),
                      check().check("torch").check_same("mul"), check().check_not("y").check("mul")):
            with pytest.raises(RuntimeError, match="Expected to (not )?find"):
                wrong.run(text)
