"""Objects of modules that are compiled, with the classes that their methods make."""

from __future__ import annotations

import inspect

from ..program.modules import is_compiled
from ..program.types import code, infer
from .annotations import Attribute
from .emit import class_text, define, literal

__all__ = ["Builder"]


class Builder:
    """Makes the classes and objects of the modules of a `Program`."""

    def __init__(self, program):
        self.program = program
        self.made: dict[int, object] = {}

    def build(self, module):
        if id(module) in self.made:
            return self.made[id(module)]
        if is_compiled(module):
            self.program.unit.include(module._c._type.unit)
            return module._c
        program = self.program.module_program(module)
        values: dict = {}
        types: dict[str, str] = {}
        for table in (module._parameters, module._buffers):
            for key, t in table.items():
                values[key], types[key] = t, "NoneType" if t is None else "Tensor"
        values["training"], types["training"] = module.training, "bool"
        values["_is_full_backward_hook"] = None
        types["_is_full_backward_hook"] = "Optional[bool]"
        for key, child in module._modules.items():
            if child is None:
                values[key], types[key] = None, "NoneType"
            else:
                values[key] = self.build(child)
                types[key] = values[key]._type.name
        constants = {}
        for key, value in module.__dict__.items():
            if key in _BOOKKEEPING or key in values or key.startswith("__"):
                continue
            kept = program.attribute(key, value)
            if kept == "constant" and isinstance(value, (bool, int, float, str, type(None))):
                constants[key] = (str(infer(value)), literal(value))
            elif kept is not None and program.kind(key, value) is not None and not key.startswith(
                "_flat_weight"
            ):
                types[key] = str(program.kind(key, value))
                values[key] = self.converted(getattr(value, "value", value) if isinstance(
                    value, Attribute) else value)
        name = program.name
        first = {k: (t.partition("(")[2].partition(")")[0].partition(",")[0]) for k, t in
                 program.texts.items()}
        texts = [t.replace(f"({first[k]}", f"({first[k]}: {name}", 1)
                 for k, t in program.texts.items()]
        text = class_text(
            name.rpartition(".")[2], "Module", types, texts,
            [k for k, t in module._parameters.items() if t is not None],
            [k for k, t in module._buffers.items() if t is not None], constants,
            program.hooks() if "forward" in program.texts else ((), ()),
        )
        unit = self.program.unit
        unit.classes.pop(name, None)
        kind = define(unit, name, text)
        for method, names in program.unannotated.items():
            kind.methods[method].unannotated, kind.methods[method].sizes = names, program.sizes[method]
        for method, places in program.places.items():
            kind.methods[method].places = places.attach(kind.methods[method].node)
        kind.ignored = {n: f for n in dir(type(module)) if inspect.isfunction(f := inspect.getattr_static(type(module), n))
                        and getattr(f, "_torchscript_modifier", None) == "IGNORE"}
        if program.python:
            unit.python[name] = dict(program.python)
        data = kind.python()
        data.__dict__.update(values)
        self.made[id(module)] = data
        return data

    def converted(self, value):
        """A value as programs have it: dtypes are numbers, lists are copied, objects are the classes'."""
        kind = type(value)
        if kind in (list, tuple):
            return kind(map(self.converted, value))
        if isinstance(value, dict):
            changed = value.copy()
            changed.update((k, self.converted(v)) for k, v in value.items())
            return changed
        name = self.program.classes.get(kind)
        if name is not None and (cls := self.program.unit.classes[name]).kind == "class":
            return self.instance(value, cls)
        return code(value)

    def instance(self, value, cls):
        """An object of one of the program's classes with a Python object's attributes."""
        if id(value) not in self.made:
            made = self.made[id(value)] = cls.python()
            for attribute in cls.attributes:
                made.__dict__[attribute] = self.converted(getattr(value, attribute))
        return self.made[id(value)]


_BOOKKEEPING = frozenset(
    "training _parameters _buffers _modules _non_persistent_buffers_set _is_full_backward_hook "
    "_backward_pre_hooks _backward_hooks _forward_hooks _forward_hooks_with_kwargs "
    "_forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs "
    "_state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks "
    "_load_state_dict_post_hooks _compiled".split()
)
