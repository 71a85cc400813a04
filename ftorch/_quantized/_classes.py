"""The classes of packed weights, by the names that operators give them: ``torch.classes.quantized`` and ``rnn``."""

from __future__ import annotations

import types

from . import _embedding, _layers, _recurrent

quantized = types.SimpleNamespace(
    LinearPackedParamsBase=_layers.LinearPackedParamsBase,
    Conv2dPackedParamsBase=_layers.Conv2dPackedParamsBase,
    Conv3dPackedParamsBase=_layers.Conv3dPackedParamsBase,
    EmbeddingPackedParamsBase=_embedding.EmbeddingPackedParamsBase,
)
rnn = types.SimpleNamespace(CellParamsBase=_recurrent.CellParamsBase)
