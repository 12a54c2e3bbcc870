"""A lineage as one JSON document: `antiphon lineage --json`."""

from typing import Any

from antiphon.history.schema import Row
from antiphon.pipeline.graph.critical import DeliveryPath
from antiphon.pipeline.graph.lineage import Lineage
from antiphon.pipeline.graph.names import full_name
from antiphon.pipeline.graph.rows import process_of


def lineage_document(lineage: Lineage, path: list[DeliveryPath]) -> dict[str, Any]:
    """Messages go by their full names, processes as "name/incarnation"; times are nanoseconds of the history."""
    return {
        "run": lineage.run,
        "message": full_name(lineage.message),
        "level": lineage.send.level,
        "label": lineage.send.label,
        "view": lineage.send.view,
        "sent": _event(lineage.send),
        "wave": lineage.wave,
        "past": lineage.past,
        "future": lineage.future,
        "certain": lineage.certain,
        "causes": [full_name(cause) for cause in lineage.causes],
        "effects": [full_name(effect) for effect in lineage.effects],
        "relatives": [
            {
                "message": full_name(relative.message),
                "step": relative.step,
                "via": full_name(relative.via),
                "sent_ns": relative.sent_ns,
            }
            for relative in lineage.relatives
        ],
        "links": [{"cause": full_name(link.after), "effect": full_name(link.sent)} for link in lineage.links],
        "deliveries": [_event(row) for row in lineage.deliveries],
        "stable_ns": lineage.stable_ns,
        "last": None if lineage.last is None else process_of(lineage.last),
        "lacking": list(lineage.lacking),
        "critical_path": [_delivery(delivery) for delivery in path],
    }


def _event(row: Row) -> dict[str, Any]:
    return {"process": process_of(row), "index": row.index, "time_ns": row.time_ns}


def _delivery(delivery: DeliveryPath) -> dict[str, Any]:
    return {
        "message": full_name(delivery.message),
        "process": delivery.process,
        "level": delivery.level,
        "exact": delivery.exact,
        "sent_ns": delivery.sent_ns,
        "received_ns": delivery.received_ns,
        "delivered_ns": delivery.delivered_ns,
        "waits": [
            {
                "kind": wait.kind,
                "at_least_ns": wait.at_least_ns,
                "at_most_ns": wait.at_most_ns,
                "message": None if wait.message is None else full_name(wait.message),
                "process": wait.process,
            }
            for wait in delivery.waits
        ],
    }
