"""``torch.export``: the same programs exported by both libraries."""

import copy
import dataclasses
import importlib
import io
import re
import subprocess
import sys

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from ftorch.utils import _pytree as pytree

from ..oracle import array, to_ftorch
from . import programs

# PyTorch's own warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The tensor attribute"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec"),
]


def pair(make, *args, training=False, **kwargs):
    """The same module in both libraries, with the same state."""
    pt.manual_seed(0)
    theirs = make(pt, *args, **kwargs).train(training)
    mine = make(ft, *args, **kwargs).train(training)
    mine.load_state_dict({k: to_ftorch(v.numpy()) for k, v in theirs.state_dict().items()})
    return mine, theirs


def dims(torch, names):
    return ({i: torch.export.Dim(n, max=12 if n == "length" else None) for i, n in enumerate(names)},)


def assert_same(mine, theirs, tolerance=1e-5):
    mine, theirs = pytree.tree_leaves(mine), pt.utils._pytree.tree_leaves(theirs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs):
        if isinstance(b, pt.Tensor):
            assert list(a.shape) == list(b.shape)
            np.testing.assert_allclose(array(a), array(b), atol=tolerance, rtol=tolerance)
        else:
            assert a == b


def message(function):
    with pytest.raises(Exception) as caught:
        function()
    return caught.value


@pytest.fixture(scope="module")
def exported():
    made = {}

    def get(name):
        if name not in made:
            make, example, other, names = programs.MODELS[name]
            mine, theirs = pair(make)
            program = ft.export.export(mine, (example(ft),), dynamic_shapes=dims(ft, names))
            made[name] = program, mine, theirs, example, other
        return made[name]

    return get


@pytest.mark.parametrize("name", programs.MODELS)
def test_module_at_other_sizes(exported, name):
    program, _, theirs, example, other = exported(name)
    module = program.module()
    for make in (example, other):
        assert_same(module(make(ft)), theirs(make(pt)))


@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm"])
def test_graph_has_the_ops_of_pytorch(exported, name):
    _, mine, theirs, example, _ = exported(name)
    program = ft.export.export(mine, (example(ft),))
    expected = pt.export.export(theirs, (example(pt),))

    def called(graph):
        return [str(n.target) for n in graph.nodes if n.op == "call_function"
                and "sym_size" not in str(n.target) and "getitem" not in str(n.target)
                and str(n.target).startswith("aten.")]

    assert called(program.graph) == called(expected.graph)


def test_signature_and_print():
    def make(torch):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 3)
                self.register_buffer("n", torch.zeros(()))
                self.register_buffer("hidden", torch.zeros(()), persistent=False)
                self.factor = torch.ones(3)

            def forward(self, x, options):
                self.n.add_(1)
                out = self.linear(x) * self.factor + self.hidden
                return {"out": out, "rest": [options["k"][0] + 1, 3, None, "s"]}

        return Net()

    mine, theirs = pair(make)
    args = lambda torch: (torch.ones(2, 4), {"k": [torch.ones(2)]})  # noqa: E731
    mine = ft.export.export(mine, args(ft))
    theirs = pt.export.export(theirs, args(pt))
    assert str(mine.graph_signature) == str(theirs.graph_signature)
    for attribute in ("parameters", "buffers", "user_inputs", "user_outputs", "inputs_to_buffers",
                      "inputs_to_parameters", "non_persistent_buffers", "lifted_tensor_constants",
                      "buffers_to_mutate"):
        assert getattr(mine.graph_signature, attribute) == getattr(theirs.graph_signature, attribute)
    assert str(mine.call_spec) == str(theirs.call_spec)
    assert list(mine.state_dict) == list(theirs.state_dict)
    assert list(mine.constants) == list(theirs.constants)

    def text(program):
        return [line for line in str(program).splitlines() if "# File" not in line]

    # The order of independent constants is the traversal's; the text is PyTorch's otherwise.
    assert text(mine) == text(theirs)
    assert mine.module().code == theirs.module().code


