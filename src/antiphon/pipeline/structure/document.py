"""A structure as the one JSON document that `antiphon structure --json` prints."""

from typing import Any

from antiphon.pipeline.structure.finding import Structure


def structure_document(structure: Structure) -> dict[str, Any]:
    """Lists are in the order of the table; names stand for processes and groups."""
    traffic, graph = structure.traffic, structure.graph
    return {
        "groups": {
            group: {
                "members": sorted(members),
                "messages": traffic.messages[group],
                "bytes": traffic.bytes[group],
                "ordered": traffic.ordered[group],
            }
            for group, members in traffic.members.items()
        },
        "overlaps": [
            {
                "groups": [overlap.first, overlap.second],
                "strong": overlap.is_strong,
                "members": {
                    process: {group: _views(structure, group, process) for group in (overlap.first, overlap.second)}
                    for process in overlap.shared
                },
            }
            for overlap in graph.overlaps
        ],
        "connected": [list(part) for part in graph.connected],
        "biconnected": [list(part) for part in graph.biconnected],
        "bound": graph.bound,
        "sequencers": [
            {
                "process": sequencer.process,
                "clusters": [list(cluster.groups) for cluster in sequencer.clusters],
                "messages": sequencer.messages,
                "bytes": sequencer.bytes,
            }
            for sequencer in structure.sequencers
        ],
        "broadcast_domains": [
            {"members": list(domain.members), "relay": domain.relay, "crossing": list(domain.crossing)}
            for domain in structure.broadcast_domains
        ],
    }


def _views(structure: Structure, group: str, process: str) -> list[int] | None:
    """The first and the last view that list the process; null if none does."""
    share = structure.traffic.by_place[group, process]
    if share.view_first is None or share.view_last is None:
        return None
    return [share.view_first, share.view_last]
