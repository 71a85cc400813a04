"""Walking through a module: what it contains, by iteration and by dotted path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...eager.tensor import Tensor
from ..parameter import Parameter

if TYPE_CHECKING:
    from .module import Module


class Traversal:
    """The part of `Module` that finds parameters, buffers and submodules."""

    _modules: dict
    _buffers: dict
    _parameters: dict

    def _ftorch_walk(self, path):
        module = self
        for atom in path:
            if not hasattr(module, atom):
                raise AttributeError(f"{module._get_name()} has no attribute `{atom}`")
            module = getattr(module, atom)
            if not isinstance(module, Traversal):
                raise AttributeError(f"`{atom}` is not an nn.Module")
        return module

    def _ftorch_owner(self, target):
        """The module that has the last name of a dotted path, that name, and its value."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path, ``"encoder.layers.0"``; ``""`` is this module.

        Raises:
            AttributeError: there is nothing, or no module, at the path.
        """
        return self._ftorch_walk(target.split(".")) if target else self

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path; with ``strict`` only where there is one.

        Raises:
            ValueError: no path, or not a module.
            AttributeError: the parent does not exist, or something else is at the path.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Traversal):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Traversal):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path.

        Raises:
            AttributeError: there is nothing, or no parameter, at the path.
        """
        _, name, value = self._ftorch_owner(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path.

        Raises:
            AttributeError: there is nothing, or no buffer, at the path.
        """
        module, name, value = self._ftorch_owner(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    # iteration

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix="", recurse=True, remove_duplicate=True
    ) -> Iterator[tuple[str, Parameter]]:
        """Names and parameters of this module and (with ``recurse``) of its submodules.

        Args:
            prefix: what goes before every name.
            remove_duplicate: whether a shared parameter comes only once.
        """
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse=True) -> Iterator[Parameter]:
        """All parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix="", recurse=True, remove_duplicate=True
    ) -> Iterator[tuple[str, Tensor]]:
        """Names and buffers; the arguments are those of `named_parameters`."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse=True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Names and modules directly in this one."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly in this one."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Paths and modules, this one first, depth first.

        Args:
            memo: modules to leave out; visited ones are added.
            remove_duplicate: whether a shared module comes only once.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """All modules, this one first, each once."""
        for _, module in self.named_modules():
            yield module
