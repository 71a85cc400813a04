"""Texts of endpoints and options."""

from __future__ import annotations

import re

__all__ = ["parse_rendezvous_endpoint"]


def _parse_rendezvous_config(config_str: str) -> dict[str, str]:
    config = {}
    for pair in config_str.strip().split(",") if config_str.strip() else []:
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
            )
        if not value:
            raise ValueError(f"The rendezvous configuration option '{key}' must have a value specified.")
        config[key] = value
    return config


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """(host, port) of ``HOST[:PORT]``.

    Raises:
        ValueError: for other texts.

    >>> parse_rendezvous_endpoint("[::1]:29500", 1)
    ('::1', 29500)
    """
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    host, colon, rest = endpoint, "", ""
    if not (endpoint.startswith("[") and endpoint.endswith("]")):
        host, colon, rest = endpoint.rpartition(":")
        if not colon:
            host, rest = endpoint, ""
    if len(host) > 1 and host[0] == "[" and host[-1] == "]":
        host = host[1:-1]
    port = default_port
    if colon:
        if not re.fullmatch(r"[0-9]{1,5}", rest) or int(rest) >= 2**16:
            raise ValueError(
                f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and 65536."
            )
        port = int(rest)
    if not re.fullmatch(r"[\w\.:-]+", host):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of labels, an "
            "IPv4 address, or an IPv6 address."
        )
    return host, port
