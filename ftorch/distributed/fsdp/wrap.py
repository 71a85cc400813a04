"""Which submodules are wrapped by themselves."""

from __future__ import annotations

import warnings

from ftorch import nn

from ...eager.native.contexts import contextmanager, putting_back

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap",
]


def always_wrap_policy(*args, **kwargs) -> bool:
    """All of them."""
    return True


def transformer_auto_wrap_policy(module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls) -> bool:
    """Those of some classes."""
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def lambda_auto_wrap_policy(module, recurse: bool, nonwrapped_numel: int, lambda_fn) -> bool:
    """Those that a function names."""
    return True if recurse else bool(lambda_fn(module))


def _or_policy(module, recurse: bool, nonwrapped_numel: int, policies) -> bool:
    """Those that any of several policies names."""
    return any(p(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for p in policies)


def size_based_auto_wrap_policy(module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
                                force_leaf_modules=None, exclude_wrap_modules=None) -> bool:
    """Those with many parameters."""
    excluded = exclude_wrap_modules or {nn.ModuleList, nn.ModuleDict}
    leaves = force_leaf_modules or {nn.MultiheadAttention}
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(leaves))
    return large and not isinstance(module, tuple(excluded))


class ModuleWrapPolicy:
    """Those of some classes."""

    def __init__(self, module_classes):
        self._module_classes = tuple(module_classes)

    def __call__(self, module, recurse, *args, **kwargs):
        return True if recurse else isinstance(module, self._module_classes)

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """{module: how it is wrapped}"""
        return {
            m: {**root_kwargs} for m in root_module.modules()
            if m not in ignored_modules and isinstance(m, self._module_classes)
        }


class CustomPolicy:
    """Those for which a function is true, or a dict: how they are wrapped, where that differs from the outermost."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def __call__(self, module, recurse, *args, **kwargs):
        return True if recurse else bool(self._lambda_fn(module))

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """{module: how it is wrapped}

        Raises:
            ValueError: if the function returns anything else.
        """
        chosen = {}
        for m in root_module.modules():
            if m in ignored_modules:
                continue
            said = self._lambda_fn(m)
            if not isinstance(said, (dict, bool)):
                raise ValueError(
                    f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned {said}"
                )
            if said:
                chosen[m] = {**root_kwargs, **(said if isinstance(said, dict) else {})}
        return chosen


def _wrap_chosen(root, chosen, wrapper_cls):
    """Wraps submodules, inner ones first, as `CustomPolicy._run_policy` says."""
    made: dict = {}

    def visit(module):
        for name, child in [*module._modules.items()]:
            if child is None:
                continue
            if child not in made:
                visit(child)
                made[child] = wrapper_cls(child, **chosen[child]) if child in chosen else child
            if made[child] is not child:
                setattr(module, name, made[child])

    visit(root)


def _managed(root, chosen, ignored):
    """[(a chosen module's path, {name: parameter} of those that no chosen module within has)], inner modules first."""
    paths = {id(m): path for path, m in root.named_modules()}
    out, taken = [], {id(p) for p in ignored}
    for path, module in reversed([*root.named_modules()]):
        if module not in chosen:
            continue
        found, waiting = {}, [module]
        for inner in waiting:  # a level after the other
            for name, p in inner._parameters.items():
                if p is not None and id(p) not in taken:
                    taken.add(id(p))
                    found[f"{paths[id(inner)]}.{name}".lstrip(".")] = p
            waiting += [m for m in inner.children() if m not in chosen]
        out.append((path, found))
    return out


def _check_frozen(root, chosen, ignored, keeps):
    """Warns of modules which are to be wrapped of whose parameters some are trained and some not.

    Raises:
        ValueError: for such ones unless parameters stay parameters (``keeps``).
    """
    for path, found in _managed(root, chosen, ignored):
        trained = [n for n, p in found.items() if p.requires_grad]
        frozen = [n for n, p in found.items() if not p.requires_grad]
        if not trained or not frozen:
            continue
        text = f"{path} has both parameters with requires_grad=True and False."
        if keeps:
            every, some = (sum(found[n].numel() for n in names) for names in (found, trained))
            text += (
                " We do not recommend wrapping such modules since the gradient memory usage will be higher than expected "
                f"({every} numel instead of {some} numel before sharding via reduce-scatter). "
            )
        else:
            text += " FSDP does not support wrapping such modules when use_orig_params=False. "
        text += (
            "If possible, wrap the frozen parameters with FSDP separately.\n"
            f"The following parameters have requires_grad=True:\n{trained}\n"
            f"The following parameters have requires_grad=False:\n{frozen}"
        )
        if not keeps:
            raise ValueError(text)
        warnings.warn(text, stacklevel=5)


def _recursive_wrap(module, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, only_wrap_children: bool = False,
                    **kwargs):
    """Wraps the submodules that a policy chooses, inner ones first, in ``wrapper_cls(submodule, **kwargs)``.

    Args:
        only_wrap_children: whether the module itself stays as it is.

    Returns:
        (the module, wrapped if the policy says so; how many elements of parameters are in wrapped modules).

    Raises:
        AssertionError: if a submodule is wrapped already.
    """
    assert auto_wrap_policy is not None, "Must specify auto_wrap_policy."
    assert wrapper_cls is not None, "Must specify wrapper_cls"
    for child in module.modules():
        if child not in ignored_modules and isinstance(wrapper_cls, type) and isinstance(child, wrapper_cls):
            raise AssertionError(f"Child module {child} is already wrapped by {wrapper_cls}")
    left = sum(p.numel() for p in module.parameters() if p not in ignored_params)
    if not auto_wrap_policy(module=module, recurse=True, nonwrapped_numel=left):
        return module, 0
    wrapped = 0
    for name, child in module.named_children():
        if child not in ignored_modules:
            made, count = _recursive_wrap(child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs)
            setattr(module, name, made)
            wrapped += count
    if only_wrap_children or not auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=left - wrapped):
        return module, wrapped
    return wrapper_cls(module, **{**kwargs, **getattr(module, "_wrap_overrides", {})}), left


_enabled: list = []


@contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """Within, `wrap` wraps modules in a class with some options.

    Raises:
        NotImplementedError: within another one.

    >>> from ftorch import nn
    >>> with enable_wrap(wrapper_cls=nn.Sequential):
    ...     type(wrap(nn.Linear(1, 1))).__name__
    'Sequential'
    """
    if _enabled:
        raise NotImplementedError(
            "You are already within an autowrap context and we currently do not supported nested autowrap."
        )
    with putting_back(_enabled.clear):
        _enabled.append((wrapper_cls, wrapper_kwargs))
        yield


def wrap(module, **wrap_overrides):
    """A module, wrapped as `enable_wrap` says; itself outside."""
    if not _enabled:
        return module
    wrapper, options = _enabled[-1]
    return wrapper(module, **{**options, **wrap_overrides, **getattr(module, "_wrap_overrides", {})})
