"""Tests with parameters: one method of a test case becomes several."""

from __future__ import annotations

import functools

import ftorch as torch

# A parametrization is a function of (test, generic class, class for a device) that gives, for each new test,
# (function, suffix of the name, arguments, function from the arguments to decorators).


def dtype_name(dtype) -> str:
    """``"float32"`` of ``torch.float32``."""
    return str(dtype).split(".")[1]


class _TestParametrizer:
    """Decorators that make several tests of one: `_parametrize_test` gives them."""

    def _parametrize_test(self, test, generic_cls, device_cls):
        raise NotImplementedError

    def __call__(self, fn):
        former = getattr(fn, "parametrize_fn", None)
        own = self._parametrize_test
        fn.parametrize_fn = own if former is None else compose_parametrize_fns(former, own)
        return fn


def compose_parametrize_fns(old_parametrize_fn, new_parametrize_fn):
    """The parametrization over the product of two; names are of the newer one first.

    Raises:
        RuntimeError: when it is used, for a parameter that both have.
    """

    def composed(test, generic_cls, device_cls):
        for old_test, old_name, old_kwargs, old_decorators in list(old_parametrize_fn(test, generic_cls, device_cls)):
            for new in new_parametrize_fn(old_test, generic_cls, device_cls):
                new_test, new_name, new_kwargs, new_decorators = new
                twice = set(old_kwargs) & set(new_kwargs)
                if twice:
                    raise RuntimeError(
                        "Parametrization over the same parameter by multiple parametrization decorators is not "
                        f'supported. For test "{test.__name__}", the following parameters are handled multiple '
                        f"times: {twice}"
                    )
                name = "_".join(part for part in (new_name, old_name) if part)
                yield new_test, name, {**old_kwargs, **new_kwargs}, _both(old_decorators, new_decorators)

    return composed


def _both(first, second):
    return lambda kwargs: [*first(kwargs), *second(kwargs)]


def _none(_):
    return []


def _copied(test):
    """A function of its own, which decorators may mark."""

    @functools.wraps(test)
    def wrapper(*args, **kwargs):
        return test(*args, **kwargs)

    return wrapper


def instantiate_parametrized_tests(generic_cls):
    """Puts the tests of a class's parametrized methods in their place; gives the class (it is a decorator, too).

    >>> import unittest
    >>> from ftorch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, TestCase
    >>> @instantiate_parametrized_tests
    ... class TestSums(TestCase):
    ...     @parametrize("x, y", [(1, 2), (2.5, 1)])
    ...     def test_sum(self, x, y):
    ...         self.assertEqual(x + y, y + x)
    >>> unittest.TestLoader().getTestCaseNames(TestSums)
    ['test_sum_x_1_y_2', 'test_sum_x_2_5_y_1']
    """
    for attribute in tuple(dir(generic_cls)):
        generic = getattr(generic_cls, attribute)
        if not hasattr(generic, "parametrize_fn"):
            continue
        delattr(generic_cls, attribute)
        for test, suffix, kwargs, decorators in generic.parametrize_fn(generic, generic_cls=generic_cls, device_cls=None):
            name = f"{test.__name__}_{suffix}"
            for decorator in decorators(kwargs):
                test = decorator(test)
            if hasattr(generic_cls, name):
                raise AssertionError(f"Redefinition of test {name}")
            setattr(generic_cls, name, _instance(test, kwargs))
    return generic_cls


def _instance(test, kwargs):
    @functools.wraps(test)
    def instantiated_test(self, param_kwargs=kwargs):
        test(self, **param_kwargs)

    return instantiated_test


class subtest:
    """One case of `parametrize`, with a name or decorators of its own.

    Args:
        arg_values: the value of the one parameter, or a tuple of values.
        name: what follows the test's name.
        decorators: applied to this case.
    """

    __slots__ = ["arg_values", "name", "decorators"]

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name = arg_values, name
        self.decorators = decorators if decorators else []


class parametrize(_TestParametrizer):
    """Makes a test of each case, as ``pytest.mark.parametrize`` does, as methods of a `TestCase`.

    Args:
        arg_str: the parameters' names, with commas.
        arg_values: a value (of several parameters a tuple), or a `subtest`, of each case.
        name_fn: makes the name's suffix of the values; by default it is made of names and values.

    Raises:
        RuntimeError: when it is used, for a wrong number of values. ValueError: for no case.
    """

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.arg_names: list[str] = [name.strip() for name in arg_str.split(",") if name != ""]
        self.arg_values, self.name_fn = arg_values, name_fn

    def _formatted_str_repr(self, idx, name, value):
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        if isinstance(value, torch.device):
            return str(value)
        if type(value).__name__ in ("OpInfo", "ModuleInfo"):
            return value.formatted_name
        if isinstance(value, (int, float, str)):
            return f"{name}_{str(value).replace('.', '_')}"
        return f"{name}{idx}"

    def _default_subtest_name(self, idx, values):
        named = zip(self.arg_names, values, strict=True)
        return "_".join(self._formatted_str_repr(idx, name, value) for name, value in named)

    def _get_subtest_name(self, idx, values, explicit_name=None):
        if explicit_name:
            return explicit_name
        return self.name_fn(*values) if self.name_fn else self._default_subtest_name(idx, values)

    def _parametrize_test(self, test, generic_cls, device_cls):
        if not self.arg_names:
            yield test, "", {}, _none
            return
        is_empty = True
        for idx, values in enumerate(self.arg_values):
            is_empty, name, decorators, function = False, None, [], test
            if isinstance(values, subtest):
                name, decorators, values, function = values.name, values.decorators, values.arg_values, _copied(test)
            values = list(values) if len(self.arg_names) > 1 else [values]
            if len(values) != len(self.arg_names):
                raise RuntimeError(
                    f"Expected # values == # arg names, but got: {len(values)} values and {len(self.arg_names)} "
                    f'names for test "{test.__name__}"'
                )
            kwargs = dict(zip(self.arg_names, values, strict=True))
            yield function, self._get_subtest_name(idx, values, name), kwargs, lambda _, found=decorators: found
        if is_empty:
            raise ValueError(
                f"{test}: An empty arg_values was passed to @parametrize. Note that this may result from reuse of a "
                "generator."
            )


class reparametrize(_TestParametrizer):
    """Adapts another parametrization.

    Args:
        parametrizer: the other one.
        adapter_fn: of each case's suffix and arguments, gives None or those of the cases in its place.
    """

    def __init__(self, parametrizer, adapter_fn):
        self.parametrizer, self.adapter_fn = parametrizer, adapter_fn

    def _parametrize_test(self, test, generic_cls, device_cls):
        for function, name, kwargs, decorators in self.parametrizer._parametrize_test(test, generic_cls, device_cls):
            for item in self.adapter_fn(name, kwargs) or ():
                if item is not None:
                    yield function, *item, decorators


class decorateIf(_TestParametrizer):
    """Decorates those cases of a parametrized test for which a predicate holds.

    Args:
        decorator: the decorator.
        predicate_fn: of a case's arguments by name.
    """

    def __init__(self, decorator, predicate_fn):
        self.decorator, self.predicate_fn = decorator, predicate_fn

    def _parametrize_test(self, test, generic_cls, device_cls):
        yield _copied(test), "", {}, lambda kwargs: [self.decorator] if self.predicate_fn(kwargs) else []
