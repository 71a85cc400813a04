"""From a recorded run to a program: the text of its classes and functions."""

from __future__ import annotations

import ast
import json
import keyword
import math

import numpy as np

from ....eager.core.device import device as device_class
from ....eager.tensor import TensorBase
from ..program.modules import is_compiled
from ..program.objects import CompilationUnitData, Function
from ..program.source import define_class
from ..program.types import code
from ..tracing.recorder import Recorder
from ..tracing.records import Frame, ProgramCall, Statement, Value, flat
from ..tracing.source_notes import TracedText, described

__all__ = ["emit_function", "emit_module", "qualified_class_name"]

_RESERVED = frozenset(
    "torch ops int float bool str complex len range print list dict tuple getattr isinstance annotate "
    "unchecked_cast uninitialized fork inf nan infj nanj CONSTANTS self type max min abs all any sum "
    "round sorted hash ord chr hex id zip enumerate reversed wait awaitable".split()
)


class Names:
    """Names for the values of one function."""

    def __init__(self):
        self.taken: set[str] = set()
        self.of: dict[Value, str] = {}
        self.notes: dict[str, tuple] = {}

    def give(self, value: Value, hint: str | None = None) -> str:
        """A new name for a value."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in hint or value.hint) or "v"
        base = base.strip("_") or "v"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"v_{base}"
        name, n = base, 0
        while name in self.taken or name in _RESERVED:
            name, n = f"{base}{n}", n + 1
        self.taken.add(name)
        self.of[value] = name
        return name


class Emitter:
    """Writes the functions of one traced call.

    Args:
        unit: where constants go; ``methods`` counts the calls of each module.
    """

    def __init__(self, unit: CompilationUnitData, counts: dict[int, int]):
        self.unit, self.counts = unit, counts
        self.constants: dict[int, int] = {}
        self.texts: list[tuple[object, str]] = []  # (module, text of a method)
        self.names: dict[Frame, str] = {}

    # --- liveness and scopes

    def prepare(self, top: Frame, outputs):
        """Drops what nobody needs and finds what each frame takes and gives."""
        self.used: set[Value] = {v for v in flat(outputs) if isinstance(v, Value)}
        self._sweep(top)
        self.imports: dict[Frame, list[Value]] = {}
        self.exports: dict[Frame, list[Value]] = {}
        self._scopes(top)
        for v in flat(outputs):
            if isinstance(v, Value):
                self._use(v, top)

    def _sweep(self, frame):
        kept = []
        for item in reversed(frame.items):
            if isinstance(item, Frame):
                self._sweep(item)
                if item.items or any(v in self.used for v in item.outputs):
                    kept.append(item)
            elif item.effect or any(r in self.used for r in item.results):
                kept.append(item)
                self.used.update(v for v in flat([item.args, item.kwargs]) if isinstance(v, Value))
        frame.items = kept[::-1]

    def _scopes(self, frame):
        for item in frame.items:
            if isinstance(item, Frame):
                self._scopes(item)
            else:
                for v in flat([item.args, item.kwargs]):
                    if isinstance(v, Value):
                        self._use(v, frame)

    def _local(self, value, frame):
        """Whether a frame reaches a value without being handed it."""
        if value.kind == "constant":
            return True
        if value.kind == "attribute":
            return value.path[: len(frame.path)] == frame.path
        return value.frame is frame

    def _use(self, value, frame):
        if value.kind not in ("attribute", "constant"):
            above = set()
            f = frame
            while f is not None:
                above.add(f)
                f = f.parent
            f = value.frame
            while f not in above:
                _add(self.exports.setdefault(f, []), value)
                f = f.parent
            shared = f
        else:
            shared = None
        f = frame
        while f is not shared and not self._local(value, f):
            _add(self.imports.setdefault(f, []), value)
            f = f.parent

    # --- text

    def constant(self, value: Value) -> str:
        key = id(value.object)
        if key not in self.constants:
            if getattr(value.object, "requires_grad", False):
                raise RuntimeError(
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it a "
                    f"parameter or input, or detaching the gradient\nTensor:\n{value.object}"
                )
            self.constants[key] = len(self.unit.constants)
            self.unit.constants.append(value.object)
        return f"CONSTANTS.c{self.constants[key]}"

    def text(self, a, frame, names) -> str:
        """An operand's text."""
        if isinstance(a, Value):
            if a in names.of:
                return names.of[a]
            if a.kind == "constant":
                return self.constant(a)
            if a.kind == "unknown":
                self.constant(a)  # refuses it with PyTorch's words where it requires grad
                raise RuntimeError(
                    "A tensor that was computed in the trace, but by no operator of TorchScript, cannot be part of the traced "
                    f"program, which would hold that of the example. Write it with others, or use script.\nTensor:\n{a.object}"
                )
            if a.kind == "attribute":
                return access("self", a.path[len(frame.path) :])
            raise AssertionError(f"no name for {a}")
        if isinstance(a, (list, tuple)):
            if not a:
                return "annotate(List[int], [])"  # sizes, or dimensions
            return f"[{', '.join(self.text(x, frame, names) for x in a)}]"
        if isinstance(a, dict):  # of a call of a compiled function
            return f"{{{', '.join(f'{literal(k)}: {self.text(v, frame, names)}' for k, v in a.items())}}}"
        return literal(a)

    def frame(self, frame: Frame, name: str, names: Names, lines: list[str]):
        """The statements of a frame."""
        for item in frame.items:
            if isinstance(item, Frame):
                self.module_call(item, frame, names, lines)
            else:
                self.statement(item, frame, names, lines)

    def statement(self, s: Statement, frame, names, lines):
        arguments = [self.text(a, frame, names) for a in s.args]
        arguments += [f"{k}={self.text(v, frame, names)}" for k, v in s.kwargs.items()]
        call = f"{self.callee(s, frame)}({', '.join(arguments)})"
        if s.op == "alias":
            call = f"torch.slice({arguments[0]})" if s.results[0].object.dim() else arguments[0]
        if isinstance(s, ProgramCall):
            self.program_results(s.made, call, s.place, names, lines)
            return
        targets = [self.target(r, s.place, names) for r in s.results]
        if s.shape == "none":
            lines.append(f"{names.give(Value('none'))} = {call}")
        elif s.shape == "one":
            lines.append(f"{targets[0]} = {call}")
        else:
            lines.append(f"{', '.join(targets)}, = {call}")

    def target(self, value, place, names) -> str:
        """A name for a result, with what is noted of it."""
        name = names.give(value)
        detail = described(value.object) if value.detail is None else value.detail
        names.notes[name] = value.named, detail, place
        return name

    def program_results(self, made, call, place, names, lines):
        """Takes what a call gives apart: tuples and lists at once, items of dicts afterwards."""
        dicts: list[tuple[str, object]] = []

        def target(part):
            if isinstance(part, list) and part:
                return f"({', '.join(map(target, part))}, )"
            if isinstance(part, dict):
                name = names.give(Value("items"))
                dicts.extend((f"{name}[{literal(k)}]", v) for k, v in part.items())
                return name
            return self.target(part, place, names) if isinstance(part, Value) else names.give(Value("empty"))

        shown = target(made)
        if isinstance(made, list):
            shown = shown[1:-2]
        lines.append(f"{shown} = {call}")
        for item, part in dicts:
            self.program_results(part, item, place, names, lines)

    def callee(self, s, frame) -> str:
        """What a statement calls."""
        if not isinstance(s, ProgramCall):
            namespace, _, name = s.op.rpartition("::")
            return f"ops.{namespace}.{name}" if namespace else f"torch.{name}"
        if s.path is None:
            return s.op
        return f"({access('self', s.path[len(frame.path) :])}).{s.op}"

    def module_call(self, child: Frame, frame, names, lines):
        count = self.counts.get(id(child.module), 0)
        self.counts[id(child.module)] = count + 1
        method = f"forward{count or ''}"
        imports, exports = self.imports.get(child, []), self.exports.get(child, [])
        order = {id(v): i for i, v in reversed(list(enumerate(child.inputs))) if isinstance(v, Value)}
        imports.sort(key=lambda v: order.get(id(v), len(order) + 1))
        arguments = ", ".join(self.text(v, frame, names) for v in imports)
        receiver = access("self", child.path[len(frame.path) :])
        call = f"({receiver}).{method}({arguments}{', ' if arguments else ''})"
        inner = Names()
        parameters = []
        for v in imports:
            i = order.get(id(v))
            hint = child.names[i] if i is not None and i < len(child.names) else v.hint
            parameters.append((inner.give(v, hint), v.type))
        body: list[str] = []
        self.frame(child, method, inner, body)
        if exports:
            given = [inner.of[v] for v in exports]
            body.append(f"return {given[0]}" if len(given) == 1 else f"return ({', '.join(given)})")
            kinds = [v.type for v in exports]
            returns = kinds[0] if len(kinds) == 1 else f"Tuple[{', '.join(kinds)}]"
            targets = ", ".join(names.give(v) for v in exports)
            lines.append(f"{targets}{', ' if len(exports) > 1 else ''} = {call}")
        else:
            body.append("return None")
            returns = "NoneType"
            lines.append(f"{names.give(Value('none'))} = {call}")
        for (parameter, _), v in zip(parameters, imports):
            inner.notes[parameter] = "", described(v.object) if isinstance(v.object, TensorBase) else v.detail, None
        self.texts.append((child.module, noted(definition(method, parameters, returns, body, "self"), inner.notes)))

    def top(self, recorder: Recorder, name, parameters, unpack, output, is_method):
        """The text of the traced function itself.

        Args:
            parameters: [(name, type)]; ``unpack``: its first lines, made with the input names.
            output: the results with values in the place of tensors.
        """
        frame = recorder.top
        self.prepare(frame, output)
        names = Names()
        names.taken |= {n for n, _ in parameters}
        lines = unpack(names)
        self.frame(frame, name, names, lines)
        text, kind = self.structure(output, frame, names)
        lines.append(f"return {text}")
        for value, parameter in names.of.items():
            if value.kind == "input":
                names.notes[parameter] = "", described(value.object), None
        return noted(definition(name, parameters, kind, lines, "self" if is_method else None), names.notes)

    def structure(self, output, frame, names) -> tuple[str, str]:
        """(text, type) of nested results."""
        if isinstance(output, Value):
            return self.text(output, frame, names), output.type
        if isinstance(output, tuple):
            parts = [self.structure(o, frame, names) for o in output]
            text = ", ".join(p[0] for p in parts)
            return (f"({text}{',' if len(parts) == 1 else ''})",
                    f"Tuple[{', '.join(p[1] for p in parts)}]")
        if isinstance(output, list):
            parts = [self.structure(o, frame, names) for o in output]
            return f"[{', '.join(p[0] for p in parts)}]", f"List[{parts[0][1]}]"
        if isinstance(output, dict):
            parts = {k: self.structure(o, frame, names) for k, o in output.items()}
            inner = ", ".join(f"{literal(k)}: {p[0]}" for k, p in parts.items())
            key = "int" if parts and isinstance(next(iter(parts)), int) else "str"
            return f"{{{inner}}}", f"Dict[{key}, {next(iter(parts.values()))[1]}]"
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from "
            "traced functions"
        )


