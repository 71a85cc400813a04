"""What graphs say of script objects (``torch.export.custom_obj``)."""

from dataclasses import dataclass

__all__ = ["ScriptObjectMeta"]


@dataclass
class ScriptObjectMeta:
    """A node's script object.

    Args:
        constant_name: its key among the constants. ``class_fqn``: its class.
    """

    constant_name: str
    class_fqn: str
