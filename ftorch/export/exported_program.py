"""``ExportedProgram``: a graph of ATen ops, what its inputs and outputs are, and its state."""

from __future__ import annotations

import copy
import types
from dataclasses import dataclass, field
from typing import Any

from .._ops import ops
from ..eager.core.geometry import Size
from ..eager.tensor import TensorBase
from ..fx import _node_source
from ..fx._codegen import PyTreeCodeGen, PyTreeInfo
from ..fx.experimental.symbolic_shapes import Expr, SymInt
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule, _assign_attr
from ..nn import Module, Parameter
from ..utils import _pytree as pytree
from ._guard_code import size_guards
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    OutputKind,
)


@dataclass
class ModuleCallSignature:
    """The inputs and outputs of a module's call, and their structures."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A module that was called, by its path; its signature where it was asked for."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclass
class CallSpec:
    """The structures of the arguments and of the result."""

    in_spec: Any
    out_spec: Any


class GuardsFn(Module):
    """Compares inputs with what the program was exported for."""

    def __init__(self, checks):
        super().__init__()
        self.checks = checks

    def forward(self, *inputs):
        for check in self.checks:
            check(inputs)


@dataclass
class SizeCheck:
    """One input's shape or value."""

    name: str
    position: int
    shape: tuple | None = None
    value: Any = None
    symbols: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> (input, dim)
    names: list[str] = field(default_factory=list)
    ranges: dict[str, tuple] = field(default_factory=dict)

    def __call__(self, inputs):
        given = inputs[self.position]
        if self.shape is None:
            if given != self.value:
                raise AssertionError(f"Guard failed: {self.name} == {self.value!r}")
            return
        if not isinstance(given, TensorBase):
            raise AttributeError(f"'{type(given).__name__}' object has no attribute 'size'")
        shape = given.shape
        if len(shape) != len(self.shape):
            raise AssertionError(f"Guard failed: {self.name}.dim() == {len(self.shape)}")
        for i, wanted in enumerate(self.shape):
            size = f"{self.name}.size()[{i}]"
            if not isinstance(wanted, SymInt):
                if shape[i] != wanted:
                    raise AssertionError(f"Guard failed: {size} == {wanted}")
            else:
                self._symbolic(size, shape[i], wanted.expr, inputs)

    def _symbolic(self, size, n, expr: Expr, inputs):
        values, shown = {}, str(expr)
        for symbol in expr.free_symbols:
            if symbol not in self.symbols:
                return
            position, dim = self.symbols[symbol]
            values[symbol] = inputs[position].shape[dim]
            shown = shown.replace(symbol, f"{self.names[position]}.size()[{dim}]")
        if expr.evaluate(values) != n:
            raise AssertionError(f"Guard failed: {size} == {shown}")
        if expr.kind != "symbol":
            return
        low, high = self.ranges.get(str(expr), (0, float("inf")))
        if n > high:
            raise AssertionError(f"Guard failed: {size} <= {high}")
        if n < low and low > 2:
            raise AssertionError(f"Guard failed: {size} >= {low}")


    def expect(self, inputs, places, known):
        """Compares an input with the example, in the words of modules that are unflattened.

        Args:
            places: how users give each input, ``*args[0]``.
            known: the sizes that inputs before this one have.

        Raises:
            RuntimeError: it is not as it has to be.
        """
        given, place = inputs[self.position], places[self.position]
        if self.shape is None:
            if given != self.value:
                raise RuntimeError(f"Expected input at {place} to be equal to {self.value}, but got {given}")
            return
        if len(given.shape) != len(self.shape):
            raise RuntimeError(
                f"Unexpected number of dimensions in input at {place}.shape (expected {Size(self.shape)}, got {given.shape})"
            )
        for i, (n, wanted) in enumerate(zip(given.shape, self.shape)):
            start = f"Expected input at {place}.shape[{i}] to be"
            if not isinstance(wanted, SymInt):
                if n != wanted:
                    raise RuntimeError(
                        f"{start} equal to {wanted}, but got {n}. If you meant for this dimension to be dynamic, please "
                        "re-export and specify dynamic_shapes (e.g. with Dim.DYNAMIC)"
                    )
                continue
            if wanted.expr.kind == "symbol":
                expected = known.setdefault(str(wanted.expr), n)
            else:
                expected = wanted.expr.evaluate(known) if wanted.expr.free_symbols <= known.keys() else n
            if n != expected:
                raise RuntimeError(f"{start} equal to {expected}, but got {n}")
            low, high = self.ranges.get(str(wanted.expr), (0, float("inf")))
            if n < low and low > 2:
                raise RuntimeError(f"{start} >= {low}, but got {n}")
            if n > high:
                raise RuntimeError(f"{start} <= {high}, but got {n}")


