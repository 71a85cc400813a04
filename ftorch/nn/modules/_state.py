"""State dictionaries of modules: `Module.state_dict` and `Module.load_state_dict`."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from itertools import chain

from ... import __future__ as _settings
from ...autograd import no_grad
from ...eager.tensor import Tensor
from ...utils._swap import swap_tensors
from ..parameter import Parameter, is_lazy
from ._hooks import WrappedHook, add_hook

EXTRA_STATE = "_extra_state"  # the key under which `get_extra_state` is kept


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def quoted(separator, names) -> str:
    """Names in double quotes, as PyTorch's messages list them."""
    return separator.join(f'"{name}"' for name in names)


def _unreachable(method):
    return RuntimeError(
        f"Reached a code path in Module.{method}() that should never be called. Please file an "
        "issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report "
        "this bug."
    )


def _as_parameter(value, requires_grad):
    if isinstance(value, Parameter):
        return value.requires_grad_(requires_grad)
    return Parameter(value, requires_grad=requires_grad)


def _swap_in(current, value, assign):
    """Exchanges a module's tensor with what `Tensor.module_load` makes of a state's."""
    new = current.module_load(value, assign=assign)
    if new is current or new is value:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one "
            "of the inputs in module_load"
        )
    if isinstance(current, Parameter):
        new = _as_parameter(new, current.requires_grad)
    swap_tensors(current, new)


class StateDict:
    """The part of `Module` that saves and loads states."""

    _version = 1  # saved with the state; a class that changes its layout counts it up

    def get_extra_state(self):
        """What a class that overrides this and `set_extra_state` keeps besides tensors."""
        raise _unreachable("get_extra_state")

    def set_extra_state(self, state) -> None:
        """Takes what `get_extra_state` gave, when a state is loaded."""
        raise _unreachable("set_extra_state")

    def _ftorch_persistent(self):
        """The entries of the state that are this module's own: parameters, then buffers."""
        buffers = self._buffers.items()
        kept = ((k, v) for k, v in buffers if k not in self._non_persistent_buffers_set)
        return ((k, v) for k, v in chain(self._parameters.items(), kept) if v is not None)

    # saving

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Calls ``hook(module, state_dict, prefix, local_metadata)``, which edits in place."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """Calls ``hook(module, prefix, keep_vars)`` before the state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, value in self._ftorch_persistent():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by name, as one ordered dictionary.

        Args:
            destination: a dictionary to fill and return.
            prefix: what goes before every name.
            keep_vars: leave the tensors attached to the graph instead of detached.

        >>> import ftorch as torch
        >>> list(torch.nn.Linear(2, 2).state_dict())
        ['weight', 'bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination, prefix, keep_vars = (
                args[0] if destination is None else destination,
                args[1] if len(args) > 1 and prefix == "" else prefix,
                args[2] if len(args) > 2 and keep_vars is False else keep_vars,
            )
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if result is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = result
        return destination

    # loading

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return add_hook(
            self._load_state_dict_pre_hooks, WrappedHook(hook, self if with_module else None)
        )

    def register_load_state_dict_pre_hook(self, hook):
        """Calls the hook before this module loads, to edit what it is about to read.

        It gets ``(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)``.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Calls ``hook(module, incompatible_keys)`` afterwards; it may edit the two lists."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Loads this module's own entries; subclasses override it for older layouts."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )
        own = dict(self._ftorch_persistent())
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, current in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._ftorch_load_entry(name, key, current, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def _ftorch_load_entry(self, name, key, current, value, assign):
        """Copies or assigns one tensor; returns what went wrong, or None."""
        if not (isinstance(value, Tensor) or hasattr(value, "__torch_function__")):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
        if not is_lazy(current):
            if current.ndim == 0 and value.ndim == 1 and value.shape[0] == 1:
                value = value[0]  # what old versions saved for a 0-d tensor
            if value.shape != current.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {value.shape} from "
                    f"checkpoint, the shape in current model is {current.shape}."
                )
        if current.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current model, which is a no-op. (Did you mean to pass "
                "`assign=True` to assign items in the state dictionary to their corresponding key "
                "in the module instead of copying them in place?)",
                stacklevel=3,
            )
        swap = _settings.get_swap_module_params_on_conversion()
        try:
            with no_grad():
                if swap:
                    _swap_in(current, value, assign)
                    return None
                if not assign:
                    current.copy_(value)
                    return None
                if isinstance(current, Parameter):
                    value = _as_parameter(value, current.requires_grad)
                setattr(self, name, value)
        except Exception as error:
            return (
                f'While {"swapping" if swap else "copying"} the parameter named "{key}", whose '
                f"dimensions in the model are {current.size()} and whose dimensions in the checkpoint "
                f"are {value.size()}, an exception occurred : {error.args}."
            )
        return None

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies a state into this module and its submodules.

        Args:
            strict: whether the names have to be exactly those of `state_dict`.
            assign: take the tensors of the state themselves instead of copying their values.

        Returns:
            a named tuple ``(missing_keys, unexpected_keys)``.

        Raises:
            TypeError: ``state_dict`` is not a mapping.
            RuntimeError: names (if strict) or shapes do not fit; all problems are listed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, entries, prefix):
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(entries, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {k: v for k, v in entries.items() if k.startswith(inner)}, inner)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, state_dict, "")
        if strict:
            found = [("Missing", missing), ("Unexpected", unexpected)]
            errors[:0] = [
                f"{kind} key(s) in state_dict: {quoted(', ', keys)}. "
                for kind, keys in found
                if keys
            ]
        if errors:
            problems = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{problems}"
            )
        return _IncompatibleKeys(missing, unexpected)
