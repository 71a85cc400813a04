"""Copies of modules of graphs that lack what the graph refers to."""

import copy

from tests.oracle import LIBRARIES


def test_a_copy_lacks_what_its_original_lacks():
    def program(t):
        module = t.fx.symbolic_trace(t.nn.Sequential(t.nn.ReLU(), t.nn.Sequential(t.nn.Tanh(), t.nn.ReLU())))
        module.delete_submodule("1.1")
        copied = copy.deepcopy(module)
        try:
            found = copied(t.ones(1))
        except AttributeError as error:
            found = str(error)
        return copied.code == module.code, found, [n for n, _ in copied.named_modules()]

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
