"""``trace``: a program out of an example run."""

from __future__ import annotations

import copy
import inspect
import warnings

from ....autograd import no_grad
from ....eager.tensor import TensorBase
from ....eager.transforms.functional_call import swapped
from ....nn import Module
from ....utils import _pytree as pytree
from ..deprecations import warn_switch
from ..program.modules import ScriptFunction, ScriptModule, TopLevelTracedModule, wrap_module
from ..program.objects import CompilationUnitData
from ..program.registered import compiling, keep_function
from ..tracing.recorder import Recorder
from ..tracing.records import Statement, TracedInt, TracerWarning, Value, flat
from .emit import Emitter, emit_function, emit_module
from .recursive import function_name
from .traced_types import type_of

__all__ = ["TracerWarning", "TracingCheckError", "is_tracing", "trace", "trace_module"]


class TracingCheckError(Exception):
    """Two traces of a function differ."""

    __module__ = "ftorch.jit"

    def __init__(self, graph_diff_error, tensor_compare_error, extra_msg=None):
        self.message = "Tracing failed sanity checks!\n" + (f"{extra_msg}\n" if extra_msg else "")
        if graph_diff_error is not None:
            self.message += f"ERROR: Graphs differed across invocations!\n{_indent(graph_diff_error)}\n"
        if tensor_compare_error is not None:
            self.message += (
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This "
                "often indicates that the tracer has encountered untraceable code.\n"
                f"{_indent(tensor_compare_error)}\n"
            )
        super().__init__(self.message)


def _indent(text):
    return "\n".join("\t" + line for line in str(text).split("\n"))


def is_tracing() -> bool:
    """Whether a function is being traced by `trace`."""
    return Recorder.current is not None


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None,
          check_tolerance=1e-5, strict=True, _force_outplace=False, _module_class=None,
          _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """The program that a function or module runs on example inputs (``torch.jit.trace``).

    Python runs once: what it decides by the values of tensors stays decided. Sizes of tensors are
    computed by the program, so other batch sizes work.

    Args:
        func: a function of tensors, or a module.
        example_inputs: a tensor or a tuple of the arguments; nested tuples, lists and dicts of
            tensors are arguments as well.
        check_trace: trace again, and compare the program's results with the function's.
        check_inputs: a list of tuples of arguments to check with as well.
        strict: refuse lists and dicts as results.
        example_kwarg_inputs: arguments by name, in place of ``example_inputs``.

    Returns:
        A `TopLevelTracedModule` that shares the module's parameters, or a `ScriptFunction`.

    Raises:
        RuntimeError: for inputs or results that are no tensors.
        TracingCheckError: the check found another program.

    >>> import ftorch as torch
    >>> traced = torch.jit.trace(lambda x: torch.relu(x) + 1, torch.zeros(2))
    >>> traced(torch.tensor([-1.0, 1.0]))
    tensor([1., 2.])
    """
    warn_switch("trace")
    return _traced(
        func, example_inputs, example_kwarg_inputs, check_trace=check_trace, check_inputs=check_inputs,
        check_tolerance=check_tolerance, strict=strict,
    )


def _traced(func, example_inputs, example_kwarg_inputs=None, *, check_trace=True, check_inputs=None, check_tolerance=1e-5,
            strict=True):
    """What `trace` gives."""
    if not compiling:
        return func
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the "
            "object as is.",
            stacklevel=3,
        )
        return func
    owner = getattr(func, "__self__", None)
    if isinstance(owner, Module):
        if func.__name__ != "forward":
            raise AttributeError(
                "trace doesn't support compiling individual module's functions.\nPlease use trace_module"
            )
        func = owner
    inputs = _inputs(func, example_inputs, example_kwarg_inputs)
    options = dict(
        check_trace=check_trace, check_inputs=check_inputs, check_tolerance=check_tolerance,
        strict=strict,
    )
    if isinstance(func, Module):
        options["check_inputs"] = [{"forward": given} for given in check_inputs or ()]
        warn_switch("trace_method")
        return _traced_module(func, {"forward": inputs}, **options)
    if not callable(func):
        raise TypeError(f"{func!r} is not callable")
    name = getattr(func, "__name__", type(func).__name__).strip("<>")
    name = "_lambda" if name == "lambda" else name
    unit = CompilationUnitData()
    text, _, _ = _record(unit, None, func, name if name.isidentifier() else "forward", inputs, strict, {})
    own = f"__torch__.{name}"
    while own in unit.functions:  # what it calls may have its name
        own = f"__torch__.___torch_mangle_{len(unit.functions)}.{own.rpartition('.')[2]}"
    made = ScriptFunction(emit_function(unit, text, own), func, name, is_traced=True)
    keep_function(made, function_name(func, name))
    if check_trace:
        _check(func, made, [inputs, *(check_inputs or [])], check_tolerance, strict, text)
    return made


