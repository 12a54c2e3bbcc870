"""Layers of a bad network as documents and back, so that a script can name them one by one.

A document has the `kind` of the layer, its numbers under the names that the layer gives them, and `healed_ns` where it
is over by then.
"""

from typing import Any

from antiphon.faults import (
    BurstLoss,
    Corruption,
    Delay,
    Duplication,
    Fault,
    Flapping,
    Loss,
    Oversize,
    Partition,
    Reordering,
)
from antiphon.kernel.errors import UsageError
from antiphon.simulator.fault_schedule import Until


def layer_document(layer: Fault) -> dict[str, Any]:
    """What it takes to make the same layer again."""
    if isinstance(layer, Until):
        return {**layer_document(layer.layer), "healed_ns": layer.until_ns}
    if isinstance(layer, Loss):
        return {"kind": "loss", "probability": layer.probability}
    if isinstance(layer, BurstLoss):
        return {"kind": "bursts", "probability": layer.probability, "length_ns": layer.length_ns}
    if isinstance(layer, Duplication):
        return {"kind": "duplication", "probability": layer.probability, "lag_ns_max": layer.lag_ns_max}
    if isinstance(layer, Delay):
        return {"kind": "delay", "least_ns": layer.least_ns, "spread_ns": layer.spread_ns}
    if isinstance(layer, Reordering):
        return {"kind": "reordering", "probability": layer.probability, "hold_ns_max": layer.hold_ns_max}
    if isinstance(layer, Corruption):
        return {"kind": "corruption", "probability": layer.probability}
    if isinstance(layer, Flapping):
        return {
            "kind": "flapping",
            "ones": sorted(layer.ones),
            "others": sorted(layer.others),
            "from_ns": layer.from_ns,
            "until_ns": layer.until_ns,
            "up_ns": layer.up_ns,
            "down_ns": layer.down_ns,
        }
    if isinstance(layer, Oversize):
        return {
            "kind": "oversize",
            "sources": sorted(layer.sources),
            "destinations": sorted(layer.destinations),
            "from_ns": layer.from_ns,
            "bytes_max": layer.bytes_max,
        }
    assert isinstance(layer, Partition), f"{type(layer).__name__} has no document"
    return {
        "kind": "partition",
        "sources": sorted(layer.sources),
        "destinations": sorted(layer.destinations),
        "from_ns": layer.from_ns,
        "until_ns": layer.until_ns,
    }


def layer_of(document: dict[str, Any]) -> Fault:
    """A new layer as described. Raises UsageError for a kind that there is not, KeyError where a number is missing."""
    if "healed_ns" in document:
        rest = {name: value for name, value in document.items() if name != "healed_ns"}
        return Until(layer_of(rest), document["healed_ns"])
    kind = document["kind"]
    if kind == "loss":
        return Loss(document["probability"])
    if kind == "bursts":
        return BurstLoss(document["probability"], document["length_ns"])
    if kind == "duplication":
        return Duplication(document["probability"], document["lag_ns_max"])
    if kind == "delay":
        return Delay(document["least_ns"], document["spread_ns"])
    if kind == "reordering":
        return Reordering(document["probability"], document["hold_ns_max"])
    if kind == "corruption":
        return Corruption(document["probability"])
    if kind == "partition":
        sources, destinations = frozenset(document["sources"]), frozenset(document["destinations"])
        return Partition(sources, destinations, document["from_ns"], document["until_ns"])
    if kind == "oversize":
        sources, destinations = frozenset(document["sources"]), frozenset(document["destinations"])
        return Oversize(sources, destinations, document["from_ns"], document["bytes_max"])
    if kind == "flapping":
        return Flapping(
            frozenset(document["ones"]), frozenset(document["others"]), document["from_ns"], document["until_ns"],
            document["up_ns"], document["down_ns"],
        )  # fmt: skip
    raise UsageError(f"there is no layer {kind!r} of a bad network")