def test_writes_reach_buffers_and_inputs():
    mine, theirs = pair(programs.writer, training=True)
    x, y = programs.rows(ft, 3), programs.rows(pt, 3)
    before = {k: v.clone() for k, v in mine.state_dict().items()}
    program = ft.export.export(
        mine, (programs.rows(ft, 2),), dynamic_shapes=({0: ft.export.Dim("n")},)
    )
    for k, v in mine.state_dict().items():
        assert v.equal(before[k])  # exporting changes nothing
    functional = copy.deepcopy(program).run_decompositions()
    expected = theirs(y)
    kinds = [str(s).split(": ")[1] for s in functional.graph_signature.output_specs]
    assert kinds[-3:] == ["USER_OUTPUT"] * 3 and "USER_INPUT_MUTATION target='x'" in kinds
    for made in (program, functional):
        given = x.clone()
        assert_same(made.module()(given), expected, 1e-4)
        assert_same(given, y)
        for name, value in theirs.state_dict().items():
            assert_same(made.state_dict[name], value)
        assert made.constants["count"].item() == 1
        assert not any(n.target._form == "inplace" for n in functional.graph.nodes
                       if hasattr(n.target, "_form"))


def test_decompositions_are_core_ops():
    mine, theirs = pair(programs.cnn)
    mine = ft.export.export(mine, (programs.images(ft),)).run_decompositions()
    theirs = pt.export.export(theirs, (programs.images(pt),)).run_decompositions()

    def called(program):
        names = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
        return {n for n in names if n.startswith("aten.")}

    for op in ("aten.convolution.default", "aten._native_batch_norm_legit_no_training.default",
               "aten.max_pool2d_with_indices.default", "aten.addmm.default", "aten.relu.default"):
        assert op in called(mine) and op in called(theirs)


def guarded(torch):
    module = torch.nn.Linear(4, 3)
    batch = torch.export.Dim("batch", min=2, max=10)
    return torch.export.export(
        module, (torch.ones(2, 4),), dynamic_shapes={"input": {0: batch}}
    ).module()


@pytest.mark.parametrize("call", [
    lambda torch, m: m(torch.ones(2, 5)),
    lambda torch, m: m(torch.ones(11, 4)),
    lambda torch, m: m(torch.ones(2, 4), 3),
    lambda torch, m: m(),
    lambda torch, m: m(3),
    lambda torch, m: m.train(),
])
def test_errors_of_calls(call, capfd):
    mine, theirs = message(lambda: call(ft, guarded(ft))), message(lambda: call(pt, guarded(pt)))
    assert type(mine) is type(theirs) and str(mine) == str(theirs)


def test_program_is_not_called():
    program = ft.export.export(ft.nn.ReLU(), (ft.ones(2),))
    expected = pt.export.export(pt.nn.ReLU(), (pt.ones(2),))
    assert str(message(lambda: program(ft.ones(2)))) == str(message(lambda: expected(pt.ones(2))))


def linear(torch):
    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)


@pytest.mark.parametrize("shapes", [
    lambda torch: ({0: torch.export.Dim("B")}, {}),
    lambda torch: {"z": {0: torch.export.Dim("B")}},
    lambda torch: {"input": {1: torch.export.Dim("B")}},
    lambda torch: {"input": {1: torch.export.Dim.DYNAMIC}},
])
def test_errors_of_dynamic_shapes(shapes):
    def run(torch):
        module, args = linear(torch)
        return message(lambda: torch.export.export(module, args, dynamic_shapes=shapes(torch)))

    mine, theirs = run(ft), run(pt)
    assert type(mine).__name__ == type(theirs).__name__
    mine, theirs = (re.sub(r"\sFor more information about this error, see: \S+", "", str(e)) for e in (mine, theirs))
    assert mine == theirs


def test_errors_of_arguments():
    for wrong in (lambda torch: torch.export.export(lambda x: x, (torch.ones(1),)),
                  lambda torch: torch.export.export(torch.nn.ReLU(), torch.ones(1)),
                  lambda torch: torch.export.Dim("B", min=3, max=2)):
        mine, theirs = message(lambda: wrong(ft)), message(lambda: wrong(pt))  # noqa: B023
        assert type(mine).__name__ == type(theirs).__name__
        shown = str(mine).replace("ftorch.", "torch.").replace("torch.eager.tensor", "torch")
        assert shown.partition("got")[0] == str(theirs).partition("\n")[0].partition("got")[0]


