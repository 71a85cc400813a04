"""Functions that are chosen by the classes of all positional arguments."""

from __future__ import annotations

import inspect
import itertools
from warnings import warn

from .conflict import AmbiguityWarning, ambiguities, ordering, super_signature
from .utils import expand_tuples, str_signature
from .variadic import Variadic, isvariadic

__all__ = ["MDNotImplementedError", "Dispatcher", "MethodDispatcher", "ambiguity_warn", "halt_ordering",
           "restart_ordering", "source", "str_signature", "variadic_signature_matches", "warning_text"]


class MDNotImplementedError(NotImplementedError):
    """Raised by an implementation to let the next fitting one be called."""


def warning_text(name, amb) -> str:
    """What is said of ambiguous signatures."""
    text = f"\nAmbiguities exist in dispatched function {name}\n\nThe following signatures may result in ambiguous"
    text += " behavior:\n" + "".join(f"\t{', '.join(f'[{str_signature(s)}]' for s in pair)}\n" for pair in amb)
    text += "\n\nConsider making the following additions:\n\n"
    return text + "\n\n".join(f"@dispatch({str_signature(super_signature(s))})\ndef {name}(...)" for s in amb)


def ambiguity_warn(dispatcher, ambiguities) -> None:
    """Warns of ambiguous signatures."""
    warn(warning_text(dispatcher.name, ambiguities), AmbiguityWarning, stacklevel=2)


def halt_ordering() -> None:
    """Does nothing: signatures are ordered when first needed."""


def restart_ordering(on_ambiguity=ambiguity_warn) -> None:
    """Does nothing: signatures are ordered when first needed."""


def variadic_signature_matches(types, full_signature) -> bool:
    """Whether classes of arguments fit a signature that ends in a `Variadic`."""
    if not full_signature:
        raise AssertionError("full_signature is empty")
    fixed, last = full_signature[:-1], full_signature[-1]
    if len(types) < len(fixed) or not all(map(issubclass, types, fixed)):
        return False
    return all(issubclass(t, last.variadic_type) for t in types[len(fixed) :])


def source(func) -> str:
    """Where a function is, and its text."""
    return f"File: {inspect.getsourcefile(func)}\n\n{inspect.getsource(func)}"


