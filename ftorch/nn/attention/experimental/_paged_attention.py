"""Keys and values in pages of one pool (``torch.nn.attention.experimental._paged_attention``)."""

from __future__ import annotations

from ....eager.core import api as torch
from ....eager.core import dtype as _dtype
from .._block_mask import BlockMask, noop_mask

__all__ = ["PagedAttention"]


def _same_score(score, b, h, q_idx, kv_idx):
    return score


def _expect(what, letter, first, second):
    if first != second:
        raise RuntimeError(f"Expect {what} but got {letter}={first} and {letter}={second}.")


class PagedAttention:
    """Which pages of a pool belong to which sequences of a batch, for `flex_attention` over the pool.

    Caches are (1, H, n_pages * page_size, D): the pages one behind the other.

    Args:
        n_pages, page_size: of the pool. max_batch_size: sequences that may have pages.

    >>> import ftorch as torch
    >>> from ftorch.nn.attention.experimental._paged_attention import PagedAttention
    >>> paged = PagedAttention(n_pages=4, page_size=2, max_batch_size=1, device="cpu")
    >>> paged.reserve(torch.tensor(0), torch.tensor(3))
    >>> paged.page_table
    tensor([[ 1,  0, -1, -1]])
    """

    def __init__(self, n_pages, page_size, max_batch_size, device="cuda"):
        self.n_pages, self.page_size = n_pages, page_size
        # (sequences, their pages): where in the pool, -1: nowhere
        self.page_table = torch.full((max_batch_size, n_pages), -1, dtype=_dtype.int64, device=device)
        self.capacity = torch.zeros(max_batch_size, dtype=_dtype.int64, device=device)
        self.empty_pages = list(range(n_pages))[::-1]
        # (sequences, pages of the pool): which of the sequence's own
        self.physical_to_logical = torch.full_like(self.page_table, -1)

    def reserve(self, batch_idx, seq_len):
        """Gives a sequence the pages that it needs to be of some length.

        Args:
            batch_idx, seq_len: () or (1,).

        Raises:
            AssertionError: there are not as many pages.
        """
        held, wanted = int(self.capacity[batch_idx]), int(seq_len)
        if wanted <= held:
            return
        count, first = -(-(wanted - held) // self.page_size), held // self.page_size
        if count > len(self.empty_pages):
            raise AssertionError(f"requested {count} pages but there are only {len(self.empty_pages)} empty pages")
        pages = torch.tensor(self.empty_pages[-count:], device=self.page_table.device)
        del self.empty_pages[-count:]
        own = torch.arange(first, first + count, device=pages.device)
        self.page_table[batch_idx, own] = pages
        self.physical_to_logical[batch_idx, pages] = own
        self.capacity[batch_idx] += count * self.page_size

    def erase(self, batch_idx):
        """Takes a sequence's pages back; what they were to it stays known until they are given anew.

        Args:
            batch_idx: (1,).
        """
        self.empty_pages += [page for page in self.page_table[batch_idx].flatten().tolist() if page != -1]
        self.page_table[batch_idx] = -1
        self.capacity[batch_idx] = 0

    def assign(self, batch_idx, input_pos, k_val, v_val, k_cache, v_cache):
        """Writes keys and values of sequences into the pool.

        Args:
            batch_idx: (B,). input_pos: (B, S), positions in the sequences. k_val, v_val: (B, H, S, D).
            k_cache, v_cache: (1, H, n_pages * page_size, D).

        Raises:
            RuntimeError: sizes that do not fit.
        """
        batch, heads, length, _ = k_val.shape
        _expect("val and batch_idx have the same batch size", "B", batch, batch_idx.shape[0])
        _expect("val and cache has the same number of heads", "H", heads, k_cache.shape[1])
        if length != input_pos.shape[1]:
            _expect("val and input_pos has the same length", "S", length, input_pos.shape[0])
        for name, value, cache in (("k", k_val, k_cache), ("v", v_val, v_cache)):
            _expect(f"{name}_val and {name}_cache has the same hidden dim", "D", value.shape[3], cache.shape[3])
        pages = self.page_table[batch_idx].gather(1, input_pos // self.page_size)
        places = (pages * self.page_size + input_pos % self.page_size).flatten()
        for value, cache in ((k_val, k_cache), (v_val, v_cache)):
            cache[:, :, places, :] = value.transpose(0, 1).flatten(1, 2)[None]

    def convert_logical_block_mask(self, block_mask, batch_idx=None, kv_len=None):
        """The block mask over the pool for one over sequences, whose blocks of keys are pages.

        Args:
            batch_idx: (B,), of which sequences it is; by default the first ones. kv_len: (B,), their lengths.

        Raises:
            RuntimeError: blocks are not as large as pages.
        """
        size = block_mask.BLOCK_SIZE[1]
        if size != self.page_size:
            raise RuntimeError(
                "Expect block_mask has the same column block size as page_size"
                f"but got size={size} and size={self.page_size}"
            )
        if batch_idx is None:
            batch_idx = torch.arange(block_mask.kv_num_blocks.shape[0], device=self.page_table.device)
        table = self.page_table[batch_idx]

        def over_pool(indices):
            if indices is None:
                return None
            found = torch.gather(table, 1, indices.flatten(1).to(_dtype.int64)).reshape(indices.shape)
            return torch.nn.functional.pad(found.to(_dtype.int32), (0, self.n_pages - indices.shape[-1]))

        full = block_mask.full_kv_num_blocks
        return BlockMask.from_kv_blocks(
            block_mask.kv_num_blocks.clone(), over_pool(block_mask.kv_indices),
            None if full is None else full.clone(), over_pool(block_mask.full_kv_indices), block_mask.BLOCK_SIZE,
            self.get_mask_mod(block_mask.mask_mod, kv_len), (block_mask.seq_lengths[0], self.n_pages * self.page_size),
        )

    def get_mask_mod(self, mask_mod, kv_len=None):
        """A mask of sequences as one of the pool: what is not the sequence's does not pass."""
        mask_mod = mask_mod or noop_mask

        def over_pool(b, h, q_idx, kv_idx):
            own, position = self._position(b, kv_idx, kv_len)
            return torch.where(own, mask_mod(b, h, q_idx, position), False)

        return over_pool

    def get_score_mod(self, score_mod, kv_len=None):
        """A function of scores of sequences as one of the pool: what is not the sequence's gets -inf."""
        score_mod = score_mod or _same_score

        def over_pool(score, b, h, q_idx, kv_idx):
            own, position = self._position(b, kv_idx, kv_len)
            return torch.where(own, score_mod(score, b, h, q_idx, position), float("-inf"))

        return over_pool

    def _position(self, b, kv_idx, kv_len):
        """(whether a place of the pool belongs to a sequence, its position there)."""
        page = self.physical_to_logical[b, kv_idx // self.page_size]
        position = page * self.page_size + kv_idx % self.page_size
        own = page >= 0
        return (own if kv_len is None else own & (position < kv_len[b])), position
