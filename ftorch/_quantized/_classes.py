"""The classes of packed weights, by the names that operators give them: ``torch.classes.quantized``, ``rnn`` and ``sparse``."""

from __future__ import annotations

import types

from . import _embedding, _layers, _recurrent, _sparse

quantized = types.SimpleNamespace(
    LinearPackedParamsBase=_layers.LinearPackedParamsBase,
    Conv2dPackedParamsBase=_layers.Conv2dPackedParamsBase,
    Conv3dPackedParamsBase=_layers.Conv3dPackedParamsBase,
    EmbeddingPackedParamsBase=_embedding.EmbeddingPackedParamsBase,
)
rnn = types.SimpleNamespace(CellParamsBase=_recurrent.CellParamsBase)
sparse = types.SimpleNamespace(LinearPackedParamsBase=_sparse.LinearPackedParamsBase)
