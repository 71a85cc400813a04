"""Functions of dictionaries that give new ones."""

from __future__ import annotations

import functools
import operator

__all__ = ("merge", "merge_with", "valmap", "keymap", "itemmap", "valfilter", "keyfilter", "itemfilter", "assoc",
           "dissoc", "assoc_in", "update_in", "get_in")


def _factory(name, kwargs):
    factory = kwargs.pop("factory", dict)
    if kwargs:
        raise TypeError(f"{name}() got an unexpected keyword argument '{kwargs.popitem()[0]}'")
    return factory


def merge(*dicts, **kwargs):
    """One dictionary of several (or of a list of them); later ones count."""
    result = _factory("merge", kwargs)()
    for d in dicts[0] if len(dicts) == 1 and not isinstance(dicts[0], dict) else dicts:
        result.update(d)
    return result


def merge_with(func, *dicts, **kwargs):
    """One dictionary of several, with a function of the list of a key's values."""
    result = _factory("merge_with", kwargs)()
    values: dict = {}
    for d in dicts[0] if len(dicts) == 1 and not isinstance(dicts[0], dict) else dicts:
        for k, v in d.items():
            values.setdefault(k, []).append(v)
    result.update((k, func(v)) for k, v in values.items())
    return result


def _made(factory, items):
    result = factory()
    result.update(items)
    return result


def valmap(func, d, factory=dict):
    """With a function of each value."""
    return _made(factory, zip(d.keys(), map(func, d.values())))


def keymap(func, d, factory=dict):
    """With a function of each key."""
    return _made(factory, zip(map(func, d.keys()), d.values()))


def itemmap(func, d, factory=dict):
    """With a function of each item, which gives an item."""
    return _made(factory, map(func, d.items()))


def valfilter(predicate, d, factory=dict):
    """The items whose values pass."""
    return _made(factory, [(k, v) for k, v in d.items() if predicate(v)])


def keyfilter(predicate, d, factory=dict):
    """The items whose keys pass."""
    return _made(factory, [(k, v) for k, v in d.items() if predicate(k)])


def itemfilter(predicate, d, factory=dict):
    """The items that pass."""
    return _made(factory, [item for item in d.items() if predicate(item)])


def assoc(d, key, value, factory=dict):
    """With another value of a key."""
    return _made(factory, [*d.items(), (key, value)])


def dissoc(d, *keys, **kwargs):
    """Without some keys."""
    return _made(_factory("dissoc", kwargs), [(k, v) for k, v in d.items() if k not in keys])


def assoc_in(d, keys, value, factory=dict):
    """With another value in nested dictionaries."""
    return update_in(d, keys, lambda _: value, value, factory)


def update_in(d, keys, func, default=None, factory=dict):
    """With a function of a value in nested dictionaries; of a default where there is none."""
    key, *rest = keys
    if rest:
        value = update_in(d[key] if key in d else factory(), rest, func, default, factory)
    else:
        value = func(d[key] if key in d else default)
    return assoc(d, key, value, factory)


def get_in(keys, coll, default=None, no_default=False):
    """The value at the end of keys, or a default.

    Raises:
        KeyError, IndexError, TypeError: without one, if ``no_default``.
    """
    try:
        return functools.reduce(operator.getitem, keys, coll)
    except (KeyError, IndexError, TypeError):
        if no_default:
            raise
        return default


def groupby(key, seq):
    """{what a function (or index) gives: the elements for which it does}."""
    function = (
        key if callable(key) else operator.itemgetter(*key) if isinstance(key, list) else operator.itemgetter(key)
    )
    found: dict = {}
    for item in seq:
        found.setdefault(function(item), []).append(item)
    return found


def first(seq):
    """The first element."""
    return next(iter(seq))
