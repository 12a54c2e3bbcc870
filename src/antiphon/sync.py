"""Node, Group and clients for plain threads; see `antiphon.runtime.sync`, of which this is the public name."""

from antiphon.runtime.sync import Connection, Group, Node, connect

__all__ = ["Connection", "Group", "Node", "connect"]