class Dispatcher:
    """A function with implementations for classes of arguments.

    >>> f = Dispatcher("f")
    >>> @f.register(int)
    ... def _(x):
    ...     return x + 1
    >>> @f.register(float)
    ... def _(x):
    ...     return x - 1
    >>> f(3), f(3.0)
    (4, 2.0)
    """

    __slots__ = ("__name__", "name", "funcs", "_ordering", "_cache", "doc")

    def __init__(self, name: str, doc=None):
        self.name = self.__name__ = name
        self.funcs: dict = {}
        self.doc = doc
        self._ordering, self._cache = None, {}

    def register(self, *types, **kwargs):
        """A decorator: the function is for arguments of these classes."""

        def decorate(func):
            self.add(types, func, **kwargs)
            return func

        return decorate

    @classmethod
    def get_func_params(cls, func):
        """The parameters of a function, or None."""
        return inspect.signature(func).parameters.values() if callable(func) else None

    @classmethod
    def get_func_annotations(cls, func):
        """The annotations of a function's positional parameters without defaults, if all have one."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found = [p.annotation for p in cls.get_func_params(func) or () if p.kind in kinds and p.default is p.empty]
        return tuple(found) if found and inspect.Parameter.empty not in found else None

    def add(self, signature, func) -> None:
        """Adds an implementation for a signature: classes, tuples of alternatives, ``[int]`` for any number.

        Raises:
            TypeError: for something that is no class.
        """
        if not signature:
            signature = self.get_func_annotations(func) or ()
        if any(isinstance(item, tuple) for item in signature):
            for one in expand_tuples(signature):
                self.add(one, func)
            return
        classes: list = []
        for position, item in enumerate(signature, 1):
            if isinstance(item, list):
                if position != len(signature):
                    raise TypeError("Variadic signature must be the last element")
                if len(item) != 1:
                    raise TypeError(
                        "Variadic signature must contain exactly one element. To use a variadic union type place the "
                        "desired types inside of a tuple, e.g., [(int, str)]"
                    )
                item = Variadic[item[0]]
            elif not isinstance(item, type):
                text = ", ".join(getattr(c, "__name__", str(c)) for c in signature)
                raise TypeError(
                    f"Tried to dispatch on non-type: {item}\nIn signature: <{text}>\nIn function: {self.name}"
                )
            classes.append(item)
        self.funcs[tuple(classes)] = func
        self._ordering, self._cache = None, {}

    @property
    def ordering(self):
        """Signatures, the more special ones first."""
        if self._ordering is None:
            self.reorder()
        return self._ordering

    def reorder(self, on_ambiguity=ambiguity_warn):
        """Orders the signatures, and says which are ambiguous."""
        self._ordering = ordering(self.funcs)
        found = ambiguities(self.funcs)
        if found:
            on_ambiguity(self, found)
        return self._ordering

    def __call__(self, *args, **kwargs):
        types = tuple(type(a) for a in args)
        func = self._cache.get(types) or self.dispatch(*types)
        if func is None:
            raise NotImplementedError(f"Could not find signature for {self.name}: <{str_signature(types)}>")
        self._cache[types] = func
        try:
            return func(*args, **kwargs)
        except MDNotImplementedError:
            for other in itertools.islice(self.dispatch_iter(*types), 1, None):
                try:
                    return other(*args, **kwargs)
                except MDNotImplementedError:
                    continue
        raise NotImplementedError(
            f"Matching functions for {self.name}: <{str_signature(types)}> found, but none completed successfully"
        )

    def __str__(self):
        return f"<dispatched {self.name}>"

    __repr__ = __str__

    def dispatch(self, *types):
        """The implementation for classes of arguments, or None."""
        return self.funcs.get(types) or next(self.dispatch_iter(*types), None)

    def dispatch_iter(self, *types):
        """The implementations that fit, the most special one first."""
        for signature in self.ordering:
            if len(signature) == len(types) and all(map(issubclass, types, signature)):
                yield self.funcs[signature]
            elif signature and isvariadic(signature[-1]) and variadic_signature_matches(types, signature):
                yield self.funcs[signature]

    def resolve(self, types):
        """`dispatch` for a tuple of classes."""
        return self.dispatch(*types)

    def __getstate__(self):
        return {"name": self.name, "funcs": self.funcs}

    def __setstate__(self, d):
        self.__init__(d["name"])
        self.funcs = d["funcs"]

    @property
    def __doc__(self):  # type: ignore[override]
        text = [f"Multiply dispatched method: {self.name}", *([self.doc] if self.doc else [])]
        for signature in self.ordering[::-1]:
            func = self.funcs[signature]
            if func.__doc__:
                head = f"Inputs: <{str_signature(signature)}>"
                text.append(f"{head}\n{'-' * len(head)}\n{func.__doc__.strip()}")
        return "\n\n".join(text)

    def help(self, *args, **kwargs) -> None:
        """Prints the docstring of the implementation for some arguments."""
        print(self.dispatch(*map(type, args)).__doc__)

    def source(self, *args, **kwargs) -> None:
        """Prints the text of the implementation for some arguments."""
        func = self.dispatch(*map(type, args))
        if func is None:
            raise TypeError("No function found")
        print(source(func))


class MethodDispatcher(Dispatcher):
    """A `Dispatcher` of methods."""

    __slots__ = ("obj", "cls")

    def __get__(self, instance, owner):
        self.obj, self.cls = instance, owner
        return self

    def __call__(self, *args, **kwargs):
        types = tuple(type(a) for a in args)
        func = self.dispatch(*types)
        if func is None:
            raise NotImplementedError(f"Could not find signature for {self.name}: <{str_signature(types)}>")
        return func(self.obj, *args, **kwargs)
