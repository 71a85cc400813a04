"""Custom backends: captured calls as graphs of public calls, as PyTorch's backends are given them.

Other than an XLA program (`Captured`) it is run call by call: the backend's function makes the calls, on the
tensors that the function would have read, so gradients, writes and random numbers are those of the calls.
"""

from __future__ import annotations

import re
from typing import Any

from ..._dynamo import exc
from ...eager.tensor import TensorBase
from ...fx import GraphModule
from ...fx._sources import argument_names
from ...nn import Module
from ..capture import guards as _guards
from ..capture.captured_call import CapturedCall, Unsupported
from ..capture.result_recipes import Making, Results
from .call_recorder import Call
from .graph_builder import Builder, Unsayable, input_name
from .python_numbers import Number
from .varying_numbers import inputs_of


class GraphResults(Results):
    """The results of a graph, and what of them the graph gives: ``outputs``."""

    def __init__(self, captured, outputs, leaves):
        self.outputs: list = []
        super().__init__(captured, outputs, leaves, {})

    def _any(self, value, slots):
        if isinstance(value, Number):
            return self.describe(value, slots)
        return super()._any(value, slots)

    def _describe(self, t, slots):
        if isinstance(t, TensorBase):
            if id(t) in self.given:
                return "argument", self.given[id(t)]
            if id(t) in self.captured.sources.of_tensor:
                return "tensor", self.captured.sources.of_tensor[id(t)]
            self._check_class(t)
        self.outputs.append(t)
        return "output", len(self.outputs) - 1


class _GraphMaking(Making):
    __slots__ = ()

    def _fresh(self, how):
        return self.values[how[1]] if how[0] == "output" else super()._fresh(how)


class GraphProgram(CapturedCall):
    """A captured call that a backend's function makes.

    Args:
        recorder: what noted the call; ``names`` what inputs are called (`InputNames`).

    Attributes:
        module: the graph; ``function`` what the backend made of it.

    Raises:
        Unsupported: no graph of calls says what the function does.
    """

    def __init__(self, recorder, trace, watch, leaves, outputs, started, names, grad):
        if recorder.failed is not None:
            raise Unsupported(recorder.failed)
        if trace.grads or any(a[0] != "draw" for a in trace.actions):
            raise Unsupported("gradients or optimizers are part of it")
        super().__init__(trace, watch, leaves, started)
        sources = self.sources
        self._effects(watch)
        self.results = GraphResults(self, outputs, leaves)
        self._rebound({})
        calls = [e for e in recorder.events if isinstance(e, Call)]
        try:
            builder = Builder(
                calls, is_made=self._is_made,
                name_input=lambda t: input_name(names.of(sources.tensor(t))), grad=grad,
                is_read_first=lambda t: id(sources.tensor(t).holder) in names.tables,
                stores=recorder.sites.stores if recorder.sites else (), name_module=names.of_module,
            )
            self.module: GraphModule = builder.module(self.results.outputs)
        except Unsayable as error:
            raise Unsupported(str(error)) from None
        self._calls = len(calls)
        self.takes = [sources.tensor(t) for t in builder.inputs]
        self.inputs = [(None, s.kind, s, None) for s in self.takes]
        self.written = [
            (None, sources.storage(storage), storage) for storage, *_ in trace.before.values()
        ]
        self.guards = _guards.of_watch(watch, self.skipped)
        self._guard_inputs()
        self.function: Any = None
        self.order: list | None = None  # where the function's inputs come from, if some are numbers (`varying_numbers`)
        self.names = names

    @property
    def calls(self) -> int:
        return self._calls

    def _is_made(self, t):
        return not isinstance(t, TensorBase) or (
            id(t) not in self.sources.of_tensor
            and (id(t._ftorch_storage) in self.trace.born or id(t._ftorch_storage) in self.trace.made)
        )

    def attach(self, backend, settings, leaves, varying=None) -> None:
        """Lets a backend make the function of the graph, whose ``varying`` numbers are inputs.

        Raises:
            BackendCompilerFailed: it raises, or gives nothing that can be called.
        """
        examples = [s.get(leaves) for s in self.takes]
        if varying is not None:
            self.module, self.order = varying.module(self.module, self.takes, self.names)
            examples = varying.examples(self.order, examples)
        self.function = call_backend(backend, self.module, examples, settings)

    def take_back(self, graph) -> None:
        """Puts what the recorded call changed back: the backend's function makes that call, too.

        Args:
            graph: where the arguments were in autograd's graph before (`places_in_graph`).
        """
        self.trace.take_back()
        for t, node, number, requires_grad, version in graph:
            if t._grad_fn is not node:
                t._grad_fn, t._ftorch_output_nr = node, number
                t._ftorch_requires_grad, t._ftorch_attr_version = requires_grad, version
        for place, _ in self.rebound:
            place.set(place.value)
        self.rebound = []

    def run(self, originals):
        """Makes a call."""
        inputs = inputs_of(self.order, [s.get(originals) for s in self.takes], originals)
        boxed = getattr(self.function, "_boxed_call", False)
        values = self.function(inputs) if boxed else self.function(*inputs)
        made = _GraphMaking(self, values, originals, originals, None)
        for place, how in self.puts:
            place.set(made(how))
        return self.results.build(made)


