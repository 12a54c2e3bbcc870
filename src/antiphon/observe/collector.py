"""The metrics of an observer for a registry of `prometheus_client`, which the extra `observe` brings.

REGISTRY.register(ObserverCollector(observer))
"""

from collections.abc import Iterator
from typing import final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from antiphon.observe.observer import Observer


@final
class ObserverCollector(Collector):
    """Hands a registry what /metrics has."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def collect(self) -> Iterator[Metric]:
        for found in self._observer.metrics():
            family = found.family
            metric = Metric(family.name.removesuffix("_total"), family.text, family.kind)
            for suffix, labels, value in found.samples:
                metric.add_sample(family.name + suffix, dict(labels), value)
            yield metric
