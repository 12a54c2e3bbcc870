"""Two domains of two on real sockets, linked over TCP on loopback."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import antiphon
from antiphon.domain import CommunicationDomain, DomainMessage
from tests.runtime.cluster import run, until


async def read(everywhere: CommunicationDomain, got: list[tuple[str, bytes]]) -> None:
    async for event in everywhere:
        if isinstance(event, DomainMessage):
            got.append((event.domain, event.payload))


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
"""For listening, and for calling."""


def make_identity(folder: Path, name: str) -> Path:
    """A key and a certificate for loopback that vouches for itself, in one file."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
         "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    path = folder / f"{name}.pem"
    path.write_bytes(key.read_bytes() + certificate.read_bytes())
    return path


def make_contexts(own: Path, trusted: Path) -> Contexts:
    """Both sides show their certificates, and believe in one."""
    found = []
    for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(protocol)
        context.load_cert_chain(own)
        context.load_verify_locations(trusted)
        context.verify_mode = ssl.CERT_REQUIRED
        found.append(context)
    return found[0], found[1]


async def with_two_domains(
    tls: dict[str, Contexts],
    scene: Callable[[dict[str, CommunicationDomain], dict[str, list[tuple[str, bytes]]]], Awaitable[None]],
) -> None:
    """Two domains of two, a1 and b1 their relays; `tls`: the contexts of these, if any."""
    nodes = {
        name: antiphon.Node(name, incarnation=1, address="127.0.0.1:0", seed=seed, options=antiphon.Options.fast())
        for seed, name in enumerate(("a1", "a2", "b1", "b2"))
    }
    for node in nodes.values():
        await node.start()
    linked: dict[str, CommunicationDomain] = {}
    got: dict[str, list[tuple[str, bytes]]] = {name: [] for name in nodes}
    tasks = []
    try:
        for domain in "ab":
            members = {name: node.address for name, node in nodes.items() if name[0] == domain}
            groups = await asyncio.gather(
                *(nodes[name].join(domain, members=members, stack="domain") for name in members)
            )
            for name, group in zip(members, groups, strict=True):
                listen = "127.0.0.1:0" if name == "a1" else None
                links = {"a": [linked["a1"].address]} if name == "b1" else None
                own = tls.get(name)
                linked[name] = CommunicationDomain(group, domain, ("a", "b"), listen=listen, links=links, tls=own)
                await linked[name].__aenter__()
                tasks.append(asyncio.create_task(read(linked[name], got[name])))
        await scene(linked, got)
    finally:
        for task in tasks:
            task.cancel()
        for one in linked.values():
            await one.__aexit__(None, None, None)
        await asyncio.gather(*(node.close() for node in nodes.values()))


async def talk_across(linked: dict[str, CommunicationDomain], got: dict[str, list[tuple[str, bytes]]]) -> None:
    await linked["a2"].send(b"here", order="causal")
    await linked["a2"].send(b"one", to=["b"], order="agreed")
    await linked["b2"].send(b"two", to=["a"], order="safe")
    await linked["a1"].send(b"three", to=["b"], order="causal")
    await until(lambda: all(len(own) == 3 + (name[0] == "a") for name, own in got.items()))
    orders = [[each for each in own if each[1] in (b"one", b"two")] for own in got.values()]
    assert all(order == orders[0] for order in orders)
    assert linked["a1"].link_bytes > 0


def test_two_domains_over_real_links() -> None:
    async def test() -> None:
        await with_two_domains({}, talk_across)

    run(test)


@pytest.mark.processes
@needs_openssl
def test_two_domains_over_links_with_tls(tmp_path: Path) -> None:
    async def test() -> None:
        a, b = make_identity(tmp_path, "a"), make_identity(tmp_path, "b")
        await with_two_domains({"a1": make_contexts(a, trusted=b), "b1": make_contexts(b, trusted=a)}, talk_across)

    run(test)


@pytest.mark.processes
@needs_openssl
def test_a_relay_with_a_certificate_that_is_not_trusted_is_told_nothing(tmp_path: Path) -> None:
    async def nothing_crosses(linked: dict[str, CommunicationDomain], got: dict[str, list[tuple[str, bytes]]]) -> None:
        await linked["a2"].send(b"secret", to=["b"], order="causal")
        await until(lambda: all(got[name] for name in ("a1", "a2")))
        await asyncio.sleep(0.5)
        assert not got["b1"]
        assert not got["b2"]

    async def test() -> None:
        a, b, mallory = (make_identity(tmp_path, name) for name in ("a", "b", "mallory"))
        contexts = {"a1": make_contexts(a, trusted=b), "b1": make_contexts(mallory, trusted=a)}
        await with_two_domains(contexts, nothing_crosses)

    run(test)
