"""Meshes under the former name of `torch.distributed.tensor`."""

from ..device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
