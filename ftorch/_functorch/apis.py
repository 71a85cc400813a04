"""``torch._functorch.apis``."""

from ..functional import grad, grad_and_value, vmap  # noqa: F401


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """`vmap` in a number of chunks of equal size."""

    def wrapped(*args, **kwargs):
        from ..functional.vmap import _batch_size, _flat_in_dims

        flat, dims, _ = _flat_in_dims(in_dims, args, func)
        size = -(-_batch_size(flat, dims) // chunks)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=size)(*args, **kwargs)

    return wrapped
