"""Attention over pages, and block masks from lists of blocks, are PyTorch's."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch as reference

import ftorch

pytestmark = pytest.mark.filterwarnings("ignore")


def _modules(torch):
    attention = f"{torch.__name__}.nn.attention"
    flex = importlib.import_module(f"{attention}.flex_attention")
    flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    return flex, importlib.import_module(f"{attention}.experimental._paged_attention").PagedAttention


def _causal(b, h, q, kv):
    return q >= kv


def _both(program):
    mine, theirs = (program(torch, *_modules(torch)) for torch in (ftorch, reference))
    for m, t in zip(mine, theirs, strict=True):
        if isinstance(t, reference.Tensor):
            np.testing.assert_allclose(m.numpy(), t.numpy(), 1e-5, 1e-5)
        else:
            assert m == t


def test_sequences_share_a_pool():
    def program(torch, flex, paged_attention):
        torch.manual_seed(0)
        paged = paged_attention(16, 8, 2, device="cpu")
        query, key, value = (torch.randn(2, 3, 24, 4) for _ in range(3))
        keys, values = torch.zeros(1, 3, 128, 4), torch.zeros(1, 3, 128, 4)
        for row, length in ((1, 9), (0, 24), (1, 24)):
            paged.reserve(torch.tensor(row), torch.tensor(length))
        paged.assign(torch.tensor([0, 1]), torch.arange(24)[None].expand(2, -1), key, value, keys, values)
        logical = flex.create_block_mask(_causal, 2, None, 24, 24, device="cpu", BLOCK_SIZE=8)
        lengths = torch.tensor([24, 11])
        mask = paged.convert_logical_block_mask(logical, torch.tensor([0, 1]), lengths)
        pool = [x.expand(2, -1, -1, -1) for x in (keys, values)]
        plain = flex.flex_attention(query, *pool, block_mask=mask)
        scored = flex.flex_attention(
            query, *pool, score_mod=paged.get_score_mod(lambda s, b, h, q, kv: s - kv, lengths), block_mask=mask
        )
        found = [plain, scored, paged.page_table.clone(), paged.capacity.clone(), mask.kv_indices, mask.q_indices]
        paged.erase(torch.tensor([1]))
        return [*found, paged.page_table, paged.capacity, paged.empty_pages, mask.shape]

    _both(program)


@pytest.mark.parametrize("length, size", [(300, 4), (3, 5)])
def test_what_does_not_fit(length, size):
    def program(torch, flex, paged_attention):
        paged = paged_attention(4, 8, 1, device="cpu")
        said = []
        try:
            paged.reserve(torch.tensor(0), torch.tensor(length))
            keys, caches = torch.zeros(1, 2, 3, size), torch.zeros(1, 2, 32, 4)
            paged.assign(torch.tensor([0]), torch.arange(3)[None], keys, keys, caches, caches)
        except (AssertionError, RuntimeError) as error:
            said.append(f"{type(error).__name__}: {error}")
        mask = flex.create_block_mask(_causal, 1, None, 32, 32, device="cpu", BLOCK_SIZE=16)
        with pytest.raises(RuntimeError) as caught:
            paged.convert_logical_block_mask(mask)
        return [*said, str(caught.value)]

    _both(program)


def test_blocks_behind_those_that_count_are_not_read():
    def program(torch, flex, paged_attention):
        counts, indices = torch.tensor([[[1, 2]]]), torch.tensor([[[[0, 0], [0, 1]]]])
        mask = flex.BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=32, mask_mod=_causal)
        return mask.to_dense(), mask.q_num_blocks, len(mask.as_tuple()), len(mask.as_tuple(flatten=False))

    _both(program)
