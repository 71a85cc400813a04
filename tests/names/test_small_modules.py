"""Small modules that programs import by their paths."""

import importlib
import logging

import pytest
import torch as pt

import ftorch as ft
from ftorch.export import custom_ops
from ftorch.fx.experimental import unify_refinements
from ftorch.fx.experimental.unification import Var, utils
from ftorch.fx.passes.backends.cudagraphs import partition_cudagraphs
from ftorch.fx.tensor_type import TensorType
from ftorch.profiler import python_tracer
from ftorch.utils import debug_log


def test_an_order_of_dependencies():
    from torch.fx.experimental.unification import utils as theirs

    edges = {"a": ["b"], "b": ["c"], "c": []}
    assert utils._toposort(edges) == theirs._toposort(edges)
    for module in (utils, theirs):
        with pytest.raises(ValueError, match="Input has cycles"):
            module._toposort({"a": ["b"], "b": ["a"]})
    assert utils.transitive_get(1, {1: 2, 2: []}) == theirs.transitive_get(1, {1: 2, 2: []}) == []
    assert set(theirs.__all__) == set(utils.__all__)


def test_types_by_unification():
    from torch.fx.experimental import unify_refinements as theirs
    from torch.fx.experimental.unification import Var as TheirVar
    from torch.fx.tensor_type import TensorType as TheirType

    found = []
    for module, make, kind in ((unify_refinements, Var, TensorType), (theirs, TheirVar, TheirType)):
        x, y = make("x"), make("y")
        type_ = [kind((x, 2)), (y, 4), 5]
        found.append(repr(module.substitute_solution_one_type({x: 3, y: 7}, type_)))
    assert found[0] == found[1]

    def shapes(t):
        tracing, kinds = t.fx.experimental.rewriter, t.fx.tensor_type
        refining = t.fx.experimental.unify_refinements
        any_size = kinds.Dyn

        class Convolved(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = t.nn.Conv2d(3, 4, 3, stride=2, padding=1)

            def forward(self, x, y):
                return self.conv(x + y)

        module = Convolved()
        traced = t.fx.GraphModule(module, tracing.RewritingTracer().trace(module), "gm")
        x, y, *_ = traced.graph.nodes
        x.type, y.type = kinds.TensorType((1, 3, any_size, any_size)), kinds.TensorType((any_size, 3, 8, any_size))
        t.fx.experimental.graph_gradual_typechecker.GraphTypeChecker({}, traced).type_check()
        refining.infer_symbolic_types(traced)
        return [str(n.type) for n in traced.graph.nodes]

    for t in (ft, pt):
        for name in ("rewriter", "unify_refinements", "graph_gradual_typechecker"):
            __import__(f"{t.__name__}.fx.experimental.{name}")
        __import__(f"{t.__name__}.fx.tensor_type")
    assert shapes(ft) == shapes(pt)


def test_rewritten_functions_keep_annotations():
    from ftorch.fx.experimental.rewriter import RewritingTracer

    size = (1, 2)

    class Annotated(ft.nn.Module):
        def forward(self, x: TensorType(size)):
            return x + 1

    x, *_ = RewritingTracer().trace(Annotated()).nodes
    assert x.type == TensorType((1, 2))


def test_graphs_without_a_gpu_stay_whole():
    class Module(ft.nn.Module):
        def forward(self, x):
            return x.sin() + 1

    module = ft.fx.experimental.proxy_tensor.make_fx(Module())(ft.ones(2))
    kinds = [n.op for n in partition_cudagraphs(module, (ft.ones(2),)).graph.nodes]
    assert kinds == ["placeholder", "call_function", "call_function", "output"]


def test_folders_of_packages():
    from torch.profiler import python_tracer as theirs

    assert python_tracer._prefix_regex()[0].endswith("/")
    assert set(python_tracer._prefix_regex()) >= set(theirs._prefix_regex()) - set(python_tracer._prefix_regex()[-1:])


def test_norms_of_gradients_are_logged(caplog):
    x, y = ft.ones(4, requires_grad=True), ft.ones(4, requires_grad=True)
    with caplog.at_level(logging.INFO, logger=debug_log.__name__):
        debug_log.debug_grad_log(x, y, ft.ones(2))
        (x * 2 + y * 3).sum().backward()
    assert [r.getMessage() for r in caplog.records] == ["[rank 0][bwd] t0_grad_norm=4.0000 t1_grad_norm=6.0000"]


def test_operators_of_exports():
    for library in (ft, pt):
        op = __import__(f"{library.__name__}.export.custom_ops") and library.ops.export.access_subclass_inner_tensor
        with pytest.raises(AssertionError, match="Expected src_subclass_tensor to be a traceable wrapper subclass"):
            op(library.ones(2, requires_grad=True), "a")
    assert custom_ops._call_custom_autograd_function_in_pre_dispatch(f"{__name__}.Double", ft.ones(1)).item() == 2
    with pytest.raises(AssertionError, match="to have 'apply' method"):
        custom_ops._call_custom_autograd_function_in_pre_dispatch("math.sin", 1)


class Double(ft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


@pytest.mark.parametrize("path", [
    "hub.ENV_GITHUB_TOKEN", "hub.ENV_TORCH_HOME", "hub.ENV_XDG_CACHE_HOME", "hub.DEFAULT_CACHE_DIR", "hub.VAR_DEPENDENCY",
    "hub.MODULE_HUBCONF", "utils.flop_counter.suffixes",
])
def test_constants(path):
    module, _, name = path.rpartition(".")
    ours, theirs = (getattr(importlib.import_module(f"{t}.{module}"), name) for t in ("ftorch", "torch"))
    assert ours == theirs


def test_arguments_of_signatures():
    from torch.export import graph_signature as theirs

    for call in ('SymBoolArgument("b")', 'TokenArgument("t")', 'CustomObjArgument("c", "d")', 'CustomObjArgument("c", "d", 3)'):
        assert repr(eval(f"m.{call}", {"m": ft.export.graph_signature})) == repr(eval(f"m.{call}", {"m": theirs}))


def test_older_helpers_warn():
    found = []
    for t in (ft, pt):
        parallel, layers = (importlib.import_module(f"{t.__name__}.nn.{m}") for m in ("parallel.scatter_gather", "modules.rnn"))
        with pytest.warns(FutureWarning) as seen:
            made = [
                parallel.is_namedtuple(t.ones(2).max(0)), parallel.is_namedtuple(t.return_types.max),
                layers.apply_permutation(t.arange(4).view(2, 2), t.tensor([1, 0])).tolist(),
            ]
        found.append((made, [str(w.message) for w in seen]))
    assert found[0] == found[1]