def _get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False,
                     _return_inputs_states=False):
    """The graph of an example run, with parameters and buffers as inputs behind the arguments.

    Args:
        f: a module or a function.
        args: its arguments, a tuple of tensors and containers of them, or the only one.
        kwargs: none are taken.
        strict: as of `trace`.
        return_inputs: whether to give the tensors among the arguments, too.
        _return_inputs_states: whether to give the arguments before and after the run, too.

    Returns:
        (graph, what ``f`` returned, without a graph of gradients), and what else is asked for.

    >>> import ftorch as torch
    >>> graph, out = torch.jit._get_trace_graph(torch.nn.Linear(2, 1), torch.ones(3, 2))
    >>> [node.kind() for node in graph.nodes()], out.shape
    (['aten::linear'], torch.Size([3, 1]))
    """
    if kwargs:
        raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(kwargs))}'")
    args = args if isinstance(args, tuple) else (args,)
    leaves, structure = pytree.tree_flatten(args)
    if not all(isinstance(leaf, TensorBase) for leaf in leaves):
        raise RuntimeError("Expected Tensor argument")
    state: dict[int, tuple[str, TensorBase]] = {}
    if isinstance(f, Module):
        for name, value in f.state_dict(keep_vars=True).items():
            if isinstance(value, TensorBase):
                state.setdefault(id(value), (name, value))
    names = [name for name, _ in state.values()]
    seen: list = []

    def run(*tensors):
        given = pytree.tree_unflatten(list(tensors[:len(leaves)]), structure)
        before = pytree.tree_map(lambda t: t, given)
        if isinstance(f, Module):
            with swapped(f, dict(zip(names, tensors[len(leaves):], strict=True))):
                out = f(*given)
        else:
            out = f(*given)
        seen[:] = [out, tuple(t.clone() for t in tensors), (before, given)]
        flat = [leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, TensorBase)]
        return flat[0] if len(flat) == 1 else tuple(flat)

    graph = _traced(run, (*leaves, *(value for _, value in state.values())), check_trace=False, strict=strict).inlined_graph
    for i, value in enumerate(graph.inputs()):
        value.setDebugName(str(i))
    for node in graph.walk():
        node.scope = getattr(node.place, "scope", node.scope)
    if return_inputs:
        return graph, seen[0], seen[1]
    return (graph, seen[0], seen[2]) if _return_inputs_states else (graph, seen[0])


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None,
                 check_tolerance=1e-5, strict=True, _force_outplace=False, _module_class=None,
                 _compilation_unit=None, example_inputs_is_kwarg=False, _store_inputs=True):
    """`trace` of several methods of a module (``torch.jit.trace_module``).

    Args:
        inputs: {name of a method: its example inputs}.
        check_inputs: a list of such dictionaries to check with as well.

    Raises:
        AttributeError: ``inputs`` is no dictionary.
        RuntimeError: as `trace`.

    >>> import ftorch as torch
    >>> m = torch.jit.trace_module(torch.nn.Linear(2, 3), {"forward": torch.zeros(1, 2)})
    >>> m(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """
    warn_switch("trace_method")
    if not compiling:
        return mod
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    given = {}
    for name, example in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)
        given[name] = (
            _inputs(method, None, example) if example_inputs_is_kwarg and isinstance(example, dict)
            else _inputs(method, example, None)
        )
    return _traced_module(mod, given, check_trace, check_inputs, check_tolerance, strict)


class _ByName(list):
    """[(name, value)] of arguments that are given by name."""


def _called(func, inputs, values):
    """What a function gives for values in the place of its example inputs."""
    return func(**dict(zip([k for k, _ in inputs], values))) if type(inputs) is _ByName else func(*values)


