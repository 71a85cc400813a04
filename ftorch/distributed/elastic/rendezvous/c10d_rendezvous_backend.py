"""A rendezvous whose record lies in a `TCPStore` or `FileStore`."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import tempfile
from datetime import timedelta

from ..._store import FileStore, Store, TCPStore
from ..events import NodeState, construct_and_record_rdzv_event
from .api import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousParameters,
    RendezvousStateError,
)
from .dynamic_rendezvous import RendezvousBackend, Token
from .utils import _matches_machine_hostname, parse_rendezvous_endpoint

__all__ = ["C10dRendezvousBackend", "create_backend"]

logger = logging.getLogger(__name__)
DEFAULT_PORT = 29400
_FAILED = "The connection to the C10d store has failed. See inner exception for details."
_ERRORS = (ValueError, RuntimeError, TimeoutError, OSError)


class C10dRendezvousBackend(RendezvousBackend):
    """Keeps the record under a key of a store; its token is its text.

    Raises:
        ValueError: for an empty id.
    """

    _NULL_SENTINEL = "Y2FuaW1hZGFt"  # nothing yet, as PyTorch writes it

    def __init__(self, store: Store, run_id: str):
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store, self._key = store, f"torch.rendezvous.{run_id}"
        self._call_store("compare_set", self._key, "", self._NULL_SENTINEL)

    @property
    def name(self) -> str:
        """``c10d``"""
        return "c10d"

    def get_state(self) -> tuple[bytes, Token] | None:
        """The record and its token; None if there is none."""
        return self._decode_state(self._call_store("get", self._key))

    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Writes the record if its token is still the given one."""
        if token and not isinstance(token, bytes):
            found = self.get_state()
            return None if found is None else (*found, False)
        before = token.decode() if token else self._NULL_SENTINEL
        written = self._call_store("compare_set", self._key, before, base64.b64encode(state).decode())
        found = self._decode_state(written)
        return None if found is None else (*found, found[0] == state)

    def _call_store(self, name, *args):
        try:
            return getattr(self._store, name)(*args)
        except _ERRORS as error:
            raise RendezvousConnectionError(_FAILED) from error

    def _decode_state(self, text: bytes) -> tuple[bytes, Token] | None:
        if text == self._NULL_SENTINEL.encode():
            return None
        try:
            return base64.b64decode(text), text
        except binascii.Error as error:
            raise RendezvousStateError("The state object is corrupt. See inner exception for details.") from error


def _create_tcp_store(params: RendezvousParameters) -> TCPStore:
    host, port = parse_rendezvous_endpoint(params.endpoint, DEFAULT_PORT)
    chosen = params.get_as_bool("is_host")
    serves = _matches_machine_hostname(host) if chosen is None else chosen
    seconds = params.get_as_int("read_timeout", 60) or 0
    if seconds <= 0:
        raise ValueError("The read timeout must be a positive integer.")
    limit = timedelta(seconds=seconds)
    try:
        try:
            return TCPStore(host, port, None, serves, limit, wait_for_workers=False)
        except _ERRORS:
            if not serves or chosen is not None:
                raise
        return TCPStore(host, port, None, False, limit)  # another launcher of this machine serves
    except _ERRORS as error:
        raise RendezvousConnectionError(_FAILED) from error


def _create_file_store(params: RendezvousParameters) -> FileStore:
    path = params.endpoint
    if not path:
        try:
            number, path = tempfile.mkstemp()
        except OSError as error:
            raise RendezvousError(
                "The file creation for C10d store has failed. See inner exception for details."
            ) from error
        os.close(number)
    try:
        return FileStore(path)
    except _ERRORS as error:
        raise RendezvousConnectionError(_FAILED) from error


def create_backend(params: RendezvousParameters) -> tuple[C10dRendezvousBackend, Store]:
    """The backend of parameters, and its store.

    Args:
        params: ``store_type`` is ``tcp`` (at the endpoint) or ``file`` (the endpoint is its path); ``read_timeout`` in
            seconds; ``is_host`` says whether this node serves a ``tcp`` store (by default if the endpoint is here).

    Raises:
        ValueError: for another type. RendezvousConnectionError: if the store cannot be reached.
    """
    try:
        kind = params.get("store_type", "tcp").strip().lower()
        if kind not in ("file", "tcp"):
            raise ValueError("Invalid store type given. Currently only supports file and tcp.")
        store: Store = _create_file_store(params) if kind == "file" else _create_tcp_store(params)
        return C10dRendezvousBackend(store, params.run_id), store
    except Exception as error:
        construct_and_record_rdzv_event(params.run_id, f"{type(error).__name__}: {error}", NodeState.FAILED)
        raise
