"""Sparse tensors: layouts, conversions, products, sums."""

from __future__ import annotations

_LAYOUTS = [
    "to_sparse()",
    "to_sparse_csr()",
    "to_sparse_csc()",
    "to_sparse_bsr((2, 1))",
    "to_sparse_bsc((1, 2))",
]


def sparse(r):
    """Conversions between layouts and calls in each."""
    first, second = r.choice(_LAYOUTS), r.choice([*_LAYOUTS, "to_dense()"])
    call = r.choice(
        [
            "a + b",
            "a * 2",
            "a @ torch.ones(4, 2)",
            "a @ b",
            "torch.mm(a, b)",
            "a.to_dense()",
            "a.t()",
            "a.sum()",
            "a.sin()",
            "a.transpose(0, 1)",
            "torch.sparse.mm(a, torch.ones(4, 2))",
            "a.abs()",
            "torch.zeros_like(a)",
            "a.clone()",
            "torch.empty_like(a).shape",
            "a.neg()",
            "a.double()",
            "a.detach()",
            "a.to_sparse()",
            "a.to_sparse_csr()",
            "a.to_sparse_csc()",
            "a.to_sparse_bsr((2, 2))",
            "a.to_sparse_coo()",
            "repr(a)",
            "print(a)",
            "a * a",
            "a - b",
            "torch.add(a, b, alpha=2)",
            "a / 2",
            "a.values()",
            "a.coalesce()",
            "a.is_coalesced()",
            "a[0]",
            "a.requires_grad_()",
            "torch.sparse.sum(a, 0)",
            "a.mul(b)",
            "a.zero_()",
            "a.transpose_(0, 1)",
            "a.norm()",
            "a.unsqueeze(0)",
            "torch.addmm(torch.ones(4, 2), a, torch.ones(4, 2))",
            "a.relu()",
            "a.sqrt()",
            "a.numel()",
            "a._nnz()",
            "a == a",
            "torch.sparse.softmax(a, 1)",
            "a.sparse_mask(a)",
            "torch.ones(4, 4).sparse_mask(a)",
            "a.mv(torch.ones(4))",
            "a.dense_dim()",
            "a.sparse_dim()",
            "a.isnan()",
            "a.sum(0)",
            "a.float()",
            "a.pow(2)",
            "a.resize_as_sparse_(a)",
        ]
    )
    return f"""d = torch.tensor([[0., 1., 0., 2.], [0., 0., 0., 0.], [3., 0., -1., 0.], [0., 0., 0., 4.]])
a = d.{first}
b = (d * 2).{second}
{call}"""