def test_data_dependent_control_flow():
    class Net(ft.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    error = message(lambda: ft.export.export(Net(), (ft.ones(2),)))
    assert type(error).__name__ == "GuardOnDataDependentSymNode"
    assert "Could not guard on data-dependent expression Eq(u0, 1)" in str(error)
    assert "test_export.py" in str(error)


def test_control_flow_on_sizes_is_found_out():
    class Net(ft.nn.Module):
        def forward(self, x):
            return x.sin() if x.shape[0] > 4 else x.cos()

    batch = {0: ft.export.Dim("B")}
    error = message(lambda: ft.export.export(Net(), (ft.ones(3),), dynamic_shapes=(batch,)))
    assert "Constraints violated (B)" in str(error)


class Sizes(ft.nn.Module):
    """Many ways to use a size."""

    def forward(self, x, y):
        n, m = x.shape
        return (
            x.reshape(n * m), x.view(m, n).expand(2, m, n), ft.zeros(n, 2 * m + 1), ft.arange(n) + m,
            x / n, x * (1 / m**0.5), x[: n - 1], x.flatten() @ y, ft.cat([x, x]).mean(), n, m * 2,
            ft.nn.functional.pad(x, (0, m)), x.repeat(2, 1), ft.full_like(x, n),
        )


def test_expressions_of_sizes():
    d = ft.export.Dim
    n, m = d("n", max=40), d("m")
    class Two(Sizes):
        def forward(self, x):
            return super().forward(x, x.flatten())

    program = ft.export.export(Two(), (ft.randn(3, 4),), dynamic_shapes={"x": {0: n, 1: m}})
    for shape in ((3, 4), (7, 2)):
        x = ft.randn(*shape)
        for a, b in zip(program.module()(x), Two()(x)):
            if isinstance(b, int):
                assert a == b
            else:
                assert a.shape == b.shape and ft.allclose(a.double(), b.double())
    assert [str(r) for r in program.range_constraints.values()] == ["VR[0, 40]", "VR[0, int_oo]"]


def test_automatic_and_derived_sizes():
    class Add(ft.nn.Module):
        def forward(self, x, y):
            return x + y[1:]

    x, y = ft.randn(3, 4), ft.randn(4, 4)
    n = ft.export.Dim("n")
    program = ft.export.export(Add(), (x, y), dynamic_shapes=({0: n}, {0: n + 1}))
    assert program.module()(ft.randn(6, 4), ft.randn(7, 4)).shape == (6, 4)
    error = message(lambda: program.module()(ft.randn(6, 4), ft.randn(8, 4)))
    assert "Guard failed: y.size()[0] == x.size()[0] + 1" in str(error)

    auto = ft.export.Dim.AUTO
    both = ft.export.export(
        ft.nn.Linear(4, 2), (x,), dynamic_shapes=({0: auto, 1: auto},)
    )
    assert len(both.range_constraints) == 1  # the features are constant


@dataclasses.dataclass
class Point:
    x: ft.Tensor
    y: ft.Tensor


def test_dataclasses_kwargs_and_constants():
    ft.export.register_dataclass(Point)

    class Net(ft.nn.Module):
        def forward(self, point, *, scale=1.0, flag=True):
            return Point(point.x * scale, point.y + 1 if flag else point.y)

    args = (Point(ft.ones(2), ft.zeros(3)),)
    program = ft.export.export(Net(), args, {"scale": 2.0, "flag": False})
    out = program.module()(*args, flag=False, scale=2.0)
    assert isinstance(out, Point) and out.x.tolist() == [2.0, 2.0] and out.y.tolist() == [0.0] * 3
    error = message(lambda: program.module()(*args, scale=3.0, flag=False))
    assert "Guard failed: scale == 2.0" in str(error)


def test_tied_parameters_and_gradients():
    class Tied(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = ft.nn.Linear(3, 3)
            self.b = self.a

        def forward(self, x):
            return self.b(self.a(x)).sum()

    model = Tied()
    program = ft.export.export(model, (ft.ones(2, 3),))
    program.module()(ft.ones(2, 3)).backward()
    mine = model.a.weight.grad.clone()
    model.a.weight.grad = None
    model(ft.ones(2, 3)).backward()
    assert ft.allclose(mine, model.a.weight.grad)


# --- files


@pytest.mark.parametrize("name", programs.MODELS)
def test_files_are_read_by_both(exported, name, tmp_path):
    program, _, theirs, _, other = exported(name)
    path = tmp_path / "program.pt2"
    ft.export.save(program, path, extra_files={"note": "hello"})
    notes = {"note": ""}
    read = ft.export.load(path, extra_files=notes)
    assert notes == {"note": "hello"}
    assert str(read.graph_signature) == str(program.graph_signature)
    assert str(read.range_constraints) == str(program.range_constraints)
    expected = theirs(other(pt))
    assert_same(read.module()(other(ft)), expected)
    by_pytorch = pt.export.load(path)
    assert_same(program.module()(other(ft)), by_pytorch.module()(other(pt)))


@pytest.mark.parametrize(
    ("name", "decomposed"), [("cnn", True), ("lstm", False), ("transformer", False)]
)
def test_files_of_pytorch(name, decomposed, tmp_path):
    make, example, other, names = programs.MODELS[name]
    _, theirs = pair(make)
    if name == "lstm":  # PyTorch unrolls it
        names, other = names[:1], lambda torch: programs.tokens(torch, 3, 5)
    program = pt.export.export(theirs, (example(pt),), dynamic_shapes=dims(pt, names))
    if decomposed:
        program = program.run_decompositions()
    path = tmp_path / "program.pt2"
    pt.export.save(program, path)
    mine = ft.export.load(path)
    assert str(mine.graph_signature) == str(program.graph_signature)
    for make_input in (example, other):
        assert_same(mine.module()(make_input(ft)), theirs(make_input(pt)))


def test_file_of_pytorch_with_writes_and_control_flow(tmp_path):
    class Net(pt.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = pt.nn.BatchNorm1d(4)

        def forward(self, x, options):
            with pt.no_grad():
                y = x * 2
            z = pt.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (y,))
            return self.norm(z) + options["bias"][: x.shape[0]]

    model = Net()
    args = (pt.ones(3, 4), {"bias": pt.ones(9, 1)})
    program = pt.export.export(model, args, dynamic_shapes=({0: pt.export.Dim("n", max=9)}, {"bias": None}))
    path = tmp_path / "program.pt2"
    pt.export.save(program, path)
    mine = ft.export.load(path)
    for sign in (1, -1):
        x = pt.linspace(-1, 1, 20).reshape(5, 4) + sign
        given = to_ftorch(x.numpy()), {"bias": ft.ones(9, 1)}
        assert_same(mine.module()(*given), model(x, args[1]))
    for key, value in model.state_dict().items():
        assert_same(mine.state_dict[key], value)


def test_file_with_an_unknown_op(tmp_path):
    program = pt.export.export(pt.nn.ReLU(), (pt.ones(2),))
    buffer = io.BytesIO()
    pt.export.save(program, buffer)
    data = buffer.getvalue().replace(b"aten.relu.default", b"aten.rexx.default")
    with pytest.raises(RuntimeError, match="rexx"):
        ft.export.load(io.BytesIO(data))
    with pytest.raises(RuntimeError):
        ft.export.load(io.BytesIO(b"no archive"))


# --- other forms

_ALONE = """
import sys
import jax, numpy
from jax import export
program = export.deserialize(open(sys.argv[1], "rb").read())
for path in sys.argv[2:]:
    numpy.save(path + ".out.npy", jax.tree.leaves(program.call(numpy.load(path)))[0])
assert "ftorch" not in sys.modules and "torch" not in sys.modules
"""


def test_stablehlo_runs_without_ftorch(exported, tmp_path):
    program, _, theirs, example, other = exported("cnn")
    path = tmp_path / "program.bin"
    ft.export.save_stablehlo(program, path)
    files = []
    for i, make in enumerate((example, other)):
        files.append(str(tmp_path / f"{i}.npy"))
        np.save(files[-1], make(ft).numpy())
    subprocess.run([sys.executable, "-c", _ALONE, str(path), *files], check=True)
    for file, make in zip(files, (example, other)):
        np.testing.assert_allclose(
            np.load(file + ".out.npy"), array(theirs(make(pt))), atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("name", ["mlp", "lstm", "transformer"])
def test_stablehlo(exported, name):
    import jax

    program, _, theirs, example, other = exported(name)
    called = jax.export.deserialize(bytearray(program.to_stablehlo())).call
    for make in (example, other):
        with jax.enable_x64(True):  # tokens are int64
            got = jax.tree.leaves(called(make(ft).numpy()))
        for a, b in zip(got, pt.utils._pytree.tree_leaves(theirs(make(pt)))):
            np.testing.assert_allclose(np.asarray(a), array(b), atol=1e-5, rtol=1e-4)


def test_stablehlo_of_functions_that_stand_for_kernels():
    import jax

    def forward(torch, x):
        F = torch.nn.functional
        return (
            F.smooth_l1_loss(x, x * 3), F.kl_div(x, x.sigmoid(), reduction="sum"),
            F.binary_cross_entropy_with_logits(x, x.sigmoid(), reduction="none"),
            x.index_fill(0, torch.tensor([1]), 2.0),
        )

    class Net(ft.nn.Module):
        def forward(self, x):
            return forward(ft, x)

    program = ft.export.export(Net(), (ft.arange(3.0),))
    call = jax.export.deserialize(bytearray(program.to_stablehlo())).call
    assert_same(list(map(to_ftorch, map(np.asarray, call(np.arange(3, dtype=np.float32))))),
                list(forward(pt, pt.arange(3.0))))


@pytest.mark.parametrize("name", ["resnet", "lstm", "transformer"])
def test_unflatten(exported, name):
    program, mine, theirs, _, other = exported(name)
    tree = ft.export.unflatten(program)
    assert_same(tree(other(ft)), theirs(other(pt)))
    assert sorted(tree.state_dict()) == sorted(mine.state_dict())
    kinds = [n for n, _ in mine.named_modules()]
    assert {n.partition("@")[0] for n, _ in tree.named_modules()} <= set(kinds)


def test_fake_tensors():
    from ftorch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        x = mode.from_tensor(ft.ones(2, 3))
        y = ft.nn.functional.linear(x, ft.ones(5, 3)).relu()
        z = ft.zeros(4, 2) @ y
    assert (z.shape, z.dtype, z.device) == ((4, 5), ft.float32, ft.device("cpu"))
    with pytest.raises(Exception, match="_local_scalar_dense"):
        z.sum().item()


def test_symbolic_sizes():
    from ftorch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    batch = env.create_symint(4, lower=2, upper=64)
    length = env.create_symint(7)
    size = 2 * batch + length // 3 - 1
    assert int(size) == 9 and env.evaluate(size, {"s0": 10, "s1": 9}) == 22
    assert size > 3 and batch != length
    assert env.holds({"s0": 5, "s1": 7}) and not env.holds({"s0": 7, "s1": 7})
    assert str(env.var_to_range) == "{'s0': VR[2, 64], 's1': VR[0, int_oo]}"


def test_training_on_an_exported_module():
    mine, theirs = pair(programs.cnn, training=True)
    for m in (*mine.modules(), *theirs.modules()):
        if type(m).__name__ == "Dropout":
            m.p = 0.0
    module = ft.export.export_for_training(mine, (programs.images(ft),)).module()
    optimizers = ft.optim.SGD(module.parameters(), 0.1), pt.optim.SGD(theirs.parameters(), 0.1)
    for _ in range(2):
        losses = []
        for torch, m, o in ((ft, module, optimizers[0]), (pt, theirs, optimizers[1])):
            o.zero_grad()
            loss = m(programs.images(torch)).square().mean()
            loss.backward()
            o.step()
            losses.append(loss)
        assert_same(*losses)
    for k, v in theirs.state_dict().items():
        assert_same(mine.state_dict()[k], v)


@pytest.mark.parametrize("function", [
    lambda x: x + 1 if x.shape[0] > 3 else x - 1,
    lambda x: x.new_zeros(5) if x.shape[0] > 35 else x.new_zeros(6),
])
def test_branches_on_sizes_far_from_the_examples(function):
    for torch in (ft, pt):
        class Branches(torch.nn.Module):
            def forward(self, x):
                return function(x)

        with pytest.raises(Exception, match=r"Constraints violated \(B\)"):
            torch.export.export(
                Branches(), (torch.ones(4, 3),), dynamic_shapes=({0: torch.export.Dim("B")},)
            )


def test_a_rounding_that_nearby_sizes_do_not_show():
    class Third(ft.nn.Module):
        def forward(self, x):
            return x.new_zeros(-(-x.shape[0] // 3))

    program = ft.export.export(
        Third(), (ft.ones(4),), dynamic_shapes=({0: ft.export.Dim("B")},)
    ).module()
    assert [len(program(ft.ones(n))) for n in range(2, 10)] == [-(-n // 3) for n in range(2, 10)]


def test_tables_of_decompositions():
    def graphs(torch):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(3, 3)

            def forward(self, x):
                return torch.nn.functional.gelu(self.inner(x))

        aten, program = torch.ops.aten, torch.export.export(Net(), (torch.ones(2, 3),))
        whole = torch.export.default_decompositions()
        assert isinstance(whole, torch.export.CustomDecompTable) and type(whole.copy()) is type(whole)
        assert type(whole.materialize()) is dict and aten.linear.default in whole
        with pytest.raises(KeyError):
            whole.pop(aten.add.Tensor)
        without = whole.copy()
        without.pop(aten.linear.default)
        doubles = {aten.gelu.default: lambda x, approximate="none": x * 2}
        return [program.run_decompositions(t).graph_module.code for t in (None, whole, without, {}, doubles)]

    assert graphs(ft) == graphs(pt)


def test_what_is_computed_without_gradients():
    found = []
    for torch in (ft, pt):
        class Net(torch.nn.Module):
            def forward(self, x):
                with torch.no_grad():
                    y, i = (x * 2).exp(), x.argmax()
                return y * x + x[i]

        program = torch.export.export(Net(), (torch.ones(3),))
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        program.module()(x).sum().backward()
        with torch.no_grad():
            plain = torch.export.export(Net(), (torch.ones(3),))
        found.append((array(x.grad).tolist(), [n.name for n in plain.graph.nodes if "detach" in n.name]))
    assert found[0][1] == found[1][1] == []
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)


def test_keywords_that_are_missing_or_unknown():
    class Net(ft.nn.Module):
        def forward(self, x, *, y):
            return x + y

    class Theirs(pt.nn.Module):
        def forward(self, x, *, y):
            return x + y

    for options in ({}, {"y": 1, "z": 2}):
        said = []
        for torch, net in ((ft, Net()), (pt, Theirs())):
            program = torch.export.export(net, (torch.ones(2),), {"y": torch.ones(2)})
            given = {k: torch.ones(2) for k in options}
            said.append(str(message(lambda: program.module()(torch.ones(2), **given))))
        assert said[0] == said[1]


def test_moved_to_another_device():
    importlib.import_module("torch.export.passes")

    found = []
    for torch in (ft, pt):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.constant = torch.nn.Linear(2, 3), torch.ones(3)

            def forward(self, x):
                return self.linear(x) + self.constant

        program = torch.export.passes.move_to_device_pass(
            torch.export.export(Net(), (torch.ones(1, 2),)), "meta"
        )
        found.append([
            {k: (str(v.device), v.requires_grad) for k, v in program.state_dict.items()},
            [str(v.device) for v in program.constants.values()],
            [str(n.meta["val"].device) for n in program.graph.nodes if n.op == "call_function"],
        ])
    assert found[0] == found[1]
