"""``torch._functorch.apis``."""

from ..functional import grad, grad_and_value, vmap  # noqa: F401


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """`vmap` in a number of chunks of equal size."""

    def wrapped(*args, **kwargs):
        from ..eager.transforms.vmap import _process_batched_inputs

        size = -(-_process_batched_inputs(in_dims, args, func)[0] // chunks)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=size)(*args, **kwargs)

    return wrapped
