"""Look-up tables of vectors."""

from __future__ import annotations

from ...autograd import no_grad
from ...eager.core import api as torch
from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """What `Embedding` and `EmbeddingBag` share."""

    _ftorch_padding_name: str  # how PyTorch's message writes it

    def _ftorch_set_table(
        self, num_embeddings, embedding_dim, padding_idx, max_norm, norm_type,
        scale_grad_by_freq, weight, requires_grad, factory,
    ):
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not (padding_idx == 0 or -num_embeddings <= padding_idx < num_embeddings):
                raise AssertionError(f"{self._ftorch_padding_name} must be within num_embeddings")
            if padding_idx < 0:
                padding_idx += num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if weight is None:
            weight = torch.empty((num_embeddings, embedding_dim), **factory)
            self.weight = Parameter(weight, requires_grad=requires_grad)
            self.reset_parameters()
            return
        if list(weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight, requires_grad=requires_grad)

    def reset_parameters(self) -> None:
        """Draws normally distributed vectors; the padding's is zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @staticmethod
    def _ftorch_check_matrix(embeddings):
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        return embeddings.shape

    def _ftorch_extra(self, *more):
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, usual in more:
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value!r}"
        return text


class Embedding(_Table):
    """A table of ``num_embeddings`` vectors, looked up by index.

    Shapes: any shape of indices to (*, embedding_dim).

    Args:
        padding_idx: an index whose vector is zero at first and gets no gradient.
        max_norm, norm_type: vectors with a larger norm are scaled down when they are looked up.
        scale_grad_by_freq: divide gradients by how often an index is in the batch.
        sparse: whether the gradient is a sparse tensor.

    Raises:
        AssertionError: ``padding_idx`` is not an index of the table.

    >>> import ftorch as torch
    >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 5]])).shape
    torch.Size([2, 2, 3])
    """

    _ftorch_padding_name = "Padding_idx"

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False, device=None,
        dtype=None,
    ):
        super().__init__()
        self._ftorch_set_table(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            _weight, not _freeze, {"device": device, "dtype": dtype},
        )
        self.sparse = sparse

    def forward(self, input):
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )

    def extra_repr(self):
        return self._ftorch_extra(
            ("padding_idx", None), ("max_norm", None), ("norm_type", 2),
            ("scale_grad_by_freq", False), ("sparse", False),
        )

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, sparse=False,
    ):
        """A module with the given table, which is not trained unless ``freeze`` is False."""
        rows, columns = cls._ftorch_check_matrix(embeddings)
        return cls(
            num_embeddings=rows, embedding_dim=columns, _weight=embeddings, _freeze=freeze,
            padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sums, averages or maximises the vectors of bags of indices.

    Args:
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        include_last_offset: whether the last offset is the number of indices.
        The others are those of `Embedding`; an index of padding does not count.
    """

    _ftorch_padding_name = "padding_idx"

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None,
        include_last_offset=False, padding_idx=None, device=None, dtype=None,
    ):
        super().__init__()
        self._ftorch_set_table(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            _weight, True, {"device": device, "dtype": dtype},
        )
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input, offsets=None, per_sample_weights=None):
        """Reduces the bags of ``input``.

        Args:
            input: indices, (bags, length), or all of them one after the other.
            offsets: where each bag begins, if ``input`` has one dimension.
            per_sample_weights: factors of the vectors (only for ``mode="sum"``).
        """
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self):
        return self._ftorch_extra(
            ("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False), ("mode", None),
            ("padding_idx", None),
        )

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        mode="mean", sparse=False, include_last_offset=False, padding_idx=None,
    ):
        """A module with the given table, which is not trained unless ``freeze`` is False."""
        rows, columns = cls._ftorch_check_matrix(embeddings)
        bag = cls(
            num_embeddings=rows, embedding_dim=columns, _weight=embeddings, max_norm=max_norm,
            norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse,
            include_last_offset=include_last_offset, padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
