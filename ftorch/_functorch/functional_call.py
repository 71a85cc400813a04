"""``torch._functorch.functional_call``."""

from ..functional import functional_call, stack_module_state  # noqa: F401
