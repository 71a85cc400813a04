"""A `DTensor`'s parts as a picture of text."""

from __future__ import annotations

import itertools

from .._redistribute import local_shape, offsets

__all__ = ["visualize_sharding"]


def visualize_sharding(dtensor, header="", use_rich: bool = False) -> None:
    """Prints which process has which rows and columns of a 1-d or 2-d `DTensor`; the process with the first
    place of the mesh prints.

    Raises:
        RuntimeError: for more dimensions.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor import Shard, distribute_tensor
    >>> from ftorch.distributed.tensor.debug import visualize_sharding
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = distribute_tensor(torch.ones(4), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> visualize_sharding(x)
             Col 0-0
    -------  ---------
    Row 0-3  cpu:0
    >>> dist.destroy_process_group()
    """
    if dtensor.numel() == 0:
        return
    if dtensor.dim() == 0 or dtensor.dim() > 2:
        raise RuntimeError("visualize sharding supports only 1D or 2D DTensor")
    mesh = dtensor.device_mesh
    place = mesh.get_coordinate()
    if place is None or any(place):
        return
    shape = tuple(dtensor.shape)
    cells: dict = {}
    for coordinate in itertools.product(*map(range, mesh.shape)):
        rank = mesh.mesh[coordinate].item()
        begin = offsets(shape, mesh, dtensor.placements, coordinate)
        size = local_shape(shape, mesh, dtensor.placements, place=coordinate)
        if all(size):
            spans = [(b, b + n - 1) for b, n in zip(begin, size)]
            spans = [*spans, (0, 0)] if len(spans) == 1 else spans
            cells.setdefault(tuple(spans), []).append(f"{mesh.device_type}:{rank}")
    rows = sorted({spans[0] for spans in cells})
    columns = sorted({spans[1] for spans in cells})
    table = [["", *(f"Col {_span(c)}" for c in columns)]]
    for r in rows:
        table.append([f"Row {_span(r)}", *(", ".join(cells.get((r, c), [])) for c in columns)])
    widths = [max(len(cell) + 2 * (row is table[0]) for row, cell in zip(table, column))
              for column in zip(*table)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in table]
    lines.insert(1, "  ".join("-" * w for w in widths))
    print("\n".join(lines))


def _span(bounds):
    return f"{bounds[0]}-{bounds[1]}"
