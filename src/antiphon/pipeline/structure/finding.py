"""The structure of a history, all of it: what overlaps, what follows from it, and what to do about it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from antiphon.pipeline.structure.broadcast import BroadcastDomain, broadcast_domains
from antiphon.pipeline.structure.overlap import OverlapGraph, overlap_graph
from antiphon.pipeline.structure.placement import Sequencer, clusters_of, host, place
from antiphon.pipeline.structure.traffic import Traffic, measure


@dataclass(frozen=True)
class Structure:
    """What was measured and what was made of it."""

    traffic: Traffic
    graph: OverlapGraph
    sequencers: tuple[Sequencer, ...]
    broadcast_domains: tuple[BroadcastDomain, ...]


def find_structure(
    path: Path | str,
    spark: SparkSession,
    *,
    sequencers_max: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Structure:
    """Measure the history at `path` on Spark, and plan from it, with at most so many sequencers."""
    return plan_structure(measure(path, spark, progress), sequencers_max)


def plan_structure(traffic: Traffic, sequencers_max: int | None = None) -> Structure:
    """What follows from measured traffic."""
    graph = overlap_graph(traffic.members)
    clusters = clusters_of(traffic.members, graph.overlaps, traffic.messages, traffic.bytes)
    sent = {
        group: {process: traffic.by_place[group, process].messages for process in names}
        for group, names in traffic.members.items()
    }
    sequencers = host(place(clusters, sequencers_max), sent)
    return Structure(traffic, graph, sequencers, broadcast_domains(traffic.members, traffic.messages))