class _CodeGen(PyTreeCodeGen):
    """A signature with the module's own parameter names."""

    def __init__(self, names, keywords, in_spec, out_spec):
        super().__init__(PyTreeInfo(["self", *names, *keywords], in_spec, out_spec))
        self.names, self.keywords = names, keywords

    def process_inputs(self, *args, **kwargs):
        return pytree.tree_leaves((args, kwargs))

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        names = ["self", *self.names, *self.keywords]
        head = f"def forward({', '.join(names)}){maybe_return_annotation}:"
        if not free_vars:
            return head
        left = "".join(f"{v.split(' : ')[0].split(': ')[0].split(' = ')[0]}, " for v in free_vars)
        named = ", ".join(f"{k!r}:{k}" for k in self.keywords)
        return (
            f"{head}\n    {left}= fx_pytree.tree_flatten_spec(([{', '.join(self.names)}], "
            f"{{{named}}}), self._in_spec)"
        )


class ExportedProgram:
    """An exported module. Made by `ftorch.export.export` and `ftorch.export.load`.

    Attributes:
        graph_module, graph: ATen ops; placeholders for parameters, buffers, constants, inputs.
        graph_signature: what placeholders and outputs are.
        state_dict: the parameters and persistent buffers.
        constants: the other tensors, by name.
        range_constraints: the symbols and their ranges.
        example_inputs: (args, kwargs) that it was exported with.
        module_call_graph: the modules that were called.

    >>> import ftorch as torch
    >>> class Scale(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> print(torch.export.export(Scale(), (torch.ones(3),)).graph_module.code.strip())
    def forward(self, x):
        mul = torch.ops.aten.mul.Tensor(x, 2);  x = None
        return (mul,)
    """

    def __init__(self, root, graph: Graph, graph_signature: ExportGraphSignature, state_dict,
                 range_constraints, module_call_graph, example_inputs=None, constants=None, *,
                 verifiers=None):
        # A copied graph may have given names that are Python's another form.
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, graph_signature.input_specs):
            node.name = spec.arg.name
        self._graph_module = GraphModule(root if root is not None else Module(), graph)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = constants or {}
        self._is_functional = False
        self._guards_code: list[str] = []

    graph_module = property(lambda self: self._graph_module)
    graph = property(lambda self: self._graph_module.graph)
    graph_signature = property(lambda self: self._graph_signature)
    state_dict = property(lambda self: self._state_dict)
    constants = tensor_constants = property(lambda self: self._constants)
    range_constraints = property(lambda self: self._range_constraints)
    module_call_graph = property(lambda self: self._module_call_graph)
    dialect = property(lambda self: "ATEN" if self._is_functional else "TRAINING")
    verifiers = verifier = property(lambda self: None)

    @property
    def example_inputs(self):
        """(args, kwargs) of the export."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        if value is not None and not (isinstance(value, tuple) and len(value) == 2):
            raise ValueError(
                "Example inputs should be a tuple containing example arguments (as a tuple), and "
                "example kwargs (as a dictionary)."
            )
        self._example_inputs = value

    @property
    def call_spec(self) -> CallSpec:
        """The structures of the arguments and of the result."""
        signature = self._module_call_graph[0].signature
        return CallSpec(signature.in_spec, signature.out_spec)

    # --- state

    def parameters(self):
        """The parameters, in the order of the signature."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self):
        """(name, parameter) pairs."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self):
        """The buffers, in the order of the signature."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self):
        """(name, buffer) pairs."""
        hidden = self.graph_signature.non_persistent_buffers
        for name in self.graph_signature.buffers:
            yield name, (self.constants if name in hidden else self.state_dict)[name]

    def _tensor_of(self, spec):
        if spec.kind is InputKind.CONSTANT_TENSOR or spec.target in (
            self.graph_signature.non_persistent_buffers
        ):
            return self.constants[spec.target]
        return self.state_dict[spec.target]

    # --- calls

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. "
            "You should use `exported_program.module()` instead."
        )

    def _user_specs(self):
        return [s for s in self.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]

    def _argument_names(self):
        """(positional names, keyword names) of the module's own signature."""
        signature = self._module_call_graph[0].signature
        args, kwargs = (spec for spec in signature.in_spec.children())
        keywords = list(kwargs.context)
        names = list(signature.forward_arg_names or ())[: args.num_children]
        names += [f"arg{i}" for i in range(len(names), args.num_children)]
        return names, keywords

    def module(self, check_guards: bool = True) -> Module:
        """A module that runs the program on the program's own parameters and buffers.

        It checks the sizes of its inputs, writes buffers and inputs as the original does, and takes
        and returns what the original does.

        Raises:
            AssertionError: (when called) an input has another size than the program is for.
            ValueError: (when called) the arguments have another structure.
        """
        graph, root = Graph(), Module()
        made: dict[Any, Any] = {}
        specs = {s.arg.name: s for s in self.graph_signature.input_specs}
        inputs = []
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node in placeholders:  # parameters and buffers come before the inputs, as passes of graphs expect
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT:
                made[node] = graph.placeholder(node.target)
                made[node].meta = {**node.meta, "from_node": _source(node)}
                inputs.append(made[node])
            else:
                _register(root, spec, self._tensor_of(spec))
                made[node] = graph.get_attr(spec.target)
                made[node].meta = {**node.meta, "from_node": _unlifted(node)}
        for node in self.graph.nodes:
            if node.op == "get_attr":  # a graph in the graph
                _assign_attr(_attribute(self._graph_module, node.target), root, node.target)
        if check_guards and inputs:
            root.add_module("_guards_fn", GuardsFn(self._checks()))
            guards = graph.call_module("_guards_fn", tuple(inputs))
            calls = (n.meta["nn_module_stack"] for n in self.graph.nodes if "nn_module_stack" in n.meta)
            guards.meta["nn_module_stack"] = next(calls, {})
        for node in self.graph.nodes:
            if node.op not in ("placeholder", "output"):
                made[node] = graph.node_copy(node, lambda n: made[n])
                made[node].meta["from_node"] = _source(node)
        self._write_back(graph, made)
        names, keywords = self._argument_names()
        call = self.call_spec
        graph.set_codegen(_CodeGen(names, keywords, call.in_spec, call.out_spec))
        module = GraphModule(root, graph)
        if "_guards_fn" in module._modules:  # the last, after the graphs in the graph
            module._modules["_guards_fn"] = module._modules.pop("_guards_fn")
        for path, owner in root.named_modules():  # graph modules copy buffers as persistent ones
            if owner._non_persistent_buffers_set:
                module.get_submodule(path)._non_persistent_buffers_set.update(owner._non_persistent_buffers_set)
        for spec in self.graph_signature.input_specs:  # and make buffers of constants
            if spec.kind is InputKind.CONSTANT_TENSOR:
                _as_attribute(module, spec.target, self.constants[spec.target])
        if inputs:
            module.register_forward_pre_hook(_InputHook(call.in_spec, names), with_kwargs=True)
        for name in ("train", "eval"):
            module.__dict__[name] = types.MethodType(_refuse(name), module)
        module.__dict__["range_constraints"] = self.range_constraints
        return module

    def _write_back(self, graph, made):
        """The outputs, after mutations are written to what they belong to."""
        results = self.graph.output_node().args[0]
        owners = {s.target: s.arg.name for s in self.graph_signature.input_specs}
        by_name = {n.name: n for n in self.graph.nodes}
        users = []
        for spec, value in zip(self.graph_signature.output_specs, results):
            if spec.kind is OutputKind.USER_OUTPUT:
                users.append(value)
            else:
                name = spec.target if spec.kind is OutputKind.USER_INPUT_MUTATION else owners[spec.target]
                graph.call_function(
                    ops.aten.copy_.default, (made[by_name[name]], made[value]), name="copy_"
                )
        out = graph.output(tuple(made[v] if v in made else v for v in _hashable(users, made)))
        out.meta["from_node"] = _unlifted(self.graph.output_node())

    def _checks(self):
        placeholders = {n.name: n for n in self.graph.nodes if n.op == "placeholder"}
        users = self._user_specs()
        names = [s.arg.name for s in users]
        symbols: dict[str, tuple[int, int]] = {}
        ranges = {str(k): (v.lower, v.upper) for k, v in self.range_constraints.items()}
        checks = []
        for position, spec in enumerate(users):
            if isinstance(spec.arg, ConstantArgument):
                if spec.arg.value is not None:
                    checks.append(SizeCheck(spec.arg.name, position, value=spec.arg.value))
                continue
            shape = tuple(placeholders[spec.arg.name].meta["val"].shape)
            for dim, n in enumerate(shape):
                if isinstance(n, SymInt) and n.expr.kind == "symbol":
                    symbols.setdefault(str(n.expr), (position, dim))
            checks.append(SizeCheck(spec.arg.name, position, shape, None, symbols, names, ranges))
        return checks + size_guards(self._guards_code, names)

    # --- other forms

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """A program without writes: what it mutates becomes outputs, and layers their ops.

        Args:
            decomp_table: {op: function} to run in place of ops; the default takes layers apart
                (`ftorch.export.default_decompositions`).
        """
        from ._functionalize import functionalized

        return functionalized(self, decomp_table)

    def to_stablehlo(self, *, platforms=None) -> bytes:
        """The program as serialized StableHLO that runs with JAX alone.

        See `ftorch.export.save_stablehlo`.
        """
        from ._stablehlo import to_stablehlo

        return to_stablehlo(self, platforms=platforms)

    def validate(self):
        """Checks that the graph and the signature belong together.

        Raises:
            AssertionError: they do not.
        """
        names = [n.name for n in self.graph.nodes if n.op == "placeholder"]
        if names != [s.arg.name for s in self.graph_signature.input_specs]:
            raise AssertionError("the graph's placeholders are not those of the signature")
        if len(self.graph.output_node().args[0]) != len(self.graph_signature.output_specs):
            raise AssertionError("the graph's outputs are not those of the signature")

    _validate = validate

    def _copied(self, root, graph, signature, constants=None):
        made = ExportedProgram(
            root, graph, signature, self._state_dict, dict(self._range_constraints),
            copy.copy(self._module_call_graph), self._example_inputs,
            self._constants if constants is None else constants,
        )
        made._is_functional = True
        return made

    def __deepcopy__(self, memo):
        made = ExportedProgram(
            copy.deepcopy(self._graph_module, memo), copy.deepcopy(self.graph, memo),
            copy.deepcopy(self._graph_signature, memo), copy.deepcopy(self._state_dict, memo),
            dict(self._range_constraints), copy.copy(self._module_call_graph),
            copy.deepcopy(self._example_inputs, memo), copy.deepcopy(self._constants, memo),
        )
        made._is_functional = self._is_functional
        return made

    def __str__(self):
        text = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {text}\nGraph signature: {signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    __repr__ = __str__


def _source(node):
    """What ``meta["from_node"]`` says of a node of `ExportedProgram.module` that is a copy."""
    return [_node_source.NodeSource(node, "ExportedProgram.module()", _node_source.NodeSourceAction.CREATE)]


def _unlifted(node):
    """The same of a node that an input or the outputs of the program were replaced by."""
    actions = [_node_source.NodeSourceAction.CREATE, _node_source.NodeSourceAction.REPLACE]
    made = _node_source.NodeSource(node, "ExportedProgram.module().unlift()", actions)
    made.from_node = _source(node)
    return [made]


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _hashable(values, made):
    # Outputs may be anything; only nodes are looked up.
    from ..fx.node import Node

    return [made[v] if isinstance(v, Node) else v for v in values]


def _register(root, spec, value):
    if spec.kind is InputKind.PARAMETER and not isinstance(value, Parameter):
        value = Parameter(value, requires_grad=value.requires_grad)
    owner = root
    *path, name = spec.target.split(".")
    for part in path:
        if not hasattr(owner, part):
            owner.add_module(part, Module())
        owner = getattr(owner, part)
    if spec.kind is InputKind.PARAMETER:
        owner.register_parameter(name, value)
    elif spec.kind is InputKind.BUFFER:
        owner.register_buffer(name, value, persistent=bool(spec.persistent))
    else:
        setattr(owner, name, value)


def _as_attribute(root, target, value):
    """Makes a tensor that is a buffer a mere attribute."""
    path, _, name = target.rpartition(".")
    owner = root.get_submodule(path)
    owner._buffers.pop(name, None)
    setattr(owner, name, value)


def _refuse(name):
    def method(self, *args, **kwargs):
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return method


class _InputHook:
    """Compares the structure of the arguments with that of the export."""

    def __init__(self, in_spec, names):
        self.in_spec, self.names = in_spec, names

    def __call__(self, module, args, kwargs):
        kwargs = dict(kwargs)
        for name in self.names[len(args) :]:
            if name not in kwargs:
                break
            args = (*args, kwargs.pop(name))
        order = self.in_spec.child(1).context
        if set(order) != set(kwargs) and len(args) == self.in_spec.child(0).num_children:
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but "
                f"expected {list(order)}"
            )
        if set(order) == set(kwargs):
            kwargs = {k: kwargs[k] for k in order}
        received = pytree.tree_structure((tuple(args), kwargs))
        if received != self.in_spec:
            raise ValueError(
                "Trying to flatten user inputs with exported input tree spec: \n"
                f"{self.in_spec}\nbut actually got inputs with tree spec of: \n{received}.\n"
                "Please check that the inputs have the same number and type of args and kwargs as "
                "the ones you used when tracing."
            )
        return args, kwargs


__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "_assign_attr"]
