"""Downloads of weights, by the older name (``torch.utils.model_zoo``): see `ftorch.hub`."""

from ..hub import load_state_dict_from_url as load_url
from ..hub import tqdm  # noqa: F401

__all__ = ["load_url"]
