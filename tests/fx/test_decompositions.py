"""``torch._decomp`` and ``torch._functorch.aot_autograd``."""

import pytest
import torch as pt

import ftorch as ft
from ftorch._decomp import (
    core_aten_decompositions,
    decomposition_table,
    get_decompositions,
    register_decomposition,
)
from ftorch._functorch.aot_autograd import aot_function, aot_module, aot_module_simplified
from ftorch._functorch.compilers import memory_efficient_fusion, nop, print_compile
from ftorch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from ftorch.fx.experimental.proxy_tensor import make_fx

aten = ft.ops.aten


def _arguments():
    """{op: arguments} of every op in the table."""
    ft.manual_seed(0)
    x, y, m = ft.randn(4, 6) * 3, ft.randn(4, 6), ft.randn(6, 5)
    v, p, b = ft.randn(6), ft.rand(4, 6), ft.randn(2, 4, 6)
    of_one = "silu mish softplus leaky_relu elu hardtanh hardsigmoid hardswish glu log_sigmoid square frac"
    found = {getattr(aten, n).default: [(x,)] for n in of_one.split()}
    return found | {
        aten.gelu.default: [(x,), (x, {"approximate": "tanh"})],
        aten.threshold.default: [(x, 0.5, 2.0)], aten.logit.default: [(p,), (p, 0.1)],
        aten.addmm.default: [(ft.randn(4, 5), x, m), (ft.randn(5), x, m, {"beta": 0, "alpha": 2})],
        aten.addmv.default: [(ft.randn(4), x, v, {"beta": 3})],
        aten.baddbmm.default: [(ft.randn(2, 4, 5), b, ft.randn(2, 6, 5), {"alpha": 0.5})],
        aten.linear.default: [(x, ft.randn(3, 6), ft.randn(3)), (b, ft.randn(3, 6))],
        aten.addcmul.default: [(x, y, y, {"value": 2})],
        aten.addcdiv.default: [(x, y, p + 1, {"value": 2})],
        aten.lerp.Scalar: [(x, y, 0.3)], aten.lerp.Tensor: [(x, y, p)],
        aten.rsub.Scalar: [(x, 2, 3)], aten.rsub.Tensor: [(x, y)],
        aten.xlogy.Tensor: [(ft.tensor([0.0, 1, 2]), ft.tensor([0.0, 0, 3]))],
        aten.dot.default: [(v, v)], aten.softmax.int: [(x, 1), (x, 0, ft.float64)],
        aten.log_softmax.int: [(x, -1)],
        aten.layer_norm.default: [(x, [6]), (b, [4, 6], ft.randn(4, 6), ft.randn(4, 6))],
        aten.mse_loss.default: [(x, y), (x, y, 0)],
        aten.huber_loss.default: [(x, y, 2, 0.5)], aten.smooth_l1_loss.default: [(x, y)],
    }


def test_every_formula_is_its_op():
    arguments = _arguments()
    assert set(arguments) == set(decomposition_table)
    for op, calls in arguments.items():
        for args in calls:
            kwargs = args[-1] if isinstance(args[-1], dict) else {}
            args = args[: len(args) - bool(kwargs)]
            found, expected = decomposition_table[op](*args, **kwargs), op(*args, **kwargs)
            assert found.dtype is expected.dtype and found.shape == expected.shape, op
            assert ft.allclose(found, expected, 1e-4, 1e-5, equal_nan=True), op


def test_tables():
    names = lambda table: sorted(str(op) for op in table if not str(op).endswith("out"))  # noqa: E731
    for m in (pt, ft):
        ops = [m.ops.aten.silu, m.ops.aten.addmm.default, m.ops.aten.mm]
        get = pt._decomp.get_decompositions if m is pt else get_decompositions
        assert names(get(ops)) == ["aten.addmm.default", "aten.silu.default"]
    assert aten.silu.default in core_aten_decompositions()
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.silu.default"):
        register_decomposition(aten.silu)(lambda x: x)
    with pytest.raises(AssertionError, match="expected OpOverloadPacket, got <class 'int'>"):
        register_decomposition(3, {})(lambda x: x)
    graph = make_fx(ft.nn.functional.silu, get_decompositions([aten.silu]))(ft.ones(2)).graph
    assert [str(n.target) for n in graph.nodes if n.op == "call_function"] == [
        "aten.sigmoid.default", "aten.mul.Tensor"]


def _inputs_and_ops(gm):
    return [n.name for n in gm.graph.find_nodes(op="placeholder")]


def test_aot_function():
    seen = []

    def compiler(gm, inputs):
        seen.append((_inputs_and_ops(gm), gm.code))
        return nop(gm, inputs)

    table = get_decompositions([aten.silu])
    call = aot_function(lambda x, y: (ft.nn.functional.silu(x) * y).sum(), compiler, compiler,
                        decompositions=table)
    x, y = ft.randn(3, requires_grad=True), ft.randn(3)
    call(x, y).backward()
    expected, = ft.autograd.grad((ft.nn.functional.silu(x) * y).sum(), x)
    assert ft.allclose(x.grad, expected) and len(seen) == 2
    assert seen[0][0] == ["primals_1", "primals_2"] and "aten.sigmoid" in seen[0][1]
    with ft.no_grad():
        call(x, y)
    assert len(seen) == 2  # as PyTorch's: the graphs of the first call
    call(ft.randn(2), ft.randn(2))
    assert seen[2][0] == ["arg0_1", "arg1_1"]


def test_aot_module(capsys):
    net = ft.nn.Linear(3, 2)
    compiled = aot_module(net, print_compile, nop)
    assert [n for n, _ in compiled.named_parameters()] == ["orig_module.weight", "orig_module.bias"]
    x = ft.randn(4, 3)
    compiled(x).sum().backward()
    assert ft.allclose(net.weight.grad, x.sum(0).expand(2, 3)) and "addmm" in capsys.readouterr().out
    within = ft.compile(net, backend=lambda gm, inputs: aot_module_simplified(gm, inputs, nop))
    assert ft.allclose(within(x), net(x))
    assert ft.allclose(memory_efficient_fusion(ft.sin)(x), x.sin())


@pytest.mark.parametrize("partition, saved", [
    (default_partition, 3), (min_cut_rematerialization_partition, 2),
])
def test_partitions(partition, saved):
    class Joint(ft.nn.Module):
        def forward(self, primals_1, tangents_1):
            a = aten.sin.default(primals_1)
            b = aten.exp.default(a)
            return [b, tangents_1 * b * aten.cos.default(primals_1) * a]

    x = ft.randn(3)
    forward, backward = partition(ft.fx.symbolic_trace(Joint()), None, num_fwd_outputs=1)
    result, *kept = forward(x)
    assert ft.allclose(result, x.sin().exp()) and len(kept) == saved
    expected = x.sin().exp() * x.cos() * x.sin()
    assert ft.allclose(backward(*kept, ft.ones(3))[0], expected)
