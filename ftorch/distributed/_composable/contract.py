"""Functions that change modules in place, each once, without changing their names."""

from __future__ import annotations

import functools

from ftorch import nn

__all__ = ["RegistryItem", "contract", "generate_state_key"]


class _State:
    """What such a function keeps of a module."""


class RegistryItem:
    """The mark that a function was applied."""


def generate_state_key(string: str = "__composable_api_state_key") -> str:
    """A name that no module has."""
    import uuid

    return f"{string}_{uuid.uuid4()}"


STATE_KEY, REGISTRY_KEY = generate_state_key(), generate_state_key()


def _names(module):
    return [list(dict(f())) for f in (module.named_parameters, module.named_buffers, module.named_modules)]


def contract(state_cls=_State):
    """A decorator: the function is applied to a module at most once and keeps a state of it (``f.state(module)``).

    Raises:
        AssertionError: for a second application. RuntimeError: if it changes names.

    >>> from ftorch import nn
    >>> from ftorch.distributed._composable import contract
    >>> @contract()
    ... def marked(module):
    ...     marked.state(module).mark = 1
    ...     return module
    >>> model = marked(nn.Linear(1, 1))
    >>> marked.state(model).mark
    1
    """

    def decorate(func):
        @functools.wraps(func)
        def wrapper(module, *args, **kwargs):
            given = [module] if isinstance(module, nn.Module) else list(module)
            state, item = state_cls(), RegistryItem()
            before = []
            for m in given:
                registry = m.__dict__.setdefault(REGISTRY_KEY, {})
                if func.__name__ in registry:
                    raise AssertionError(
                        "Each distinct composable distributed API can only be applied to a module once. "
                        f"{func.__name__} has already been applied to the following module:\n{m}"
                    )
                m.__dict__.setdefault(STATE_KEY, {})[func] = state
                registry[func.__name__] = item
                before.append(_names(m))
            result = func(module, *args, **kwargs)
            result = module if result is None else result
            after = [_names(m) for m in ([result] if isinstance(result, nn.Module) else list(result))]
            if before != after:
                raise RuntimeError(
                    "Composable distributed API implementations cannot modify FQNs: "
                    f"{func.__name__} changed the names of {type(given[0]).__name__}"
                )
            return result

        wrapper.state = lambda module: module.__dict__.get(STATE_KEY, {}).get(func)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _get_registry(module):
    """{name of a function: mark} of a module, or None."""
    return module.__dict__.get(REGISTRY_KEY)
