"""`Module`: the base class of everything with parameters."""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from itertools import chain

from ...eager.tensor import Tensor
from ..parameter import Buffer, Parameter
from . import _hooks
from ._conversion import Conversion
from ._hooks import (
    GLOBAL,
    HookRegistration,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._state import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from ._state import StateDict, _IncompatibleKeys  # noqa: F401  (found here by its users)
from ._traversal import Traversal
from .utils import typename

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_HOOK_TABLES = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

# The hooks of all modules, under PyTorch's names: libraries look here for hooks that others have
# registered, and put tables of their own here.
_global_forward_pre_hooks, _global_forward_hooks = OrderedDict(), OrderedDict()
_global_backward_pre_hooks, _global_backward_hooks = OrderedDict(), OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_hooks_with_kwargs = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
GLOBAL.namespace = globals()


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line for line in rest)])


class Module(HookRegistration, StateDict, Traversal, Conversion):
    """The base class of neural network modules.

    A subclass assigns its parameters, buffers and submodules as attributes in ``__init__`` (after
    ``super().__init__()``) and computes in ``forward``. They are found again by `parameters`,
    `buffers`, `modules` and their named forms, and saved by `state_dict`.

    Attributes:
        training: whether `train` or `eval` was called last; dropout and the like look at it.

    >>> import ftorch as torch
    >>> class Double(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Double()(torch.ones(2)).tolist()
    [2.0, 2.0]
    """

    dump_patches = False
    call_super_init = False
    training: bool
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                unexpected = next(iter(kwargs))
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{unexpected}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        # Straight into the dictionary, since __setattr__ looks at these tables; in PyTorch's order, which users see.
        state = self.__dict__
        state["training"] = True
        state["_parameters"], state["_buffers"] = {}, {}
        state["_non_persistent_buffers_set"] = set()
        for table in _HOOK_TABLES:
            state[table] = OrderedDict()
            if table == "_backward_hooks":
                state["_is_full_backward_hook"] = None
        state["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """What a call computes; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # calls

    def __call__(self, *args, **kwargs):
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if not (
            self._forward_hooks or self._forward_pre_hooks
            or self._backward_hooks or self._backward_pre_hooks
            or _global_forward_hooks or _global_forward_pre_hooks
            or _global_backward_hooks or _global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._ftorch_call_with_hooks(args, kwargs)

    def _call_impl(self, *args, **kwargs):
        return self._ftorch_call_with_hooks(args, kwargs)

    def _ftorch_call_with_hooks(self, args, kwargs):
        called = set()  # hooks that have to run even after an error, and did
        progress = [args, kwargs, None]  # what those hooks see: arguments and result so far
        try:
            return self._ftorch_run_hooks(progress, called)
        except Exception:
            args, kwargs, result = progress
            for kind, hook_id, hook, with_kwargs, always in self._ftorch_forward_hook_table():
                if not always or hook_id in called:
                    continue
                try:
                    out = hook(self, args, *([kwargs] if with_kwargs else []), result)
                    result = result if out is None else out
                except Exception as error:
                    warnings.warn(
                        f"{kind} forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}",
                        stacklevel=2,
                    )
            raise

    def _ftorch_forward_hook_table(self):
        tables = (
            ("global module", _global_forward_hooks, _global_forward_hooks_with_kwargs,
             _global_forward_hooks_always_called),
            ("module", self._forward_hooks, self._forward_hooks_with_kwargs,
             self._forward_hooks_always_called),
        )
        for kind, hooks, with_kwargs, always_called in tables:
            for hook_id, hook in tuple(hooks.items()):
                yield kind, hook_id, hook, hook_id in with_kwargs, hook_id in always_called

    def _ftorch_run_hooks(self, progress, called):
        full, older = self._get_backward_hooks()
        before_backward = self._get_backward_pre_hooks()
        for hook_id, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            args, kwargs, _ = progress
            if hook_id in self._forward_pre_hooks_with_kwargs:
                out = hook(self, args, kwargs)
                if out is None:
                    continue
                if not (isinstance(out, tuple) and len(out) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {out}."
                    )
                progress[:2] = out
            else:
                out = hook(self, args)
                if out is not None:
                    progress[0] = out if isinstance(out, tuple) else (out,)

        backward_hook = None
        if full or before_backward:
            backward_hook = _hooks.BackwardHook(self, full, before_backward)
            progress[0] = backward_hook.setup_input_hook(progress[0])
        args, kwargs, _ = progress
        result = progress[2] = self.forward(*args, **kwargs)

        for _, hook_id, hook, with_kwargs, always in self._ftorch_forward_hook_table():
            if always:
                called.add(hook_id)
            out = hook(self, args, *([kwargs] if with_kwargs else []), result)
            if out is not None:
                result = progress[2] = out
        if backward_hook is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(result)}",
                    stacklevel=4,
                )
            result = backward_hook.setup_output_hook(result)
        if older:
            _hooks.attach_older_backward_hooks(self, older, args, result)
        return result

    def compile(self, *args, **kwargs) -> None:
        """Compiles this module's call with `ftorch.compile`; takes its arguments."""
        from ftorch import compile as compile_  # above this package, and only when asked for

        self._compiled_call_impl = compile_(self._ftorch_compilable_call, *args, **kwargs)

    def _ftorch_compilable_call(self, *args, **kwargs):
        return self._ftorch_call_with_hooks(args, kwargs)

    # registration

    def _ftorch_check_name(self, kind, name, own):
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in own and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name, tensor, persistent=True) -> None:
        """Adds a tensor that belongs to the state but is not trained.

        Args:
            persistent: whether it is part of `state_dict`.

        Raises:
            AttributeError, TypeError, KeyError: as `register_parameter`.
        """
        self._ftorch_check_name("buffer", name, self.__dict__.get("_buffers", ()))
        is_tensor = isinstance(tensor, Tensor) or hasattr(tensor, "__torch_function__")
        if tensor is not None and not is_tensor:
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        table = GLOBAL.buffer_registration
        self._buffers[name] = _hooks.run_registration_hooks(table, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param) -> None:
        """Adds a parameter (or None, to say that there could be one).

        Raises:
            AttributeError: ``Module.__init__`` has not run.
            KeyError: the name is empty, has a dot or is taken.
            TypeError: not a `Parameter`.
            ValueError: the parameter is the result of a computation.
        """
        self._ftorch_check_name("parameter", name, self.__dict__.get("_parameters", ()))
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param.grad_fn:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        table = GLOBAL.parameter_registration
        self._parameters[name] = _hooks.run_registration_hooks(table, self, name, param)

    def add_module(self, name, module) -> None:
        """Adds a submodule (or None).

        Raises:
            TypeError: not a `Module`, or the name is not a string.
            KeyError: the name is empty, has a dot or is taken.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._ftorch_set_module(name, module)

    register_module = add_module

    def _ftorch_set_module(self, name, module):
        table = GLOBAL.module_registration
        self._modules[name] = _hooks.run_registration_hooks(table, self, name, module)

    # attributes

    def __getattr__(self, name):
        state = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            entries = state.get(table)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _ftorch_forget(self, name, keep):
        """Takes ``name`` out of everything it may be in, but for the table ``keep``."""
        state = self.__dict__
        state.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != keep:
                state[table].pop(name, None)
        state["_non_persistent_buffers_set"].discard(name)

    def __setattr__(self, name, value):
        state = self.__dict__
        parameters, modules = state.get("_parameters"), state.get("_modules")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._ftorch_forget(name, "_parameters")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._ftorch_forget(name, "_modules")
            self._ftorch_set_module(name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            self._ftorch_set_module(name, value)
        elif isinstance(value, Buffer) or name in state.get("_buffers", ()):
            self._ftorch_assign_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _ftorch_assign_buffer(self, name, value):
        is_tensor = isinstance(value, Tensor) or hasattr(value, "__torch_function__")
        if value is not None and not is_tensor:
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' "
                "(torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        # A subclass may have a register_buffer from before there was `persistent`.
        if "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                if table is self._buffers:
                    self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        keys = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(key for key in keys if not key[0].isdigit())

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Tables that modules pickled by older versions do not have.
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # modes

    def train(self, mode=True):
        """Sets `training` here and in all submodules.

        Raises:
            ValueError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Sets ``requires_grad`` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True) -> None:
        """Clears the gradients of all parameters: None, or zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
                continue
            grad = parameter.grad
            if grad is None:
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    # printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows besides the submodules; one line or several."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({k}): {_indented(repr(m))}" for k, m in self._modules.items()]
        body = extra
        if children or len(extra_lines) > 1:
            lines = (f"\n  {line}" for line in chain(extra_lines, children))
            body = "".join(lines) + "\n"
        return f"{self._get_name()}({body})"

    def _replicate_for_data_parallel(self):
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        return replica
