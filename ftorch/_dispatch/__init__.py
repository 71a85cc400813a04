"""``__torch_dispatch__``, and ATen's ops that are compositions."""
