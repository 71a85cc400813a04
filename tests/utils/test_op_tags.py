"""The tags of ops: what graphs' passes and modes ask for."""

import pytest

import ftorch

torch = pytest.importorskip("torch")


def _tags(library):
    """By all names that PyTorch has, whichever of them something has asked for before."""
    found = {}
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(library.ops.aten, name, None) if full.startswith("aten::") else None
        op = getattr(packet, overload or "default", None)
        if op is not None and hasattr(op, "tags"):
            found[name, overload or "default"] = sorted(tag.name for tag in op.tags)
    return found


def test_overloads_have_pytorchs_tags():
    mine, theirs = _tags(ftorch), _tags(torch)
    shared = mine.keys() & theirs.keys()
    assert len(shared) > 2000
    assert {k for k in shared if mine[k] != theirs[k]} <= {
        ("copy_", "Tensor"), ("copy_", "int"),  # of TorchScript's numbers
        ("set_", "source_Tensor"), ("_fused_adam_", "default"), ("_fused_adamw_", "default"),
        ("_amp_foreach_non_finite_check_and_unscale_", "default"),
    }


def test_a_tag_is_a_number_with_a_name():
    for tag in torch.Tag.__members__.values():
        other = getattr(ftorch.Tag, tag.name)
        assert (int(other), str(other), repr(other)) == (int(tag), str(tag), repr(tag))
