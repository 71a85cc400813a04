"""Members of modules by dotted names (``torch.nn.utils._named_member_accessor``)."""

from __future__ import annotations

from ...eager.tensor import Tensor

_MISSING = object()


def _owner(module, name):
    *path, last = name.split(".")
    for part in path:
        module = module.get_submodule(part)
    if not last:
        raise KeyError("name cannot be empty")
    return module, last


def set_tensor(module, name: str, tensor) -> None:
    """Puts a tensor where the module has a parameter, buffer or attribute of a name (without dots)."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module, name: str, tensor, allow_missing: bool = False):
    """Exchanges a member of a module itself; gives what was there.

    Raises:
        AttributeError: if there is none, and that is not allowed.
        KeyError: the name has dots or is empty.
    """
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (module._parameters, module._buffers):
        if name in table:
            before = table[name]
            if tensor is _MISSING:
                del table[name]
            else:
                table[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING:
        if not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    elif not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is _MISSING:
        if before is not _MISSING:
            delattr(module, name)
    else:
        setattr(module, name, tensor)
    return before


def swap_submodule(module, name: str, submodule):
    """Exchanges a child of a module itself; gives the former."""
    if "." in name:
        raise KeyError('submodule name can\'t contain "."')
    if name == "":
        raise KeyError('submodule name can\'t be empty string ""')
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Reads and exchanges the submodules and tensors of a module by dotted names.

    >>> import ftorch as torch
    >>> from ftorch.nn.utils._named_member_accessor import NamedMemberAccessor
    >>> accessor = NamedMemberAccessor(torch.nn.Sequential(torch.nn.Linear(1, 1)))
    >>> accessor.get_tensor("0.bias").shape
    torch.Size([1])
    """

    def __init__(self, module):
        self.module = module

    def get_submodule(self, name):
        """The submodule of a name; the module itself for ``""``."""
        return self.module.get_submodule(name)

    def swap_submodule(self, path, value):
        """Exchanges a submodule; gives the former."""
        owner, name = _owner(self.module, path)
        return swap_submodule(owner, name, value)

    def get_tensor(self, name):
        """The tensor of a name.

        Raises:
            AttributeError, TypeError: there is none, or it is no tensor.
        """
        owner, last = _owner(self.module, name)
        try:
            found = getattr(owner, last)
        except AttributeError as error:
            raise AttributeError(f"{type(owner).__name__} has no attribute `{last}`") from error
        if not isinstance(found, Tensor) and found is not None:
            raise TypeError(f"{name}: {found} is not an instance of torch.Tensor")
        return found

    def set_tensor(self, name, value):
        """Puts a tensor there."""
        owner, last = _owner(self.module, name)
        set_tensor(owner, last, value)

    def del_tensor(self, name):
        """Takes a tensor away."""
        owner, last = _owner(self.module, name)
        swap_tensor(owner, last, _MISSING)

    def swap_tensor(self, name, value, allow_missing=False):
        """Exchanges a tensor; gives the former."""
        owner, last = _owner(self.module, name)
        return swap_tensor(owner, last, value, allow_missing)

    def get_tensors(self, names):
        """The tensors of names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values):
        """Puts tensors there."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    set_tensors_dict = lambda self, named: self.set_tensors(list(named), list(named.values()))  # noqa: E731

    def del_tensors(self, names):
        """Takes tensors away."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing=False):
        """Exchanges tensors; gives the former."""
        return [self.swap_tensor(n, v, allow_missing) for n, v in zip(names, values, strict=True)]

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """Exchanges tensors; gives the former by name, and the names that were missing."""
        before, missing = {}, []
        for name, tensor in named_tensors.items():
            if allow_missing:
                before[name] = self.swap_tensor(name, tensor, True)
                if before[name] is _MISSING:
                    missing.append(name)
            else:
                before[name] = self.swap_tensor(name, tensor)
        return before, missing

    def check_keys(self, keys):
        """The names of tensors that are missing in ``keys``, and those of ``keys`` that there are not."""
        keys, names = set(keys), {n for n, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(names - keys), sorted(keys - names)

    def named_parameters(self, remove_duplicate=True):
        """The module's parameters with names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        """The module's buffers with names."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        """Its parameters, then its buffers, with names."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        """Its submodules with names."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
