"""Parameters whose parts say themselves what is gathered of them, and how that becomes the whole parameter.

A part (a tensor subclass, or a tensor with these attributes) has ``fsdp_pre_all_gather(mesh, outer_size, outer_stride,
module, mp_policy)``, which gives (tensors, metadata), and ``fsdp_post_all_gather(outputs, metadata, dtype, out=None)``, which
gives (whole parameter, tensors whose memory it is) or, the next time, fills ``out``. So parts in float8 or packed ones travel
as such.
"""

from __future__ import annotations

import inspect
import math

import ftorch as torch

from ...autograd.grad_mode import _unsafe_preserve_version_counter


def is_extended(part) -> bool:
    """Whether a part says what is gathered of it.

    Raises:
        AssertionError: if it says but half of it.
    """
    before, behind = hasattr(part, "fsdp_pre_all_gather"), hasattr(part, "fsdp_post_all_gather")
    if before != behind:
        raise AssertionError(
            "Both fsdp_pre_all_gather and fsdp_post_all_gather should be defined "
            f"if using all-gather extensions: {part}"
        )
    return before


class GatherExtension:
    """What is gathered of one parameter, and what the whole one consists of. Memory that is given up keeps its tensors:
    what backward has saved of them is there again when they are."""

    def __init__(self):
        self.metadata = None
        self.sizes: list = []  # of what this process gives
        self.outputs: tuple = ()  # what was gathered
        self.inner: tuple = ()  # the whole parameter's memory

    def inputs(self, p, mesh, policy) -> list:
        """What this process gives, as flat tensors.

        Args:
            p: the parameter. ``mesh``: that of the parts. ``policy``: the group's `MixedPrecisionPolicy`.

        Raises:
            AssertionError: for a function of other arguments, and for a part that is not as long as the longest.
        """
        part = p.local.detach() if not isinstance(p.local, torch.nn.Parameter) else p.local
        say = p.local.fsdp_pre_all_gather
        count = len(inspect.signature(say).parameters)
        if count not in (1, 5):
            raise AssertionError(
                f"Invalid fsdp_pre_all_gather: {inspect.signature(say)}\n"
                "Expects fsdp_pre_all_gather(self, mesh: DeviceMesh, outer_size: torch.Size, outer_stride: tuple[int, ...], "
                "module: nn.Module, mp_policy: MixedPrecisionPolicy)"
            )
        given = (mesh,) if count == 1 else (mesh, torch.Size(p.shape), _contiguous(p.shape), p.owners[0][0], policy)
        tensors, self.metadata = say(*given)
        longest = torch.Size([-(-p.shape[0] // mesh.size()), *p.shape[1:]])
        if count == 5 and part.size() != longest and any(t.size() != longest for t in tensors):
            raise AssertionError(
                f"When a parameter is unevenly sharded by FSDP (orig size={torch.Size(p.shape)}, FSDP world size="
                f"{mesh.size()}), fsdp_pre_all_gather must return all-gather inputs with the padded sharded size {longest} "
                f"but got {[t.size() for t in tensors]}"
            )
        self.sizes = [t.size() for t in tensors]
        return [_numbers(t.reshape(-1)) for t in tensors]

    def whole(self, p, rows, dtype, leaf):
        """The whole parameter, in the memory of ``leaf`` if there is one.

        Args:
            rows: for each of `inputs`, those of all processes.
        """
        found = [row.reshape(-1, *size[1:]) for row, size in zip(rows, self.sizes)]
        if leaf is None or not self.outputs:
            self.outputs = tuple(t.clone() for t in found)
            made, inner = p.local.fsdp_post_all_gather(self.outputs, self.metadata, dtype)
            self.inner, self.metadata = tuple(inner), None
            return made.as_strided(p.shape, _contiguous(p.shape), 0)
        for t in (*self.outputs, *self.inner):
            if not t.untyped_storage().size():
                t.untyped_storage().resize_(t.numel() * t.element_size())
        with _unsafe_preserve_version_counter(self.outputs):
            for kept, now in zip(self.outputs, found):
                kept.copy_(now)
        p.local.fsdp_post_all_gather(self.outputs, self.metadata, dtype, out=leaf)
        self.metadata = None
        return leaf

    def free(self) -> None:
        """Gives up the memory."""
        for t in (*self.outputs, *self.inner):
            t.untyped_storage().resize_(0)


def _numbers(t):
    """A tensor of no class of its own."""
    return t if type(t) is torch.Tensor else torch.empty(t.shape, dtype=t.dtype, device=t.device).copy_(t)


def _contiguous(shape):
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
