"""How the styles of tensor parallelism are printed: as PyTorch's."""

from __future__ import annotations

import pytest
import torch.distributed.tensor as their_tensor
import torch.distributed.tensor.parallel as theirs

import ftorch.distributed.tensor as my_tensor
import ftorch.distributed.tensor.parallel as mine

STYLES = {
    "ColwiseParallel": lambda n: {},
    "RowwiseParallel": lambda n: {"output_layouts": n.Shard(1), "use_local_output": False},
    "SequenceParallel": lambda n: {},
    "PrepareModuleInput": lambda n: {"input_layouts": n.Shard(0), "desired_input_layouts": n.Replicate()},
    "PrepareModuleOutput": lambda n: {"output_layouts": n.Shard(0), "desired_output_layouts": n.Replicate()},
    "PrepareModuleInputOutput": lambda n: {
        "input_layouts": n.Shard(0), "desired_input_layouts": n.Replicate(), "output_layouts": n.Shard(1),
        "desired_output_layouts": n.Replicate(),
    },
}


@pytest.mark.parametrize("name", STYLES)
def test_shown(name):
    own = getattr(mine, name)(**STYLES[name](my_tensor))
    assert repr(own) == repr(getattr(theirs, name)(**STYLES[name](their_tensor)))
