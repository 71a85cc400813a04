"""Dropout that writes or drops channels, what nodes of a program's module say of themselves: as in PyTorch."""

import io

import numpy as np
import pytest
import torch as reference

import ftorch

pytestmark = pytest.mark.filterwarnings("ignore")
LIBRARIES = (reference, ftorch)


def _exported(library, calls, training):
    functional = library.nn.functional

    class Net(library.nn.Module):
        def forward(self, x):
            return sum(
                getattr(functional, name)(x * (i + 1), 0.3, self.training, inplace)
                for i, (name, inplace) in enumerate(calls)
            )

    return library.export.export(Net().train(training), (library.ones(3, 4, 2, 2),))


def _calls(program):
    return [(str(n.target), *n.args[1:]) for n in program.graph.nodes if "dropout" in str(n.target)]


NAMES = ("dropout", "dropout2d", "alpha_dropout", "feature_alpha_dropout")


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("inplace", [True, False])
def test_dropout_stays_whole(inplace, training):
    calls = [(name, inplace) for name in NAMES]
    theirs, ours = (_exported(library, calls, training) for library in LIBRARIES)
    assert _calls(ours) == _calls(theirs) and len(_calls(ours)) == len(NAMES)
    file = io.BytesIO()
    ftorch.export.save(ours, file)
    file.seek(0)
    results = []
    for library, program in ((reference, theirs), (ftorch, ours), (ftorch, ftorch.export.load(file))):
        library.manual_seed(0)
        results.append(program.module()(library.ones(3, 4, 2, 2)).numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results[2], results[1])


def test_dropout_of_evaluated_models_is_taken_away():
    program = _exported(ftorch, [(name, inplace) for name in NAMES for inplace in (True, False)], False)
    assert not _calls(program.run_decompositions())


@pytest.mark.parametrize("name, shape", [("dropout1d", (4, 2)), ("dropout3d", (4, 2, 2, 2))])
@pytest.mark.parametrize("training", [True, False])
def test_dropout_of_inputs_without_a_batch(name, shape, training):
    programs = []
    for library in LIBRARIES:
        class Net(library.nn.Module):
            def forward(self, x, drop=getattr(library.nn.functional, name)):
                return drop(x, 0.5, self.training)

        programs.append(library.export.export(Net().train(training), (library.ones(shape),)))
    theirs, ours = ([str(n.target) for n in program.graph.nodes if n.op == "call_function"] for program in programs)
    assert ours == theirs


def _net(library):
    class Net(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = library.nn.Sequential(library.nn.Linear(2, 2), library.nn.ReLU())

        def forward(self, x):
            return self.layers(self.layers(x))

    return library.export.export(Net(), (library.ones(1, 2),))


def test_nodes_say_which_modules_were_called_and_what_they_are_made_from():
    found = []
    for library in LIBRARIES:
        rows = []
        for node in _net(library).module().graph.nodes:
            stack = {k: v for k, v in (node.meta.get("nn_module_stack") or {}).items()}
            sources = [(s.name, s.pass_name, s._get_action_string(), len(s.from_node)) for s in
                       node.meta.get("from_node", ())]
            rows.append((node.op, list(stack), [p for p, _ in stack.values()], sources, "val" in node.meta))
        found.append(rows)
    assert found[1] == found[0]


@pytest.mark.parametrize("name", (
    "clone", "copy_", "add.Scalar", "add_.Scalar", "mul.Scalar", "eq.Scalar", "dropout_", "native_layer_norm", "empty_like",
    "_foreach_add_.Scalar", "full", "square_", "relu_", "addr_", "lstm.input", "batch_norm", "max.dim_max", "div_.Tensor",
))
def test_overloads_have_atens_schemas(name):
    packet, _, overload = name.partition(".")
    theirs, ours = (
        getattr(getattr(library.ops.aten, packet), overload or "default")._schema for library in LIBRARIES
    )
    assert ours.is_mutable == theirs.is_mutable and ours.name == theirs.name
    assert [a.name for a in ours.arguments] == [a.name for a in theirs.arguments]
    assert [a.alias_info is not None and a.alias_info.is_write for a in ours.arguments] == [
        a.alias_info is not None and a.alias_info.is_write for a in theirs.arguments
    ]
    assert [a.kwarg_only for a in ours.arguments] == [a.kwarg_only for a in theirs.arguments]


def test_bounds_that_are_tensors():
    """They are of another overload than numbers."""

    def targets(torch):
        class Bounded(torch.nn.Module):
            def forward(self, x, y):
                x = torch.clamp(x, max=y).clamp_min(y - 1) + x.clamp(0, 1)
                return x.clone().clamp_(min=y).clamp_max_(y + 1).clamp_max(2)

        exported = torch.export.export(Bounded(), (torch.ones(4), torch.ones(4)))
        return [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]

    assert targets(ftorch) == targets(reference)
