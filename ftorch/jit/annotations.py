"""Types of TorchScript for Python annotations (``torch.jit.annotations``)."""

from __future__ import annotations

import typing

from .torchscript.program.types import Type, type_of_annotation

__all__ = ["Any", "BroadcastingList", "ann_to_type", "try_ann_to_type"]

Any, Dict, List, Optional, Tuple, Union = (  # noqa: UP035
    typing.Any, typing.Dict, typing.List, typing.Optional, typing.Tuple, typing.Union  # noqa: UP006
)


class BroadcastingListCls:
    """``BroadcastingList2[int]``: a list, for which one number may stand."""

    def __getitem__(self, types):
        return typing.List[types]  # noqa: UP006


BroadcastingList = BroadcastingListCls
for _n in range(2, 7):
    globals()[f"BroadcastingList{_n}"] = BroadcastingListCls()


def try_ann_to_type(ann, loc=None, rcb=None) -> Type | None:
    """The type for an annotation, or None where there is none; no annotation is a tensor.

    >>> from ftorch.jit.annotations import try_ann_to_type
    >>> str(try_ann_to_type(dict[str, int]))
    'Dict[str, int]'
    """
    return Type("Tensor") if ann is None else type_of_annotation(ann)


def ann_to_type(ann, loc=None, rcb=None) -> Type:
    """The type for an annotation.

    Raises:
        ValueError: if there is none.
    """
    found = try_ann_to_type(ann, loc, rcb)
    if found is None:
        raise ValueError(f"Unknown type annotation: '{ann}'")
    return found
