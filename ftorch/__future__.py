"""How modules take tensors of another device or dtype (``torch.__future__``).

`Module.to` and its relatives give a parameter other data and keep the object, unless one of these
settings says otherwise: to make new parameters, or to exchange the old ones with new tensors.
"""

from __future__ import annotations

_overwrite_module_params_on_conversion: bool = False
_swap_module_params_on_conversion: bool = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and its relatives put new parameters into the module.

    >>> import ftorch as torch
    >>> layer = torch.nn.Linear(2, 2)
    >>> former = layer.weight
    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> layer.double().weight is former
    False
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` was given last; at first False.

    >>> import ftorch as torch
    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and its relatives, and `Module.load_state_dict`, exchange parameters with
    new tensors by `torch.utils.swap_tensors`. It goes before `set_overwrite_module_params_on_conversion`.

    What a state's entry becomes before the exchange says `Tensor.module_load`.

    >>> import ftorch as torch
    >>> layer = torch.nn.Linear(2, 2)
    >>> former = layer.weight
    >>> torch.__future__.set_swap_module_params_on_conversion(True)
    >>> layer.double().weight is former
    True
    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` was given last; at first False.

    >>> import ftorch as torch
    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _swap_module_params_on_conversion
