"""Domains linked into a communication domain (transis-1992, section 4): the public library of the stack `domain`.

async with antiphon.Node("alice", address=…) as node:
    group = await node.join("site-a", members=…, stack="domain")
    async with CommunicationDomain(group, "A", ["A", "B", "C"], listen="10.0.0.1:7500", links={"B": [...]}) as all:
        await all.send(b"hello", to=["B", "C"], order="agreed")
        async for event in all:
            ...
"""

from antiphon import _build
from antiphon.domain.communication import CommunicationDomain, DomainMessage, LateStateError

__all__ = ["CommunicationDomain", "DomainMessage", "LateStateError"]

_build.restore_docstrings(globals()[name] for name in __all__)
