"""Several QConfigs for each part of a model (``torch.ao.ns.fx.qconfig_multi_mapping``)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ftorch.ao.quantization import QConfigMapping, qconfig_equals
from ftorch.ao.quantization.qconfig_mapping import _QCONFIG_STYLE_ORDER

__all__ = ["QConfigMultiMapping"]

_QCONFIG_STYLE_TO_METHOD = {
    "global_qconfig": "set_global", "object_type_qconfigs": "set_object_type",
    "module_name_regex_qconfigs": "set_module_name_regex", "module_name_qconfigs": "set_module_name",
    "module_name_object_type_order_qconfigs": "set_module_name_object_type_order",
}


def _remove_duplicates_and_none(qconfig_list: list[Any]) -> None:
    """Takes out, in place, what is there before, and the first None with all that was to be checked after it."""
    removed = []
    for i, qconfig in enumerate(qconfig_list):
        if qconfig is None:
            removed.append(i)
            break
        if any(qconfig_equals(qconfig, before) for before in qconfig_list[:i]):
            removed.append(i)
    for i in reversed(removed):
        del qconfig_list[i]


class QConfigMultiMapping:
    """As `QConfigMapping`, with a list of QConfigs for each part: what `prepare_n_shadows_model` tries.

    >>> import ftorch as torch
    >>> from ftorch.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
    >>> q = torch.ao.quantization
    >>> both = QConfigMultiMapping().set_global([q.default_qconfig, q.default_dynamic_qconfig])
    >>> len(both.qconfig_mappings_list)
    2
    """

    def __init__(self) -> None:
        self.qconfig_mappings_list: list[QConfigMapping] = [QConfigMapping()]

    def _handle_list_size_mismatch(self, qconfig_list: list[Any], style: str) -> None:
        mappings = self.qconfig_mappings_list
        if len(qconfig_list) <= len(mappings):
            qconfig_list += [None] * (len(mappings) - len(qconfig_list))
            return
        # A new mapping has None for what the others name, so that its global QConfig is not taken for them.
        empty = QConfigMapping()
        for name in _QCONFIG_STYLE_ORDER[1:]:
            getattr(empty, name).update(dict.fromkeys(getattr(mappings[0], name)))
        mappings += [copy.deepcopy(empty) for _ in range(len(qconfig_list) - len(mappings))]

    def _insert_qconfig_list(self, style: str, args: list[Any], qconfig_list: list[Any]) -> QConfigMultiMapping:
        _remove_duplicates_and_none(qconfig_list)
        self._handle_list_size_mismatch(qconfig_list, style)
        for mapping, qconfig in zip(self.qconfig_mappings_list, qconfig_list):
            getattr(mapping, _QCONFIG_STYLE_TO_METHOD[style])(*args, qconfig)
        return self

    def set_global(self, global_qconfig_list: list[Any]) -> QConfigMultiMapping:
        """QConfigs of what is not named otherwise."""
        return self._insert_qconfig_list("global_qconfig", [], global_qconfig_list)

    def set_object_type(self, object_type: Callable | str, qconfig_list: list[Any]) -> QConfigMultiMapping:
        """QConfigs of a class, a function or a method."""
        return self._insert_qconfig_list("object_type_qconfigs", [object_type], qconfig_list)

    def set_module_name_regex(self, module_name_regex: str, qconfig_list: list[Any]) -> QConfigMultiMapping:
        """QConfigs of modules whose paths match."""
        return self._insert_qconfig_list("module_name_regex_qconfigs", [module_name_regex], qconfig_list)

    def set_module_name(self, module_name: str, qconfig_list: list[Any]) -> QConfigMultiMapping:
        """QConfigs of a module."""
        return self._insert_qconfig_list("module_name_qconfigs", [module_name], qconfig_list)

    def set_module_name_object_type_order(self, module_name: str, object_type: Callable, index: int,
                                          qconfig_list: list[Any]) -> QConfigMultiMapping:
        """QConfigs of the ``index``-th call of something in a module."""
        return self._insert_qconfig_list(
            "module_name_object_type_order_qconfigs", [module_name, object_type, index], qconfig_list
        )

    def __repr__(self):
        return f"{type(self).__name__} [" + "".join(f"\n{m!r}," for m in self.qconfig_mappings_list) + "\n]"

    @classmethod
    def from_list_qconfig_mapping(cls, qconfig_mapping_list: list[QConfigMapping]) -> QConfigMultiMapping:
        """The QConfigs of several mappings, without those that are there twice."""
        new = cls()
        new.qconfig_mappings_list = copy.deepcopy(qconfig_mapping_list)
        for style in _QCONFIG_STYLE_ORDER[1:]:
            by_key: dict[Any, list[Any]] = {}
            for mapping in qconfig_mapping_list:
                for key, qconfig in getattr(mapping, style).items():
                    by_key.setdefault(key, []).append(qconfig)
            for key, qconfigs in by_key.items():
                new._insert_qconfig_list(style, list(key) if isinstance(key, tuple) else [key], qconfigs)
        return new
