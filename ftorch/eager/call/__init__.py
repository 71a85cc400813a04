"""``Op`` and the one way of a call: operands, promotion, plans."""
