"""The exceptions of ``torch.compile`` (``torch._dynamo.exc``)."""

from __future__ import annotations

from ..functional._capture_errors import TorchDynamoException, UncapturedHigherOrderOpError  # noqa: F401

_VERBOSE = (
    "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're reporting a bug "
    'to PyTorch). For even more developer context, set TORCH_LOGS="+dynamo"\n'
)


class Unsupported(TorchDynamoException):
    """A call that cannot be one program, with ``fullgraph=True``."""

    def __init__(self, msg: str, **_):
        super().__init__(msg)
        self.msg = msg


class ShortenTraceback(TorchDynamoException):
    """One whose traceback begins in the user's code."""

    def __init__(self, *args, first_useful_frame=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.first_useful_frame = first_useful_frame

    def remove_dynamo_frames(self):
        """The exception, whose frames above the user's are left out where they are known."""
        if self.first_useful_frame is None or self.__traceback__ is None:
            return self
        tb = self.__traceback__
        while tb is not None and tb.tb_frame is not self.first_useful_frame:
            tb = tb.tb_next
        return self if tb is None else self.with_traceback(tb)


class BackendCompilerFailed(ShortenTraceback):
    """A backend raised."""

    def __init__(self, backend_fn, inner_exception, *_):
        name = getattr(backend_fn, "__name__", "?")
        self.backend_name, self.inner_exception = name, inner_exception
        super().__init__(
            f"backend={name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}{_VERBOSE}"
        )


class InvalidBackend(TorchDynamoException):
    """A backend's name that nobody registered."""

    def __init__(self, name):
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends."
        )


class FailOnRecompileLimitHit(Exception):
    """Too many programs for one function, with ``fullgraph=True``."""


class RecompileError(TorchDynamoException):
    """A second program was needed, with ``config.error_on_recompile``."""


class ResetRequired(TorchDynamoException):
    """A function is compiled again with another backend."""


class TorchRuntimeError(TorchDynamoException):
    """An operation raised while it was captured."""


class InternalTorchDynamoError(TorchDynamoException):
    """A bug."""


class UserError(TorchDynamoException):
    """A program that cannot be captured as it is: Python decides something by a value."""


class TensorifyScalarRestartAnalysis(Exception):
    """Starts a capture again with numbers as tensors: never raised, they are from the start."""
