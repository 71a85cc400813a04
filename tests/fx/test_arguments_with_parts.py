"""Tracing with arguments of classes that have parts, compiled modules in what is traced, and what stays without a user."""

import torch as reference

import ftorch


def test_classes_that_were_registered():
    def told(t):
        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b

        pytree, specs = t.utils._pytree, t.fx._pytree
        pytree.register_pytree_node(Pair, lambda x: ([x.a, x.b], None), lambda parts, _: Pair(*parts))
        specs.register_pytree_flatten_spec(Pair, lambda x, spec: [x.a, x.b])
        PH, found = t.fx.PH, []
        for function, given in ((lambda x: x.a + x.b, Pair(PH, PH)), (lambda x: x.a * x.b, Pair(PH, 3)),
                                (lambda x: sum(x.a) + x.b, Pair([PH, PH], PH)), (lambda x: Pair(x.b, x.a), Pair(PH, PH))):
            values = pytree.tree_map(lambda leaf: t.ones(2) if leaf == PH else leaf, given)
            traced = t.fx.symbolic_trace(function, concrete_args={"x": given})
            made = traced(values)
            found.append(([n.name for n in traced.graph.nodes], type(made).__name__, traced.code,
                          [leaf.tolist() for leaf in pytree.tree_leaves(made)], type(traced.graph._codegen).__name__))
        return found

    assert told(ftorch) == told(reference)


def test_a_compiled_module_inside():
    def told(t):
        class Inner(t.nn.Module):
            def forward(self, x):
                return t.relu(x)

        class Outer(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = t.jit.script(Inner())

            def forward(self, x):
                return self.inner(x) + 1

        traced = t.fx.symbolic_trace(Outer())
        return [(n.op, str(n.target) if n.op != "call_function" else "", str(n.args)) for n in traced.graph.nodes], traced(
            t.tensor([-1., 2.])).tolist()

    assert told(ftorch) == told(reference)


def test_ranges_of_the_profiler_stay():
    def told(t):
        graph = t.fx.Graph()
        handle = graph.call_function(t.ops.profiler._record_function_enter_new, ("range",))
        graph.call_function(t.ops.profiler._record_function_exit, (handle,))
        graph.call_function(t.relu, (handle,))
        graph.output(None)
        graph.eliminate_dead_code()
        return [str(n.target) for n in graph.nodes]

    assert told(ftorch) == told(reference)


def test_equations_of_sizes_are_equal_by_their_sides():
    def told(t):
        from importlib import import_module

        equality = import_module(f"{t.__name__}.fx.experimental.refinement_types").Equality
        return equality(1, 2) == equality(1, 2), equality(1, 2) == equality(2, 1), repr(equality(1, 2))

    assert told(ftorch) == told(reference)


def test_methods_to_record_are_called_where_nothing_is_traced():
    def told(t):
        from importlib import import_module

        methods = import_module(f"{t.__name__}.fx._symbolic_trace")._wrapped_methods_to_patch
        methods.append((t.Tensor, "select"))  # to set an item's method makes tensors sequences in C for good
        try:
            traced = t.fx.symbolic_trace(lambda x: t.ones(3).select(0, 0) + x)
        finally:
            methods.pop()
        return [n.op for n in traced.graph.nodes], traced(t.ones(1)).tolist()

    assert told(ftorch) == told(reference)