def places_in_graph(leaves) -> list[tuple]:
    """Where arguments and their bases are in autograd's graph, for `GraphProgram.take_back`."""
    tensors = {id(t): t for leaf in leaves if isinstance(leaf, TensorBase) for t in (leaf, leaf._base) if t is not None}
    return [(t, t._grad_fn, t._ftorch_output_nr, t._ftorch_requires_grad, t._ftorch_attr_version)
            for t in tensors.values()]


def call_backend(backend, module, examples, settings=None):
    """What a backend makes of a graph, with the ``mode`` and ``options`` that the user gave.

    Raises:
        BackendCompilerFailed: it raises, or gives nothing that can be called.
    """
    try:
        function = backend(module, examples, **(settings or {}))
    except Exception as error:
        raise exc.BackendCompilerFailed(backend, error) from error
    if not callable(function):
        raise exc.BackendCompilerFailed(
            backend, AssertionError("compiler_fn did not return callable")
        )
    return function


# --- names of inputs


class InputNames:
    """PyTorch's names of tensors, by where they are found."""

    def __init__(self, function, args, kwargs, watch):
        self.arguments = argument_names(function, args, kwargs)
        self.tables: dict[int, str] = {}
        module = getattr(function, "__self__", None)
        if isinstance(module, Module):
            code = getattr(type(module).forward, "__code__", None)
            self.add(module, f"L['{code.co_varnames[0] if code is not None else 'self'}']")
        for place in watch.places.values():
            if isinstance(place.value, Module):
                self.add(place.value, self._of_place(place.holder, place.key, place.attribute, place.name))

    @staticmethod
    def _of_place(holder, key, attribute, name):
        if isinstance(holder, dict) and "__builtins__" in holder:
            return f"G['{key}']"
        return f"L['{name if attribute else key}']"

    def add(self, module, path):
        """Names the tensors of a module and of its children."""
        if id(module._parameters) in self.tables:
            return
        self.tables[id(module._parameters)] = f"{path}._parameters"
        self.tables[id(module._buffers)] = f"{path}._buffers"
        for name, child in module._modules.items():
            if child is not None:
                self.add(child, f"{path}._modules['{name}']")

    def of_module(self, module):
        """The name of a module, ``L['self'].blocks.0``, or None."""
        path = self.tables.get(id(module._parameters))
        return None if path is None else re.sub(r"\._modules\['(\w+)'\]", r".\1", path.rpartition(".")[0])

    def of(self, source):
        """The name of a tensor with a source."""
        if source.kind == "argument":
            return self.arguments[source.key]
        table = self.tables.get(id(source.holder))
        if table is not None:
            return f"{table}['{source.key}']"
        if source.kind in ("item", "attribute"):
            return self._of_place(source.holder, source.key, True, source.label or source.key)
        return f"L['{source.name}']"