def _add(items, value):
    if not any(v is value for v in items):
        items.append(value)


def noted(text: str, notes: dict) -> TracedText:
    """A text with what a trace notes of its variables."""
    made = TracedText(text)
    made.notes = notes
    return made


def definition(name, parameters, returns, body, self_name) -> str:
    """The text of a function."""
    shown = [f"{n}: {t}" for n, t in parameters]
    if self_name:
        shown.insert(0, self_name)
    lines = "\n".join(f"  {line}" for line in body)
    return f"def {name}({', '.join(shown)}) -> {returns}:\n{lines}\n"


def access(base: str, path) -> str:
    """``self.layers`` and what follows, by ``getattr`` where a name is none of Python's."""
    for part in path:
        if part.isidentifier() and not keyword.iskeyword(part):
            base = f"{base}.{part}"
        else:
            base = f"getattr({base}, {json.dumps(part)})"
    return base


def literal(value) -> str:
    """A constant's text."""
    value = code(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, device_class):
        return f"torch.device({json.dumps(str(value))})"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return "nan" if math.isnan(value) else repr(value)
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    raise RuntimeError(f"Type '{type(value).__name__}' cannot be part of a traced program")


# --- classes -------------------------------------------------------------------------


_given: set[str] = set()  # names of classes of programs, which may become parts of one another


