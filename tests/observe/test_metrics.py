"""The metrics: exact text, all of them documented, and true counts on every stack."""

import asyncio
import json
import re
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from antiphon import Node
from antiphon.observe import Observer
from antiphon.observe.collector import ObserverCollector
from antiphon.observe.families import FAMILIES, MetricFamily, MetricSamples
from antiphon.observe.meter import LATENCY_S, LatencyHistogram
from antiphon.observe.metrics import MetricsTable, exposition
from antiphon.runtime.keyring import create_keyring
from antiphon.stacks.registry import StackName
from tests.observe.asking import get
from tests.runtime.cluster import bad_network, run, until
from tests.runtime.places import HASTY, LOOPBACK, founded

ROOT = Path(__file__).resolve().parents[2]
NAMES = {family.name for family in FAMILIES}


def samples_of(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_of_metrics_has_all_of_them_and_no_other() -> None:
    rows = re.findall(
        r"^\| `(antiphon_\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", (ROOT / "docs/metrics.md").read_text(), re.M
    )
    assert [(name, kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows] == [
        (family.name, family.kind, family.labels, family.text) for family in FAMILIES
    ]


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    text = (ROOT / "deploy/grafana-antiphon.json").read_text()
    asked = set(re.findall(r"antiphon_[a-z_]+", json.dumps([panel["targets"] for panel in json.loads(text)["panels"]])))
    histograms = {family.name for family in FAMILIES if family.kind == "histogram"}
    known = NAMES | {name + suffix for name in histograms for suffix in ("_bucket", "_sum", "_count")}
    assert asked <= known
    assert len(asked) > 20


def test_text_is_escaped_and_numbers_are_exact() -> None:
    samples = MetricSamples(MetricFamily("antiphon_x", "gauge", ("group",), "a text"))
    samples.add(2**60, 'a "quoted"\\\nname')
    samples.add(0.1, "b")
    text = exposition([samples])
    assert text == (
        '# HELP antiphon_x a text\n# TYPE antiphon_x gauge\nantiphon_x{group="a \\"quoted\\"\\\\\\nname"} '
        f'{float(2**60)!r}\nantiphon_x{{group="b"}} 0.1\n'
    )
    assert samples_of(text) == {
        ("antiphon_x", frozenset({("group", 'a "quoted"\\\nname')})): 2**60,
        ("antiphon_x", frozenset({("group", "b")})): 0.1,
    }


def test_a_histogram_counts_upwards() -> None:
    times = LatencyHistogram()
    for seconds in (0.0001, 0.002, 0.002, 60.0):
        times.add(seconds)
    table = MetricsTable()
    table.add_histogram("antiphon_loop_lag_seconds", times)
    found = samples_of(exposition(table.filled()))
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert len(buckets) == len(LATENCY_S) + 1
    assert (buckets["0.0001"], buckets["0.001"], buckets["0.0025"], buckets["+Inf"]) == (1, 1, 3, 4)
    assert times.quantile_s(0.5) == 0.0025
    assert times.quantile_s(1.0) == 60.0


@pytest.mark.parametrize("stack", get_args(StackName))
def test_every_stack_counts_what_is_sent_and_delivered(stack: str) -> None:
    async def test() -> None:
        async with founded("abc", stack) as places, Observer(places[0].node, LOOPBACK) as observer:
            level = "causal-total" if stack == "sequencer" else "agreed"
            for _ in range(20):
                await places[0].group.send(b"1234", order=level)  # type: ignore[arg-type]
            for place in places:
                for _ in range(20):
                    await place.message()
            await until(lambda: observer.meter.counts("g").stability.count > 0)
            status, headers, body = await get(observer.address, "/metrics")
            assert status == 200
            assert headers["content-type"].startswith("text/plain; version=0.0.4")
            found = samples_of(body.decode())
            where = {("group", "g"), ("stack", stack)}
            assert found["antiphon_messages_sent_total", frozenset({*where, ("level", level)})] == 20
            assert found["antiphon_message_bytes_sent_total", frozenset({*where, ("level", level)})] == 80
            assert found["antiphon_messages_delivered_total", frozenset({*where, ("level", level)})] == 20
            assert found["antiphon_delivery_latency_seconds_count", frozenset({*where, ("level", level)})] >= 1
            assert found["antiphon_view_members", frozenset(where)] == 3
            assert found["antiphon_group_state", frozenset({*where, ("state", "ready")})] == 1
            peers = {dict(labels)["peer"] for name, labels in found if name == "antiphon_peer_behind_packets"}
            assert peers == (set() if stack == "sequencer" else {"b", "c"})

    run(test)


def test_a_registry_gets_the_same() -> None:
    async def test() -> None:
        async with founded("ab") as places, Observer(places[0].node, LOOPBACK) as observer:
            await places[0].group.send(b"1", order="safe")
            await places[0].message()
            registry = CollectorRegistry()
            registry.register(ObserverCollector(observer))
            told = samples_of(generate_latest(registry).decode())
            own = samples_of(exposition(observer.metrics()))
            moving = ("silence", "loop_lag", "strain", "datagrams")
            assert {key for key in told if not key[0].endswith("_created")} == set(own)
            for key, value in own.items():
                assert any(word in key[0] for word in moving) or told[key] == value

    run(test)


def test_losses_show_as_requests_and_retransmissions_through_views() -> None:
    async def test() -> None:
        async with (
            founded("abc", faults=bad_network(0.2), seed=1) as places,
            Observer(places[0].node, LOOPBACK) as observer,
        ):
            for _ in range(100):
                await places[0].group.send(b"x" * 3000)
            for _ in range(100):
                await places[1].message()
            await until(lambda: places[0].group.outstanding() == 0)
            before = observer.node.statistics_of("g")
            assert before["resends"] > 0
            places[2].kill()
            await places[0].view("a/1", "b/1")
            after = observer.node.statistics_of("g")
            assert after["resends"] >= before["resends"]
            assert after["packets_sent"] >= before["packets_sent"]
            assert observer.meter.counts("g").views == 1
            assert observer.meter.counts("g").suspicions == 1

    run(test)


def test_a_slow_reader_shows_as_back_pressure() -> None:
    async def test() -> None:
        async with founded("ab", queue_messages_max=10) as places, Observer(places[0].node, LOOPBACK) as observer:
            sending = asyncio.create_task(places[0].group.send_many([b"x" * 1000] * 20_000))
            await until(lambda: observer.node.queues(places[0].group).sends_waiting == 1)
            group = observer.status()["groups"][0]
            assert group["send_waits"] == 1
            assert group["outbox_messages"] > 0
            assert group["is_paused"]
            sending.cancel()

    run(test)


def test_a_sealed_node_tells_what_its_seal_refused(tmp_path: Path) -> None:
    async def test() -> None:
        create_keyring(tmp_path / "key")
        async with (
            Node("a", address=LOOPBACK, options=HASTY, keyring=tmp_path / "key") as node,
            Observer(node, LOOPBACK) as observer,
        ):
            loop = asyncio.get_running_loop()
            host, port = node.address.split(":")
            transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=(host, int(port)))
            transport.sendto(bytes(100))

            def refused() -> float:
                found = samples_of(exposition(observer.metrics()))
                return sum(value for (name, _), value in found.items() if name == "antiphon_seal_refused_total")

            await until(lambda: refused() == 1)
            transport.close()

    run(test)
