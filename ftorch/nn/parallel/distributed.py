"""``DistributedDataParallel``: the same module in several processes, with averaged gradients."""

from __future__ import annotations

import contextlib

import ftorch as torch

from ..modules.module import Module


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group, once backward has them
    all (``torch.nn.parallel.DistributedDataParallel``).

    Parameters and buffers begin as those of rank 0; buffers follow rank 0 before each forward.

    Args:
        find_unused_parameters: whether parameters that a forward pass does not reach are left out
            of its averaging.

    Raises:
        ValueError: if there is no process group. RuntimeError: if no parameter requires grad.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True,
                 init_sync=True, process_group=None, bucket_cap_mb=None,
                 find_unused_parameters=False, check_reduction=False,
                 gradient_as_bucket_view=False, static_graph=False, **_):  # fmt: skip
        super().__init__()
        dist = torch.distributed
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        self.process_group = process_group or dist.group.WORLD
        if self.process_group is None:
            dist.get_rank()  # raises
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = device_ids, output_device
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        self._expected: list = []
        self._arrived: set[int] = set()
        if init_sync:
            self._follow_first([*module.parameters(), *module.buffers()])
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self._on_gradient)

    def _follow_first(self, tensors):
        if self.process_group.size() > 1:
            for t in tensors:
                torch.distributed.broadcast(t, group=self.process_group, group_src=0)

    def forward(self, *inputs, **kwargs):
        synchronizes = torch.is_grad_enabled() and self.require_backward_grad_sync
        if synchronizes and self.broadcast_buffers:
            self._follow_first(list(self.module.buffers()))
        output = self.module(*inputs, **kwargs)
        self._arrived.clear()
        self._expected = []
        if synchronizes:
            trained = [p for p in self.module.parameters() if p.requires_grad]
            if self.find_unused_parameters:
                reached = _reached(output)
                trained = [p for p in trained if id(p) in reached]
            self._expected = trained
        return output

    def _on_gradient(self, parameter):
        if not self._expected:
            return
        self._arrived.add(id(parameter))
        if len(self._arrived) < len(self._expected):
            return
        expected, self._expected = self._expected, []
        if self.process_group.size() > 1:
            self._average([p.grad for p in expected])

    def _average(self, grads):
        """One exchange for each dtype."""
        by_dtype: dict = {}
        for g in grads:
            by_dtype.setdefault(g.dtype, []).append(g)
        with torch.no_grad():
            for group in by_dtype.values():
                flat = torch.cat([g.reshape(-1) for g in group])
                torch.distributed.all_reduce(
                    flat, torch.distributed.ReduceOp.AVG, group=self.process_group
                )
                for g, part in zip(group, flat.split([g.numel() for g in group])):
                    g.copy_(part.reshape(g.shape))

    @contextlib.contextmanager
    def no_sync(self):
        """Within it, gradients are only accumulated; the first backward behind it averages them."""
        previous, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = previous


def _reached(output):
    """ids of the leaves that an output depends on."""
    from ...utils._pytree import tree_leaves

    found, seen = set(), set()
    stack = [
        t.grad_fn for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.grad_fn
    ]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        stack.extend(n for n, _ in node.next_functions if n is not None)
    return found