def qualified_class_name(cls: type, taken) -> str:
    """``__torch__.torch.nn.modules.linear.Linear``, made unique among the names taken and given."""
    module = cls.__module__
    if module.partition(".")[0] == "ftorch":
        module = "torch" + module.removeprefix("ftorch")
    prefix = "__torch__" if module == "__main__" else f"__torch__.{module}"
    prefix = prefix.replace("<", "_").replace(">", "_")  # of `runpy` and consoles
    prefix = ".".join(p if p.isidentifier() else f"_{p}" for p in prefix.split("."))
    name, n = f"{prefix}.{cls.__name__}", 0
    while name in taken or name in _given:
        name, n = f"{prefix}.___torch_mangle_{n}.{cls.__name__}", n + 1
    _given.add(name)
    return name


def class_text(name, base, attributes, methods, parameters=(), buffers=(), constants=None, hooks=((), ())) -> str:
    """The text of a class.

    Args:
        attributes: {name: type}; methods: their texts.
        hooks: names of the methods that are forward pre-hooks, and of those that are forward hooks.
    """
    lines = [f"class {name}({base}):" if base else f"class {name}:"]
    if base == "Module":
        for key, names in (("__parameters__", parameters), ("__buffers__", buffers)):
            lines.append(f"  {key} = [{''.join(f'{json.dumps(n)}, ' for n in names)}]")
        for key, names in zip(("__forward_pre_hooks__", "__forward_hooks__"), hooks):
            if names:
                lines.append(f"  {key} = [{''.join(f'{json.dumps(n)}, ' for n in names)}]")
    for attribute, kind in attributes.items():
        if attribute.isidentifier() and not keyword.iskeyword(attribute):
            lines.append(f"  {attribute} : {kind}")
        else:
            lines.append(f"  __annotations__[{json.dumps(attribute)}] = {kind}")
    for constant, (kind, value) in (constants or {}).items():
        lines.append(f"  {constant} : Final[{kind}] = {value}")
    for text in methods:
        lines += [f"  {line}" for line in text.rstrip("\n").split("\n")]
    if len(lines) == 1:
        lines.append("  pass")
    return "\n".join(lines) + "\n"


