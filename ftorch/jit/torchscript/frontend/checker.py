"""Types of the variables and results of functions that are compiled, and complaints of what has none.

The compiler's statements are walked once, in order, with the type of each variable. Branches are
joined behind an ``if``; what a condition says of a variable (it is not None, it is an int) holds where
the condition does. A type that is not known is None, and whatever is done with it is accepted.
"""

from __future__ import annotations

import ast

from ..program.aten import OVERLOADS
from ..program.types import NONE, Type, infer, parse_type, unify, union_of
from .context import ModuleRef, _highlight
from .inference import Inference, accepts, fits_key, is_empty, is_optional
from .variants import mismatches

__all__ = ["Checker"]


class _Unusable:
    """A variable that differs between branches, or is set in one only: an error where it is used."""

    def __init__(self, message):
        self.message, self.branches = message, None


class Checker(Inference):
    """Checks one function.

    Args:
        compiler: the `FunctionCompiler` whose function it is.
        types: {parameter: `Type`}; returns: the declared type of the result, or None.
    """

    def __init__(self, compiler, types, returns):
        self.compiler = compiler
        self.env: dict = dict(types)
        self.wide: dict = dict(types)  # the types that variables have where no condition narrows them
        self.outer: dict = {}  # the variables around the innermost block
        self.inferred = compiler.unannotated()
        self.declared = returns
        self.returned: list[Type | None] = []

    def check(self, body) -> Type | None:
        """The type of the result, or None if it is not known.

        Raises:
            RuntimeError: as PyTorch's compiler does.
        """
        ends = self.block(body)
        if not ends and self.declared not in (None, NONE):
            raise self.error("Function was not annotated as having type None, but does not return along "
                             "all paths", self.compiler.node)
        if self.declared is not None:
            return self.declared
        if not ends:
            self.returned.append(NONE)
        return None if None in self.returned else unify(self.returned)

    # --- errors

    def error(self, message, node):
        origin = getattr(node, "origin", None) or getattr(self, "statement", None)
        return self.compiler.error(message, origin)

    def absent(self, e):
        return None

    def no_variant(self, name, kinds, e):
        """The error of a call that none of an op's forms takes."""
        lines = ["Arguments for call are not valid.", "The following variants are available:"]
        for definition in OVERLOADS.get(name, ()):
            for argument, kind in zip(definition.schema.arguments, kinds):
                plain = argument.type.base == "Tensor" and not argument.type.suffixes
                if plain and kind is not None and kind.name != "Tensor":
                    lines += ["  ", f"  aten::{definition.schema}:",
                              f"  Expected a value of type 'Tensor' for argument '{argument.name}' but "
                              f"instead found type '{kind}'."]
                    break
        return self.error("\n".join([*lines, "", "The original call is"]), e)

    def check_op(self, name, kinds, keywords, e, is_method=False):
        """Complains of a call that none of an op's forms takes."""
        if any(isinstance(a, ast.Starred) for a in getattr(e, "args", ())):
            return
        lines = mismatches(name, kinds, keywords, is_method)
        if lines is not None and len(lines) == 3:
            raise self.error("\n" + "\n".join(line.strip() for line in lines[1:]) + "\n", e.func)
        if lines is not None:
            head = ["Arguments for call are not valid.", "The following variants are available:"]
            raise self.error("\n".join([*head, *lines, "", "The original call is"]), e.func)

    def no_item(self, method, inner, found, e):
        signature = _SIGNATURES.get(method, "t[](a!) self, t(c -> *) el) -> t[](a!)")
        return self.error(
            f"\naten::{method}.t({signature}:\nCould not match type {found} to "
            f"t in argument 'el': Type variable 't' previously matched to type {inner} is matched to type "
            f"{found}.\n", e.func,
        )

    def is_inferred(self, e):
        return isinstance(e, ast.Name) and e.id in self.inferred

    # --- statements; each returns whether control never gets behind it

    def block(self, statements) -> bool:
        for s in statements:
            self.statement = getattr(s, "origin", None) or getattr(self, "statement", None)
            handler = getattr(self, f"_{type(s).__name__}", None)
            if handler is not None and handler(s):
                return True
        return False

    def _Return(self, s):
        if self.declared is not None and s.value is not None:
            s.value.is_hinted = True
        if isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Name) and (
            s.value.func.id == "range" and "range" not in self.env
        ):
            raise self.error("range cannot be used as a value", s.value)
        anything = self.declared is not None and self.declared.name == "Any" and isinstance(s.value, ast.IfExp)
        kind = None if anything else NONE if s.value is None else self.kind(s.value)
        if self.declared is not None:
            if not accepts(self.declared, kind):
                raise self.error(f"Return value was annotated as having type {self.declared} but is "
                                 f"actually of type {kind}", s)
        else:
            self.join_returned(kind, s)
        return True

    def join_returned(self, kind, s):
        before = unify(self.returned) if self.returned else kind
        joined = unify([before, kind])
        if joined is None and _plain(before) and _plain(kind):
            raise self.error(f"Previous return statement returned a value of type {before} but this "
                             f"return statement returns a value of type {kind}", s)
        self.returned.append(kind)

    def _Raise(self, s):
        return True

    _Break = _Continue = _Raise

    def _Expr(self, s):
        self.kind(s.value)
        return isinstance(s.value, ast.Call) and ast.unparse(s.value.func) == "ops.prim.RaiseException"

    def _Assign(self, s):
        kind = self.kind(s.value)
        if kind is not None and kind.name == "List" and getattr(s, "is_starred", False):
            raise self.error("cannot statically infer the expected size of a list in this context", s.value)
        for target in s.targets:
            before = self.wide.get(target.id) if is_empty(s.value) and isinstance(target, ast.Name) else None
            fits = kind is not None and isinstance(before, Type) and before.name == kind.name
            self.assign(target, before if fits else kind, s.value)  # what is empty is of the variable's type

    def assign(self, target, kind, value=None):
        """Gives the variables of a target their types; ``value`` is what it is given, for errors."""
        if isinstance(target, ast.Name):
            self.check_changed(target, kind)
            self.env[target.id] = self.wide[target.id] = kind
            self.inferred = self.inferred - {target.id}
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, kind, value)
        elif isinstance(target, ast.Attribute):
            owner = self.kind(target.value)
            if owner is not None and owner.name in ("int", "float", "str", "bool", "List", "Dict", "Tuple", "Tensor"):
                shown = f"{owner} (inferred)" if self.is_inferred(target.value) else owner
                raise self.error(f"Tried to set an attribute: {target.attr} on a non-class: {shown}", target)
        elif isinstance(target, ast.Subscript):
            owner = self.kind(target.value)
            if owner is not None and owner.name == "Tuple":
                raise self.error(f"{owner} does not support subscripted assignment", target)
            place = {"List": 0, "Dict": 1}.get(owner.name) if owner is not None and owner.args else None
            if place is not None and not isinstance(target.slice, ast.Slice):
                wanted = owner.args[place]
                if owner.name == "Dict" and not fits_key(owner, self.kind(target.slice)):
                    raise self.no_variant("_set_item", [owner, self.kind(target.slice)], target)
                if not accepts(wanted, kind) and (wanted.name, getattr(kind, "name", "")) != ("float", "int"):
                    raise self.no_variant("_set_item", [owner, kind], target)

    def check_changed(self, target, kind):
        """Complains where a branch or loop gives a variable from around it another type."""
        before = self.wide.get(target.id)
        differs = _plain(before) and _plain(kind) and not accepts(before, kind)
        known = not isinstance(self.outer.get(target.id), _Unusable)
        if target.id in self.outer and known and differs and kind.name != "Tensor":  # that is converted
            note = (
                "Empty lists default to List[Tensor]. Add a variable annotation to the assignment to create an empty list of "
                "another type (torch.jit.annotate(List[T, []]) where T is the type of elements in the list for Python 2)\n"
            )
            raise self.error(f"Variable '{target.id}' previously had type {before} but is now being "
                             f"assigned to a value of type {kind}\n{note if kind.name == 'List' else ''}", target)
        if target.id in self.outer and isinstance(before, Type) and is_optional(before):
            self.wide[target.id] = before

    def unpack(self, target, kind, value=None):
        kinds: list = [None] * len(target.elts)
        starred = any(isinstance(t, ast.Starred) for t in target.elts)
        if kind is not None and not starred:
            if kind.name == "Tuple":
                if len(kind.args) != len(kinds):
                    few = len(kind.args) < len(kinds)
                    raise self.error(f"need {len(kinds)} values to unpack but found only {len(kind.args)}" if few else
                                     f"too many values to unpack: need {len(kinds)} but found {len(kind.args)}", target)
                kinds = list(kind.args)
            elif kind.name in ("int", "float", "str", "bool", "NoneType", "Tensor"):
                shown = f"{kind} (inferred)" if value is not None and self.is_inferred(value) else kind
                raise self.error(f"{shown} cannot be used as a tuple", target if value is None else value)
            elif kind.name == "List":
                kinds = [self.element(kind, target)] * len(kinds)
        for t, k in zip(target.elts, kinds):
            self.assign(t.value if isinstance(t, ast.Starred) else t, k)

    def _AnnAssign(self, s):
        wanted = parse_type(s.annotation)
        s.value.is_hinted = True
        self.annotated(wanted, self.kind(s.value), s.value, s.target)
        self.assign(s.target, wanted)

    def annotated(self, wanted, found, value, target=None):
        """Complains where a value is not of the type that is written for it."""
        if is_empty(value):
            return
        if isinstance(value, ast.List) and wanted.name in _NO_LISTS:
            raise self.error(f"Expected an annotation of type List but got {wanted}", value)
        if isinstance(value, ast.Dict) and wanted.name == "Dict" and wanted.args:
            return self.annotated_dict(wanted, value)
        if accepts(wanted, found):
            return
        if isinstance(value, ast.List) and wanted.name == "List":
            if all(accepts(wanted.args[0], self.kind(e)) for e in value.elts):
                return
            raise self.error(f"List type annotation `{wanted}` did not match the types of the given list "
                             f"elements, which were unified to {found.args[0]}", value)
        name = getattr(target, "id", None)
        made = isinstance(value, (ast.List, ast.Dict, ast.ListComp, ast.DictComp, ast.Tuple))
        if name is not None and (not wanted.args or not made and _plain(wanted) and _plain(found)):
            raise self.error(f"Variable '{name}' is annotated with type {wanted} but is being assigned to "
                             f"a value of type {found}", target)

    def annotated_dict(self, wanted, value):
        """Complains where a dictionary that is written out has not the types that are written for it."""
        key, item = (unify([self.kind(part) for part in parts]) for parts in (value.keys, value.values))
        if key is not None and not accepts(wanted.args[0], key):
            raise self.error(f"Type annotation was inferred to be {wanted}but the type of keys given by the dict literal is "
                             f"{key}", value)
        if item is not None and not accepts(wanted.args[1], item):
            raise self.error(f"Type annotation was inferred to be `{wanted}`, but the type of values given by the dict "
                             f"literal is {item}", value)

    def _AugAssign(self, s):
        target = ast.copy_location(_loaded(s.target), s.target)
        target.origin = getattr(s.target, "origin", None) or getattr(s, "origin", None)
        owner = self.kind(target.value) if isinstance(target, ast.Subscript) else None
        if owner is not None and owner.name == "Tuple":
            raise self.error(f"{owner} does not support augmented assignment.", target)
        operation = ast.BinOp(target, s.op, s.value)
        operation.origin = getattr(s, "origin", None)
        kind = self.kind(operation)
        if isinstance(s.target, ast.Name):
            self.assign(s.target, kind)

    def _If(self, s):
        self.condition(self.kind(s.test), s.test)
        settled = self.settled(s.test)
        if settled is not None:
            return self.block(s.body if settled else s.orelse)
        outer, around, wide = dict(self.env), self.outer, dict(self.wide)
        self.outer = outer
        self.refine(s.test, True)
        body_ends = self.block(s.body)
        body, self.env = self.env, dict(outer)
        self.refine(s.test, False)
        self.wide = dict(wide)
        else_ends = self.block(s.orelse)
        self.outer, self.wide = around, wide
        if body_ends and else_ends:
            return True
        if else_ends:
            self.env = body
        elif not body_ends:
            self.env = self.joined(body, self.env)
            for found in self.env.values():
                if isinstance(found, _Unusable) and found.branches is None:
                    found.branches = getattr(s, "origin", None)
        return False

    def joined(self, body, orelse):
        """The types behind two branches."""
        out = {}
        for name in {**body, **orelse}:
            if name not in body or name not in orelse:
                which = "false" if name in body else "true"
                out[name] = _Unusable(f"\n{name} is not defined in the {which} branch")
                continue
            one, other = body[name], orelse[name]
            if isinstance(one, _Unusable) or isinstance(other, _Unusable):
                out[name] = one if isinstance(one, _Unusable) else other
            elif one is None or other is None:
                out[name] = None
            else:
                out[name] = self.merged(name, one, other)
            if isinstance(out[name], _Unusable):
                self.wide.pop(name, None)
            elif name not in self.wide or not is_optional(self.wide[name]):
                self.wide[name] = out[name]
        return out

    def merged(self, name, one, other):
        kind = unify([one, other])
        if kind is None:  # one of them may be a type of those that the other may be
            kind = next((u for u, t in ((one, other), (other, one)) if u.name == "Union" and t in u.args), None)
        if kind is None and _plain(one) and _plain(other):
            return _Unusable(f"\nType mismatch: {name} is set to type {one} in the true branch and type "
                             f"{other} in the false branch")
        return kind

    def _Name_(self, e):
        found = super()._Name_(e)
        if isinstance(found, _Unusable):
            message = found.message
            if found.branches is not None:
                message += f"{_highlight(self.compiler.source, found.branches)}and was used here"
            raise self.error(message, e)
        return found

    def _While(self, s):
        self.condition(self.kind(s.test), s.test)
        return self.loop(s, lambda: self.refine(s.test, True))

    def _For(self, s):
        kind = self.element(self.kind(s.iter), s.iter)
        return self.loop(s, lambda: self.assign(s.target, kind))

    def loop(self, s, begin):
        """A loop's body: variables keep their types; those it introduces are gone behind it."""
        before, around = dict(self.env), self.outer
        self.outer = before
        begin()
        self.block(s.body)
        after, self.env, self.outer = self.env, before, around
        for name, kind in before.items():
            new = after.get(name)
            if isinstance(kind, _Unusable) or isinstance(new, _Unusable) or kind is None:
                continue
            if new is None or (new != kind and not accepts(kind, new)):
                before[name] = None
        for name in after:
            if name not in before:  # another loop may give it another type
                before[name] = _Unusable(f"undefined value {name}")
                self.wide.pop(name, None)
        return False

    def _With(self, s):
        for item in s.items:
            if item.optional_vars is not None:
                self.assign(item.optional_vars, None)
        return self.block(s.body)

    def _Assert(self, s):
        self.condition(self.kind(s.test), s.test)
        self.refine(s.test, True)

    def _Delete(self, s):
        for t in s.targets:
            if isinstance(t, ast.Name):
                if t.id not in self.env or isinstance(self.env[t.id], _Unusable):
                    raise self.error(f"undefined value {t.id}", t)
                self.env[t.id] = _Unusable(f"undefined value {t.id}")

    # --- what conditions say of variables

    def refine(self, test, holds: bool) -> None:
        """Narrows variables by a condition that holds, or does not."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.refine(test.operand, not holds)
        elif isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) == holds:
                for value in test.values:
                    self.refine(value, holds)
        elif isinstance(test, ast.Compare) and isinstance(test.left, ast.Name):
            right, op = test.comparators[0], test.ops[0]
            if isinstance(right, ast.Constant) and right.value is None:
                if isinstance(op, (ast.Is, ast.IsNot)):
                    self.narrow_none(test.left.id, isinstance(op, ast.Is) == holds)
        elif isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and (
            test.func.id == "isinstance" and isinstance(test.args[0], ast.Name)
        ):
            self.narrow_class(test.args[0].id, test.args[1], holds)

    def settled(self, test) -> bool | None:
        """What the types alone say of a condition: one branch of it is not compiled then."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.settled(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.Or)
            return decisive if any(self.settled(v) is decisive for v in test.values) else None
        if not (isinstance(test, ast.Compare) and isinstance(test.left, (ast.Name, ast.Subscript))):
            return None
        op, right, left = test.ops[0], test.comparators[0], test.left
        kind = self.env.get(left.id) if isinstance(left, ast.Name) else self.kind(left)
        if not isinstance(right, ast.Constant) or right.value is not None or not _plain(kind):
            return None
        return (kind == NONE) == isinstance(op, ast.Is) if isinstance(op, (ast.Is, ast.IsNot)) else None

    def narrow_none(self, name, is_none):
        kind = self.env.get(name)
        if not isinstance(kind, Type) or not is_optional(kind):
            return
        if is_none:
            self.env[name] = NONE
        elif kind.name == "Optional":
            self.env[name] = kind.args[0]
        else:
            self.env[name] = union_of([a for a in kind.args if a != NONE])

    def narrow_class(self, name, kinds, holds):
        kind = self.env.get(name)
        if isinstance(kind, Type) and kind.name == "Union":
            wanted = [parse_type(k) for k in (kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])]
            left = [a for a in kind.args if any(_is_one(a, w) for w in wanted) == holds]
            self.env[name] = union_of(left) if left else None
            return
        single = None if isinstance(kinds, ast.Tuple) else parse_type(kinds)
        plain = single is not None and single.name not in ("list", "dict", "tuple", "Any")
        self.env[name] = single if holds and plain else None

    # --- modules, classes and functions of the program

    def owner_of(self, e):
        """The Python module that an expression of submodules' names stands for, or None."""
        if isinstance(e, ast.Name):
            found = self.compiler.statics.get(e.id)
            return found.value if isinstance(found, ModuleRef) else None
        name = None
        if isinstance(e, ast.Attribute):
            name = e.attr
        elif isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "getattr":
            e, name = ast.Attribute(e.args[0], e.args[1].value), e.args[1].value
        owner = self.owner_of(e.value) if name is not None else None
        return None if owner is None else owner._modules.get(name)

    def member(self, e):
        """(whether it is a module's attribute, its type)."""
        owner = self.owner_of(e.value)
        if owner is None:
            return False, None
        if e.attr in owner._parameters or e.attr in owner._buffers:
            value = owner._parameters.get(e.attr, owner._buffers.get(e.attr))
            return True, infer(value)
        program = self.compiler.program.module_program(owner)
        return True, program.kind(e.attr, getattr(owner, e.attr, None))

    def module_method(self, f, e):
        """(whether it is a module's method, the type of its result)."""
        owner = self.owner_of(f.value)
        if owner is None:
            return False, None
        return True, self.compiler.program.module_program(owner).result(f.attr)

    def class_of(self, kind):
        return self.compiler.program.unit.classes.get(kind.name) if kind is not None else None

    def attribute_of_class(self, kind, name):
        if kind is not None and kind.name == self.compiler.class_name:
            return self.compiler.attributes.get(name)
        found = self.class_of(kind)
        if found is None or name in found.attributes:
            return found and found.attributes[name]
        getter = found.accessor(name, "getter")
        return getter.schema.result if getter is not None and getter.node.returns else None

    def method_of_class(self, kind, name):
        found = self.class_of(kind)
        method = found.methods.get(name) if found is not None else None
        if method is None or method.node.returns is None:
            return None
        return method.schema.result

    def program_call(self, path, e):
        kinds = [self.kind(a) for a in e.args]
        keywords = {k.arg: self.kind(k.value) for k in e.keywords}
        unit = self.compiler.program.unit
        made = unit.classes.get(path)
        if made is not None or path == self.compiler.class_name:
            if made is not None and made.kind == "namedtuple":
                self.check_fields(made, kinds, keywords, e)
            return Type(path)
        function = unit.functions.get(path)
        if function is None:
            return None
        if not any(isinstance(a, ast.Starred) for a in e.args) and not path.startswith("__torch__.torch."):
            self.check_call(function, kinds, keywords, e)
        return function.schema.result if function.node.returns is not None else None

    def check_fields(self, made, kinds, keywords, e):
        """Complains of a named tuple that is not given all its fields."""
        optional = {*keywords, *getattr(made.python, "_field_defaults", ())}
        missing = next((n for i, n in enumerate(made.attributes) if i >= len(kinds) and n not in optional), None)
        if missing is not None and not any(isinstance(a, ast.Starred) for a in e.args):
            fields = ", ".join(f"{kind.shown()} {name}" for name, kind in made.attributes.items())
            raise self.error(f"\n{made.short_name}({fields}) -> ():\nArgument {missing} not provided.\n", e.func)

    def check_call(self, function, kinds, keywords, e):
        """Complains of arguments that a function of the program does not take."""
        schema = function.schema
        reason = None
        names = [p[0] for p in schema.parameters]
        if len(kinds) > schema.positional:
            reason = (f"Expected at most {schema.positional} arguments but found {len(kinds)} positional "
                      "arguments.")
        for i, (name, kind, default) in enumerate(schema.parameters):
            given = kinds[i] if i < len(kinds) else keywords.get(name)
            if kind.name == "List" and i < len(e.args) and isinstance(e.args[i], ast.List) and not e.args[i].elts:
                continue  # an empty list is of any type
            if i >= len(kinds) and name not in keywords and default is None:
                reason = reason or f"Argument {name} not provided."
            elif given is not None and not accepts(kind, given) and not _converts(given, kind):
                reason = reason or (f"Expected a value of type '{kind}' for argument '{name}' but instead "
                                    f"found type '{given}'.")
        unknown = next((k for k in keywords if k not in names), None)
        if unknown is not None:
            reason = reason or f"Keyword argument {unknown} unknown."
        if reason is not None:
            raise self.error(f"\n{schema}:\n{reason}\n", e)


