"""The blocks of sparse linear layers (``torch.ao.nn.sparse.quantized.utils``)."""

from __future__ import annotations

import threading

__all__ = ["LinearBlockSparsePattern"]


def _is_valid_linear_block_sparse_pattern(row_block_size: int, col_block_size: int) -> bool:
    return (row_block_size, col_block_size) in ((1, 4), (8, 1))


class LinearBlockSparsePattern:
    """Says, within a ``with``, in which blocks layers that are converted have their zeros; (1, 4) elsewhere.

    >>> from ftorch.ao.nn.sparse.quantized.utils import LinearBlockSparsePattern
    >>> with LinearBlockSparsePattern(8, 1):
    ...     LinearBlockSparsePattern.block_size()
    (8, 1)
    """

    # Held from the call on, by one thread at a time.
    rlock = threading.RLock()
    row_block_size: int = 1
    col_block_size: int = 4
    prev_row_block_size: int = 1
    prev_col_block_size: int = 4

    def __init__(self, row_block_size: int = 1, col_block_size: int = 4):
        if not _is_valid_linear_block_sparse_pattern(row_block_size, col_block_size):
            raise AssertionError(
                f"Invalid linear block sparse pattern: row_block_size={row_block_size}, "
                f"col_block_size={col_block_size}"
            )
        own = LinearBlockSparsePattern
        own.rlock.acquire()
        own.prev_row_block_size, own.prev_col_block_size = own.block_size()
        own.row_block_size, own.col_block_size = row_block_size, col_block_size

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type, exc_value, backtrace) -> None:
        own = LinearBlockSparsePattern
        own.row_block_size, own.col_block_size = own.prev_row_block_size, own.prev_col_block_size
        own.rlock.release()

    @staticmethod
    def block_size() -> tuple[int, int]:
        """Rows and columns of a block."""
        return LinearBlockSparsePattern.row_block_size, LinearBlockSparsePattern.col_block_size