def define(unit, qualified, text):
    """Adds a class by its text."""
    node = ast.parse(text).body[0]
    kind = define_class(unit, qualified, node, text.split("\n"))
    kind.source = text
    return kind


def emit_function(unit: CompilationUnitData, text: str, name: str) -> Function:
    """Adds a function by its text."""
    node = ast.parse(text).body[0]
    function = Function(node.name, node, unit, source=text)
    function.notes = getattr(text, "notes", None)
    unit.functions[name] = function
    return function


def emit_module(unit: CompilationUnitData, root, methods: dict[int, list[str]]):
    """The object of a traced module, with classes for it and its submodules.

    Args:
        methods: {id of a module: texts of its methods}.
    """
    made: dict[int, object] = {}

    def build(module):
        if id(module) in made:
            return made[id(module)]
        if is_compiled(module):
            unit.include(module._c._type.unit)
            return module._c
        values: dict = {}
        attributes: dict[str, str] = {}
        for table in (module._parameters, module._buffers):
            for key, t in table.items():
                values[key] = t
                attributes[key] = "NoneType" if t is None else "Tensor"
        for key, value in vars(module).items():
            if hasattr(type(value), "_qualified"):  # packed weights
                values[key], attributes[key] = value, type(value)._qualified
        values["training"], attributes["training"] = module.training, "bool"
        values["_is_full_backward_hook"] = None
        attributes["_is_full_backward_hook"] = "Optional[bool]"
        for key, child in module._modules.items():
            if child is not None:
                values[key] = build(child)
                attributes[key] = values[key]._type.name
        name = qualified_class_name(type(module), unit.classes)
        short = name.rpartition(".")[2]
        texts = [t.replace("(self", f"(self: {name}", 1) for t in methods.get(id(module), ())]
        parameters = [k for k, t in module._parameters.items() if t is not None]
        buffers = [k for k, t in module._buffers.items() if t is not None]
        kind = define(unit, name, class_text(short, "Module", attributes, texts, parameters, buffers))
        for text in methods.get(id(module), ()):
            found = kind.methods.get(text.partition("(")[0].removeprefix("def "))
            if found is not None:
                found.notes = getattr(text, "notes", None)
        data = kind.python()
        data.__dict__.update(values)
        made[id(module)] = data
        return data

    return build(root)