def _is_one(kind, wanted) -> bool:
    """Whether a type is one that ``isinstance`` is asked for; of containers it may be told without what they hold."""
    return kind == wanted or not wanted.args and kind.name.lower() == wanted.name


def _plain(kind) -> bool:
    """Whether a type is of Python's own values, or of lists and the like of such: what `accepts` decides for certain."""
    if not isinstance(kind, Type) or kind.is_class or kind.name in ("Any", "Union", "number", "Future"):
        return False
    if kind.name in ("List", "Dict", "Tuple"):
        return bool(kind.args) and all(_plain(a) or isinstance(a, Type) and is_optional(a) for a in kind.args)
    return not kind.args


_SIGNATURES = {"insert": "t[](a!) self, int idx, t(b -> *) el) -> ()"}

# What no list that is written out can be.
_NO_LISTS = frozenset("int float bool str complex Dict Tuple Tensor".split())


def _converts(found: Type, wanted: Type) -> bool:
    """Whether an argument is converted: tensors to numbers, tuples to lists, integers to floats in
    lists of a fixed number."""
    if found.name == "Tensor":
        return wanted.name in ("int", "float", "bool", "complex", "number", "Optional")
    if found.name == "Tuple" and wanted.name == "List":
        return True
    return wanted.name == "Optional" and _converts(found, wanted.args[0])


def _loaded(target):
    """A target as an expression."""
    made = ast.parse(ast.unparse(target), mode="eval").body
    return made
