"""A rendezvous whose record an etcd server keeps (needs the package python-etcd)."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from types import ModuleType
from typing import Any

from ..._store import Store
from .api import RendezvousConnectionError, RendezvousParameters, RendezvousStateError
from .dynamic_rendezvous import RendezvousBackend, Token
from .etcd_store import EtcdStore
from .utils import parse_rendezvous_endpoint

__all__ = ["EtcdRendezvousBackend", "create_backend"]

_FAILED = "The connection to etcd has failed. See inner exception for details."


def _etcd() -> ModuleType:
    """The client's package. Raises ModuleNotFoundError if it is not there."""
    try:
        import etcd  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The 'etcd' module is required but not installed: install python-etcd, or use the backend c10d, which needs no "
            "server of its own"
        ) from error
    return etcd


class EtcdRendezvousBackend(RendezvousBackend):
    """Keeps the record under a key of an etcd server; its token is the number of its change.

    Args:
        client: an ``etcd.Client``.
        key_prefix: what precedes the key.
        ttl: seconds that the record lives (two hours).

    Raises:
        ValueError: for an empty id.
    """

    _DEFAULT_TTL = 7200

    def __init__(self, client: Any, run_id: str, key_prefix: str | None = None, ttl: int | None = None):
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._client, self._ttl = client, ttl if ttl and ttl > 0 else self._DEFAULT_TTL
        self._key = f"{key_prefix}/{run_id}" if key_prefix else run_id

    @property
    def name(self) -> str:
        """``etcd-v2``"""
        return "etcd-v2"

    def _call(self, name, *args, **kwargs):
        """The result; None for a missing key or one that has changed."""
        etcd = _etcd()
        try:
            return getattr(self._client, name)(*args, **kwargs)
        except (etcd.EtcdKeyNotFound, etcd.EtcdCompareFailed, etcd.EtcdAlreadyExist):
            return None
        except etcd.EtcdException as error:
            raise RendezvousConnectionError(_FAILED) from error

    def get_state(self) -> tuple[bytes, Token] | None:
        """The record and its token; None if there is none."""
        found = self._call("read", self._key)
        return None if found is None else self._decoded(found)

    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Writes the record if its token is still the given one."""
        written = None
        if token is None or isinstance(token, int):
            condition = {"prevIndex": token} if token else {"prevExist": False}
            written = self._call("write", self._key, b64encode(state).decode(), ttl=self._ttl, **condition)
        if written is not None:
            return (*self._decoded(written), True)
        found = self.get_state()
        return None if found is None else (*found, False)

    def _decoded(self, found):
        try:
            return b64decode(found.value), found.modifiedIndex
        except binascii.Error as error:
            raise RendezvousStateError("The state object is corrupt. See inner exception for details.") from error


def _client(params: RendezvousParameters):
    host, port = parse_rendezvous_endpoint(params.endpoint, 2379)
    seconds = params.get_as_int("read_timeout", 60) or 0
    if seconds <= 0:
        raise ValueError("The read timeout must be a positive integer.")
    protocol = params.get("protocol", "http").strip().lower()
    if protocol not in ("http", "https"):
        raise ValueError("The protocol must be HTTP or HTTPS.")
    certificate = params.get("ssl_cert")
    key = params.get("ssl_cert_key")
    etcd = _etcd()
    try:
        return etcd.Client(
            host, port, read_timeout=seconds, protocol=protocol, cert=(certificate, key) if key else certificate,
            ca_cert=params.get("ca_cert"), allow_reconnect=True,
        )
    except (etcd.EtcdException, OSError) as error:
        raise RendezvousConnectionError(_FAILED) from error


def create_backend(params: RendezvousParameters) -> tuple[EtcdRendezvousBackend, Store]:
    """The backend of parameters (``read_timeout``, ``protocol``, ``ssl_cert``, ``ssl_cert_key``, ``ca_cert``), and a store.

    Raises:
        ModuleNotFoundError: without python-etcd. RendezvousConnectionError: if the server cannot be reached.
    """
    client = _client(params)
    backend = EtcdRendezvousBackend(client, params.run_id, "/torch/elastic/rendezvous")
    return backend, EtcdStore(client, "/torch/elastic/store")
