"""Which methods, attributes and operators a trace looks at or replaces."""

from __future__ import annotations

LOOKS = {
    "__bool__": "Converting a tensor to a Python boolean", "__int__": "Converting a tensor to a "
    "Python integer", "__float__": "Converting a tensor to a Python float", "__index__":
    "Converting a tensor to a Python index", "item": "Converting a tensor to a Python number",
    "tolist": "Converting a tensor to a Python list", "numpy": "Converting a tensor to a NumPy "
    "array", "__array__": "Converting a tensor to a NumPy array",
}
FROZEN = (
    " might cause the trace to be incorrect. We can't record the data flow of Python values, so "
    "this value will be treated as a constant in the future. This means that the trace might not "
    "generalize to other inputs!"
)
ITERATION = (
    "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different "
    "shape won't change the number of iterations executed (and might lead to errors or silently "
    "give incorrect results)."
)
LENGTH = (
    "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would "
    "be tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give "
    "incorrect results."
)
# Tensor attributes that are ops.
PROPERTIES = {"T": "numpy_T", "mT": "mT", "H": "matrix_H", "mH": "mH", "real": "real",
               "imag": "imag", "data": "detach"}
# Methods that give a value to Python, or are about the object.
PASSED = frozenset(
    "backward dim element_size get_device is_complex is_contiguous is_floating_point is_pinned item "
    "numel ndimension numpy requires_grad_ retain_grad size stride storage_offset tolist __format__ "
    "data_ptr is_same_size untyped_storage storage register_hook cpu_ share_memory_ is_inference "
    "is_signed type_ jax has_names as_subclass".split()
)
OPERATORS = frozenset(
    f"__{n}__" for n in (
        "add radd sub rsub mul rmul truediv rtruediv pow rpow matmul rmatmul mod floordiv eq ne lt le gt "
        "ge and or xor neg invert abs iadd isub imul itruediv iand ior getitem setitem"
    ).split()
)
LISTS = frozenset("chunk split split_with_sizes unbind tensor_split".split())
# Methods that sparse tensors have of their own, each of which is one op.
OF_SPARSE = (
    "to_sparse", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc", "to_dense", "coalesce", "values",
    "indices", "sparse_mask", "crow_indices", "col_indices", "ccol_indices", "row_indices",
)
EFFECTS = frozenset({"batch_norm", "instance_norm"})
RANDOM = frozenset(
    "dropout feature_dropout alpha_dropout bernoulli rand randperm randn rand_like randn_like randint normal "
    "multinomial bernoulli_ normal_ uniform_ random_ exponential_".split()
)
