"""Whom a process trusts: the holders of its keys, or, if it says so or is on loopback, everybody who reaches it."""

import logging

from antiphon.runtime.address import SocketAddress, is_loopback, join_address
from antiphon.runtime.environment import current_environment
from antiphon.runtime.errors import KeyMissingError, KeyringError
from antiphon.runtime.keyring import KeySource, KeySupply
from antiphon.runtime.logs import log_event


class Trust:
    """The settings `keyring` and `insecure` of a node, or of whoever makes connections without one."""

    def __init__(self, keyring: KeySource | None = None, insecure: bool = False) -> None:
        if insecure and keyring is not None:
            raise KeyringError("a node is sealed by its keyring, or insecure; not both")
        self._keyring = keyring
        self._insecure = insecure
        self._supply: KeySupply | None = None

    def __repr__(self) -> str:
        keyed = "sealed by a keyring" if self._keyring is not None else "without a keyring"
        return f"<Trust, {'insecure' if self._insecure else keyed}>"

    def keys(self, what: str, address: SocketAddress) -> KeySupply | None:
        """The keys for `what`, which is, or is to be reached, at `address`. None if it may do without: on loopback, or
        because the caller said so, which is logged. Raises KeyMissingError."""
        if self._insecure:
            if not is_loopback(address):
                where = join_address(address)
                text = "what it sends is neither encrypted nor authenticated"
                log_event(logging.WARNING, "node_insecure", text, what=what, address=where)
            return None
        if self._supply is None:
            keyring = self._keyring
            if keyring is None and not is_loopback(address):
                machine = current_environment()
                keyring = machine.keyring
                if keyring is None and machine.needs_keys:
                    raise KeyMissingError(what, join_address(address))
            if keyring is not None:
                self._supply = KeySupply(keyring)
        return self._supply

    def reload(self) -> None:
        """Read the file of the keyring again now; without this, it is within a second. Raises KeyringError."""
        if self._supply is not None:
            self._supply.look()
