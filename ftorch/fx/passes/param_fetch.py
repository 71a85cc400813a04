"""What a lowering to another runtime reads of modules."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...nn import Module
from .._compatibility import compatibility
from .._targets import qualified_name
from ..graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


@compatibility(is_backward_compatible=False)
def default_matching(name: str, target_version: int) -> str:
    """The name of an attribute in every version: the name itself."""
    return name


_CONVOLUTION = "weight bias kernel_size stride padding dilation groups padding_mode"
_NORMALIZATION = "weight bias running_mean running_var eps"

# class -> (version, the attributes that are read, how their names are found)
module_fetch_book: dict[type, tuple[int, list[str], Any]] = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (1, _CONVOLUTION.split(), default_matching),
    nn.BatchNorm2d: (2, _NORMALIZATION.split(), default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (1, "kernel_size stride padding dilation return_indices ceil_mode".split(),
                   default_matching),
    nn.ReLU: (1, ["inplace"], default_matching),
}


@compatibility(is_backward_compatible=False)
def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """The class' name and the attributes of a module that a lowering reads.

    Raises:
        RuntimeError: modules of the class are written in a newer version, or the class is not known.
    """
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{qualified_name(type(mod))} is not in the module_fetch_book yet, please add it")
    version, names, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(f"Fetcher version {version} try to fetch {qualified_name(type(mod))} version "
                           f"{mod._version}, please upgrade the module_fetch_book.")
    found: dict[str, Any] = {"name": qualified_name(type(mod))}
    found.update((n, getattr(mod, matching(n, mod._version))) for n in names)
    return found


@compatibility(is_backward_compatible=False)
def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Notes `extract_attrs_for_lowering` of each module's call as ``node.attrs_for_lowering``."""
    submodules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        module = submodules[node.target]
        if isinstance(module, GraphModule):
            lift_lowering_attrs_to_nodes(module)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(module)
