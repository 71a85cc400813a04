"""What a device module offers where there is no such device (``torch.mps``, ``torch.xpu``)."""

from __future__ import annotations

# The names that programs ask of an accelerator's module. Settings of nothing do nothing; whatever
# needs a device raises.
_NO_EFFECT = {
    "manual_seed", "manual_seed_all", "seed", "seed_all", "ipc_collect", "empty_cache",
    "reset_peak_memory_stats", "set_rng_state_all", "reset_accumulated_memory_stats", "set_stream",
}
_ZERO = {
    "device_count", "memory_allocated", "max_memory_allocated", "memory_reserved",
    "max_memory_reserved",
}
_FALSE = {"is_available", "is_initialized", "is_bf16_supported"}


def functions(names, error: type[Exception], message: str) -> dict:
    """{name: function} of a device type that is not here; ``message`` may name the function."""
    made = {}
    for name in names:
        if name in _NO_EFFECT:
            function = _constant(None, "Does nothing: there is no such device.")
        elif name in _ZERO:
            function = _constant(0, "0: there is no such device.")
        elif name in _FALSE:
            function = _constant(False, "False: there is no such device.")
        else:
            function = _raising(error, message.format(name))
        function.__name__ = function.__qualname__ = name
        made[name] = function
    return made


def _constant(value, doc):
    def function(*args, **kwargs):
        return value

    function.__doc__ = doc
    return function


def _raising(error, message):
    def function(*args, **kwargs):
        raise error(message)

    function.__doc__ = f"Raises {error.__name__}: there is no such device."
    return function


def classes(module: str, names, message: str = "Tried to instantiate dummy base class {}") -> dict:
    """{name: class} of a device type that is not here: they can be named and subclassed, not made."""
    made = {}
    for name in names:

        def __new__(cls, *args, _name=name, **kwargs):
            raise RuntimeError(message.format(_name))

        doc = "Of a device that is not here: raises RuntimeError when made."
        made[name] = type(name, (), {"__new__": __new__, "__doc__": doc, "__module__": module})
    return made