def _inputs(func, example_inputs, example_kwargs):
    """[(name, value)] of the arguments."""
    forward = func.forward if isinstance(func, Module) else func
    try:
        parameters = [
            p.name for p in inspect.signature(forward).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        parameters = []
    if example_kwargs is not None and not isinstance(example_kwargs, dict):
        raise (RuntimeError if isinstance(func, Module) else TypeError)("example_kwarg_inputs should be a dict")
    if example_kwargs is not None:
        unknown = next((k for k in example_kwargs if k not in parameters), None)
        if isinstance(func, Module) and unknown is not None:
            raise NameError(f"'{unknown}' is not in forward() method's arguments,\n                         valid arguments "
                            f"name are [{','.join(parameters)}]")
        for value in example_kwargs.values():
            if not _has_only_tensors(value):
                raise RuntimeError("Only tensors or (possibly nested) dict or tuples of tensors can be inputs to traced "
                                   f"functions. Got {type(value).__name__}")
        given = [k for k in parameters if k in example_kwargs]
        return _ByName((str(k), example_kwargs[k]) for k in (*given, *(k for k in example_kwargs if k not in given)))
    if example_inputs is None and isinstance(func, Module):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if example_inputs is None:
        raise TypeError("'NoneType' object is not iterable")
    if isinstance(example_inputs, (TensorBase, dict)):
        example_inputs = (example_inputs,)
    values = list(example_inputs)
    names = parameters[: len(values)]
    names += [f"argument_{i + 1}" for i in range(len(names), len(values))]
    return list(zip(names, values))


def _traced_module(mod, inputs, check_trace, check_inputs, check_tolerance, strict):
    if isinstance(mod, ScriptModule):
        return mod
    unit = CompilationUnitData()
    methods: dict[int, list[str]] = {}
    counts: dict[int, int] = {}
    texts = {}
    for name, given in inputs.items():
        func = mod if name == "forward" else getattr(mod, name)
        texts[name], others, _ = _record(unit, mod, func, name, given, strict, counts)
        for module, text in others:
            methods.setdefault(id(module), []).append(text)
        methods.setdefault(id(mod), []).append(texts[name])
    made = wrap_module(emit_module(unit, mod, methods), TopLevelTracedModule)
    if check_trace:
        for name, given in inputs.items():
            func = mod if name == "forward" else getattr(mod, name)
            more = [other[name] for other in check_inputs or () if name in other]
            _check(func, getattr(made, name), [given, *more], check_tolerance, strict, texts[name], mod)
    return made


def _record(unit, root, func, name, inputs, strict, counts):
    """(text of the function, [(module, text of a method)]) of a run."""
    recorder = Recorder(root)
    parameters, unpacking, arguments = [], [], []
    _check_inputs(tuple(value for _, value in inputs))
    for key, value in inputs:
        kind, alias = _enter(recorder, key, value, unpacking)
        parameters.append((key, kind))
        arguments.append(alias)
    with recorder:
        result = _called(func, inputs, arguments)
    output = _output(recorder, result, strict)
    emitter = Emitter(unit, counts)

    def unpack(names):
        lines = []
        for value, source in unpacking:
            if value.path:  # an argument itself
                names.of[value] = value.path[0]
            else:
                lines.append(f"{names.give(value)} = {source(names)}")
        return lines

    text = emitter.top(recorder, name, parameters, unpack, output, root is not None)
    for called in recorder.units:
        if isinstance(called, tuple):
            unit.python[called[0]] = called[1]
        else:
            unit.include(called)
    return text, emitter.texts, recorder.random


def _enter(recorder, key, value, unpacking):
    """(type, value to call with) of an argument; tensors inside become values."""

    def tensor(t, source, path=()):
        # The tensor itself, which the function may reach in another way, too; one that was given before is another value.
        alias = t.view_as(t) if id(t) in recorder.values else t
        made = recorder.bind(alias, Value(key, "input", path=path))
        unpacking.append((made, source))
        return "Tensor", alias

    def walk(v, source, path=()):
        if isinstance(v, TensorBase):
            return tensor(v, source, path)
        if isinstance(v, (tuple, list)):
            parts = [
                walk(x, lambda names, i=i: f"({source(names)})[{i}]") for i, x in enumerate(v)
            ]
            if isinstance(v, list):
                return f"List[{parts[0][0]}]", [p[1] for p in parts]
            values = [p[1] for p in parts]
            made = type(v)(*values) if hasattr(v, "_fields") else tuple(values)
            return f"Tuple[{', '.join(p[0] for p in parts) or '()'}]", made
        if isinstance(v, dict):
            from .emit import literal

            parts = {
                k: walk(x, lambda names, k=k: f"({source(names)})[{literal(k)}]")
                for k, x in v.items()
            }
            kind = next(iter(parts.values()))[0]
            keys = "int" if isinstance(next(iter(parts)), int) else "str"
            return f"Dict[{keys}, {kind}]", {k: p[1] for k, p in parts.items()}
        raise AssertionError(f"{key} is checked already: {v!r}")

    return walk(value, lambda names: key, (key,))


def _check_inputs(values):
    kind = type_of(values)
    if not _has_only_tensors(values):
        raise RuntimeError(
            f"Type '{kind}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors can be "
            "traced"
        )


def _has_only_tensors(value):
    if isinstance(value, (tuple, list)):
        return all(map(_has_only_tensors, value))
    if isinstance(value, dict):
        return all(map(_has_only_tensors, value.values()))
    return isinstance(value, TensorBase)


_CONTAINER = (
    "Encountering a {} at the output of the tracer might cause the trace to be incorrect, this is "
    "only valid if the container structure does not change based on the module's inputs. Consider "
    "using a constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a "
    "`NamedTuple` instead). If you absolutely need this and know the side effects, pass "
    "strict=False to trace() to allow this behavior."
)


def _output(recorder, result, strict):
    """The results with values in the place of tensors."""
    if isinstance(result, TensorBase):
        return recorder.of(result)
    if isinstance(result, tuple):
        return tuple(_output(recorder, r, strict) for r in result)
    if result is None:
        raise RuntimeError(
            "The traced function didn't return any values! Side-effects are not captured in traces, "
            "so it would be a no-op."
        )
    if isinstance(result, (list, dict)):
        if not result:
            type_of(result)
        if strict and isinstance(result, dict):
            raise RuntimeError(_CONTAINER.format("dict"))
        if strict:
            warnings.warn(_CONTAINER.format("list"), TracerWarning, stacklevel=5)
        if isinstance(result, list):
            return [_output(recorder, r, strict) for r in result]
        return {k: _output(recorder, r, strict) for k, r in result.items()}
    if type(result) is TracedInt:
        value = Value("tensor", frame=recorder.top)
        recorder.top.items.append(Statement("tensor", [result.value], {}, [value]))
        return value
    raise RuntimeError(
        "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
        "functions"
    )


# --- the check -----------------------------------------------------------------------


def _cloned(value):
    if isinstance(value, TensorBase):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(*map(_cloned, value)) if hasattr(value, "_fields") else type(value)(map(_cloned, value))
    if isinstance(value, dict):
        return {k: _cloned(v) for k, v in value.items()}
    return copy.deepcopy(value)


def _check(func, traced, all_inputs, tolerance, strict, text, root=None):
    """Traces again and compares programs, then results."""
    import ftorch as torch

    for i, given in enumerate(all_inputs):
        if type(all_inputs[0]) is _ByName and isinstance(given, dict):
            given = _inputs(func, None, given)
        elif isinstance(given, (TensorBase, dict)) or not (
            given and isinstance(given[0], tuple) and isinstance(given[0][0], str)
        ):
            given = _inputs(func, given, None)
        unit = CompilationUnitData()
        with warnings.catch_warnings(), no_grad():
            warnings.simplefilter("ignore")
            name = traced.name if isinstance(traced, ScriptFunction) else "forward"
            again, _, random = _record(unit, root, func, name if name.isidentifier() else "forward",
                                       type(given)((k, _cloned(v)) for k, v in given), strict, {})
        if again != text:
            raise TracingCheckError(_difference(text, again), None)
        if random and root is None:  # those of modules are calls of their methods
            nodes = "\n".join(f"\taten::{s.op}" for s in random)
            warnings.warn("Trace had nondeterministic nodes. Did you forget call .eval() on your model? "
                          f"Nodes:\n{nodes}\nThis may cause errors in trace checking. To disable trace "
                          "checking, pass check_trace=False to torch.jit.trace()",
                          category=TracerWarning, stacklevel=4)
        values = [v for _, v in given]
        with no_grad():
            state = torch.get_rng_state()
            mine = traced(*_cloned(values))
            theirs = _called(func, given, _cloned(values))
            torch.set_rng_state(state)
        for n, (a, b) in enumerate(zip(flat(mine), flat(theirs))):
            b = torch.as_tensor(b)  # a size is a number for the function and a tensor for its trace
            try:
                torch.testing.assert_close(
                    a.double() if a.is_floating_point() else a,
                    b.double() if b.is_floating_point() else b,
                    rtol=tolerance, atol=1e-8 if tolerance < 1e-5 else 1e-5, equal_nan=True,
                )
            except AssertionError as error:
                warnings.warn(
                    f"Output nr {n + 1}. of the traced function does not match the corresponding "
                    f"output of the Python function. Detailed error:\n{error}",
                    category=TracerWarning,
                    stacklevel=4,
                )
                return


def _difference(a, b):
    import difflib

    return "\n".join(["Graph diff:", *(
        "\t" + line for line in difflib.ndiff(a.splitlines(), b.splitlines())
    )])
