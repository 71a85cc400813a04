"""All parameters of a model as data of a sparsifier (``…lightning.callbacks._data_sparstity_utils``)."""

from __future__ import annotations

import logging

from ftorch.ao.pruning._experimental.data_sparsifier.base_data_sparsifier import SUPPORTED_TYPES

logger: logging.Logger = logging.getLogger(__name__)


def _get_valid_name(name):
    """A name without dots, which buffers may not have."""
    return name.replace(".", "_")


def _attach_model_to_data_sparsifier(module, data_sparsifier, config=None):
    """Adds each parameter; ``config`` is {name without dots: settings}."""
    for path, parameter in module.named_parameters():
        if type(parameter) in SUPPORTED_TYPES:
            name = _get_valid_name(path)
            data_sparsifier.add_data(name=name, data=parameter, **(config or {}).get(name, {}))


def _log_sparsified_level(model, data_sparsifier) -> None:
    """Logs the share of zeros of each parameter's mask."""
    for path, parameter in model.named_parameters():
        if type(parameter) in SUPPORTED_TYPES:
            mask = data_sparsifier.get_mask(name=_get_valid_name(path))
            logger.info("Sparsity in layer %s = %s", path, f"{float(1.0 - mask.float().mean()):.2%}")
