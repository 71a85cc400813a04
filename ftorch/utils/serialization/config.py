"""Settings of ``torch.save`` and ``torch.load`` (``torch.utils.serialization.config``)."""

import mmap

from .._config_module import install

install(
    __name__, true="save.compute_crc32",
    false="load.mmap load.calculate_storage_offsets save.use_pinned_memory_for_d2h",
    plain={"load.mmap_flags": getattr(mmap, "MAP_PRIVATE", None), "save.storage_alignment": 64},
    open={"load.endianness": None},
)
