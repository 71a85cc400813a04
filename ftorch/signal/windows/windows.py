"""``torch.signal.windows.windows``: the same functions, where PyTorch defines them."""

from ...eager.core import api as _api

globals().update(vars(_api.signal.windows))
