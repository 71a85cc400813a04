"""Modules that hold modules or parameters."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain

from ...eager.tensor import Tensor
from ..parameter import Parameter
from .module import Module, _indented
from .utils import typename

__all__ = [
    "Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
]


class Container(Module):
    """Deprecated: subclass `Module`."""

    def __init__(self, **kwargs):
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position(index, size):
    """An index counted from the front.

    Raises:
        IndexError: out of range.
    """
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


class _ModuleSequence(Module):
    """What `Sequential` and `ModuleList` share: modules named by their positions."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def _ftorch_name(self, index):
        return list(self._modules)[_position(index, len(self))]

    def __setitem__(self, idx, module):
        setattr(self, self._ftorch_name(idx), module)

    def __delitem__(self, idx):
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._ftorch_name(idx)]
        for name in names:
            delattr(self, name)
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential):
        """Adds several modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def _ftorch_insert(self, index, module):
        for i in range(len(self), index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module

    def pop(self, key):
        """Takes a module (or a slice) out and returns it."""
        module = self[key]
        del self[key]
        return module


class Sequential(_ModuleSequence):
    """Calls modules one after the other, each with the result of the one before.

    Args:
        args: the modules, or one ``OrderedDict`` that names them.

    >>> import ftorch as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    >>> net(torch.zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._ftorch_name(idx)]

    @staticmethod
    def _ftorch_check_sequential(other):
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )

    def __add__(self, other):
        self._ftorch_check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._ftorch_check_sequential(other)
        return self.extend(list(other))

    def _ftorch_check_factor(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other):
        self._ftorch_check_factor(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other):
        self._ftorch_check_factor(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index, module):
        """Puts a module before the position ``index``.

        Raises:
            AssertionError: not a module.
            IndexError: there is no such position.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        self._ftorch_insert(index + size if index < 0 else index, module)
        return self


class ModuleList(_ModuleSequence):
    """A list of modules, which the module that holds it sees as its own.

    >>> import ftorch as torch
    >>> layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[str(_position(idx, len(self)))]

    def _get_abs_string_index(self, idx):
        """The name of the module at a position, which libraries' own lists ask for."""
        return str(_position(idx, len(self)))

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList(chain(self, other))

    def insert(self, index, module) -> None:
        """Puts a module before the position ``index``."""
        self._ftorch_insert(index, module)

    def extend(self, modules):
        """Adds several modules at the end.

        Raises:
            TypeError: not iterable.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        return super().extend(modules)

    def __repr__(self):
        """Like that of any module, with neighbours that look alike shown as one."""
        blocks = []  # [first, last, representation]
        for i, module in enumerate(self):
            text = repr(module)
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = i
            else:
                blocks.append([i, i, text])
        if not blocks:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in blocks:
            label = f"({first})" if first == last else f"({first}-{last})"
            count = "" if first == last else f"{last - first + 1} x "
            lines.append(_indented(f"{label}: {count}{text}"))
        body = "\n  ".join(lines)
        return f"{self._get_name()}(\n  {body}\n)"


def _pairs(items, owner):
    """The pairs of what a dictionary-like module is updated with.

    Raises:
        TypeError, ValueError: it is not made of pairs; ``owner`` names the class in the message.
    """
    for i, item in enumerate(items):
        if not isinstance(item, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{i} should be Iterable; is{type(item).__name__}"
            )
        if len(item) != 2:
            raise ValueError(
                f"{owner} update sequence element #{i} has length {len(item)}; 2 is required"
            )
        yield item[0], item[1]


class ModuleDict(Module):
    """A dictionary of modules, in the order of insertion.

    >>> import ftorch as torch
    >>> choices = torch.nn.ModuleDict({"relu": torch.nn.ReLU(), "tanh": torch.nn.Tanh()})
    >>> choices["relu"], "tanh" in choices
    (ReLU(), True)
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key):
        """Takes a module out and returns it."""
        module = self[key]
        del self[key]
        return module

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """Names and modules."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules) -> None:
        """Adds or replaces modules, given as a mapping or as pairs.

        Raises:
            TypeError, ValueError: it is neither.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        is_mapping = isinstance(modules, (ModuleDict, Mapping))
        for key, module in modules.items() if is_mapping else _pairs(modules, "ModuleDict"):
            self[key] = module


def _described(name, value, type_of):
    """A line about an entry of a `ParameterList` or `ParameterDict`."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.size())
    device = f" ({value.device})" if value.device.type == "cuda" else ""
    return f"  ({name}): {kind} containing: [{type_of(value)} of size {size}{device}]"


class ParameterList(Module):
    """A list of parameters; tensors become parameters, other things are kept as they are.

    >>> import ftorch as torch
    >>> weights = torch.nn.ParameterList([torch.zeros(2), torch.zeros(3)])
    >>> [name for name, _ in weights.named_parameters()]
    ['0', '1']
    """

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    _get_abs_string_index = ModuleList._get_abs_string_index

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(*idx.indices(len(self))))
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx, param):
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_position(idx, len(self))), param)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def append(self, value):
        """Adds a parameter at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Adds several parameters at the end.

        Raises:
            TypeError: not iterable, or a tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(_described(i, p, lambda t: t.dtype) for i, p in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors become parameters, other things are kept.

    >>> import ftorch as torch
    >>> scales = torch.nn.ParameterDict({"x": torch.ones(1)})
    >>> scales["x"].requires_grad
    True
    """

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}  # in the order of insertion
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _key_to_attr(key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type "
                f"is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, self._key_to_attr(key), value)

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        """Another dictionary of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key, default=None):
        """The entry of ``key``, which becomes ``default`` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Takes an entry out and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Takes the last entry out and returns it with its key."""
        if not self._keys:
            self._keys.popitem()  # raises dict's KeyError
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key, default=None):
        """The entry of ``key``, or ``default``."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """Another dictionary with the given keys, all of them ``default``."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self):
        """Keys and entries."""
        return ((key, self[key]) for key in self._keys)

    def values(self):
        """The entries."""
        return (self[key] for key in self._keys)

    def update(self, parameters) -> None:
        """Adds or replaces entries, given as a mapping or as pairs.

        Raises:
            TypeError, ValueError: it is neither.
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but "
                "got " + type(parameters).__name__
            )
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            items = parameters.items()
        elif isinstance(parameters, Mapping):
            items = sorted(parameters.items())  # PyTorch's order for plain dictionaries
        else:
            items = _pairs(parameters, "ParameterDict")
        for key, parameter in items:
            self[key] = parameter

    def extra_repr(self):
        return "\n".join(_described(k, p, typename) for k, p in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other):
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other):
        self.update(other)
        return self
