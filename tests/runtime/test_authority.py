"""The authority of a cluster, its files, and who starts with them; the commands that make them."""

import asyncio
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import antiphon
from antiphon import IdentityError, Node, RightError
from antiphon.cli.main import app
from antiphon.runtime.authority import Authority, create_authority
from antiphon.runtime.certificates import read_certificate, read_revocations
from antiphon.runtime.identity import IdentitySupply, load_identity
from tests.runtime.identity_table import PUBLIC, identity, revoked
from tests.runtime.seal_table import ring


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def test_the_commands(tmp_path: Path) -> None:
    where = str(tmp_path / "ca")
    assert "an authority" in run("ca", "new", where)
    assert "alice, member, for 365 days" in run("ca", "issue", "alice", "--dir", where)
    assert "bob, reader, for 3 days" in run("ca", "issue", "bob", "--dir", where, "--role", "reader", "--days", "3")
    assert "version 1, 1 revoked" in run("ca", "revoke", "bob", "--dir", where)
    run("ca", "issue", "bob", "--dir", where)
    shown = run("ca", "show", where)
    assert [word in shown for word in ("alice", "reader", "revoked", "for 364 days")] == [True] * 4 or "365" in shown
    for file in (tmp_path / "ca").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    secret = next(line for line in (tmp_path / "ca/authority").read_text().splitlines() if not line.startswith("#"))
    assert secret not in shown
    assert not any(secret in (tmp_path / "ca" / f"{name}.identity").read_text() for name in ("alice", "bob"))


def test_each_certificate_has_a_serial_of_its_own(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca")
    serials = [load_identity(authority.issue(name)).certificate.serial for name in ("a", "b", "a", "a")]
    assert serials == [1, 2, 3, 4]
    authority.revoke("a")
    assert authority.revocations().serials == {1, 3, 4}
    assert load_identity(Authority(tmp_path / "ca").issue("a")).certificate.serial == 5
    assert [one.is_revoked for one in authority.issued()] == [True, False, True, True, False]


def test_mistakes_are_told(tmp_path: Path) -> None:
    where = tmp_path / "ca"
    with pytest.raises(IdentityError, match="antiphon ca new"):
        Authority(where)
    authority = create_authority(where)
    with pytest.raises(IdentityError, match="has an authority already"):
        create_authority(where)
    for name in ("", "a/b", ".x", "a\nb"):
        with pytest.raises(IdentityError, match="cannot be the name"):
            authority.issue(name)
    with pytest.raises(IdentityError, match="the roles are: member, sender, reader, guest"):
        authority.issue("a", "king")
    with pytest.raises(IdentityError, match="not 0"):
        authority.issue("a", days=0)
    with pytest.raises(IdentityError, match="no certificate was ever issued for 'b'"):
        authority.revoke("b")
    authority.issue("a")
    authority.revoke("a")
    with pytest.raises(IdentityError, match="revoked already"):
        authority.revoke("a")
    (where / "revocations").write_bytes(b"nonsense")
    with pytest.raises(IdentityError, match="was not signed by"):
        authority.issue("c")


def test_a_node_speaks_in_its_own_name_alone(tmp_path: Path) -> None:
    file = create_authority(tmp_path / "ca").issue("alice")
    with pytest.raises(IdentityError, match="'bob' cannot speak as 'alice'"):
        Node("bob", address="127.0.0.1:0", identity=file)
    with pytest.raises(IdentityError, match="run out"):
        Node("alice", address="127.0.0.1:0", identity=identity("alice", until_s=5))
    with pytest.raises(IdentityError, match="name one of them"):
        Node("alice", address="127.0.0.1:0", identity=file, keyring=ring(1))
    with pytest.raises(IdentityError, match="use no multicast"):
        Node("alice", address="127.0.0.1:0", identity=file, multicast="239.255.74.1:7401")
    os.chmod(file, 0o644)
    with pytest.raises(IdentityError, match="others can read"):
        Node("alice", address="127.0.0.1:0", identity=file)


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: text.replace("name alice", "name bob"),
        lambda text: text.replace("certificate ", "certificate 00"),
        lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("entry")),
        lambda text: text + "key 00\n",
        lambda text: text + "nonsense\n",
        lambda text: "",
        lambda text: text.replace("key ", "key zz"),
        lambda text: "\n".join(line[:90] for line in text.splitlines()),
    ],
)
def test_a_file_that_was_harmed_is_refused(tmp_path: Path, harm: object) -> None:
    file = create_authority(tmp_path / "ca").issue("alice")
    assert callable(harm)
    file.write_text(harm(file.read_text()))
    with pytest.raises(IdentityError):
        load_identity(file)


def test_no_changed_byte_of_a_certificate_or_a_list_is_believed() -> None:
    encoded = identity("alice").certificate.encoded
    assert read_certificate(encoded, PUBLIC) is not None
    listed = revoked("alice", "bob").encoded
    assert read_revocations(listed, PUBLIC) is not None
    for at in range(len(encoded)):
        assert read_certificate(encoded[:at] + bytes((encoded[at] ^ 1,)) + encoded[at + 1 :], PUBLIC) is None
        assert read_certificate(encoded[:at], PUBLIC) is None
    for at in range(len(listed)):
        assert read_revocations(listed[:at] + bytes((listed[at] ^ 1,)) + listed[at + 1 :], PUBLIC) is None
        assert read_revocations(listed[:at], PUBLIC) is None


def test_a_supply_reads_its_files_again(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca")
    file = authority.issue("alice")
    other = load_identity(authority.issue("bob"))
    supply = IdentitySupply(file, "alice")
    assert not supply.look(0.0)
    authority.revoke("bob")
    assert supply.look(0.0)
    assert supply.revocations.has(other.certificate)
    first = supply.identity
    authority.issue("alice")
    assert supply.look(0.0)
    assert supply.identity.certificate.serial != first.certificate.serial
    file.write_text("nonsense")
    with pytest.raises(IdentityError):
        supply.look(0.0)
    assert not supply.look(0.0), "it is said once"
    assert supply.identity.name == "alice"


def test_a_list_that_nobody_signed_keeps_a_node_from_starting(tmp_path: Path) -> None:
    file = create_authority(tmp_path / "ca").issue("alice")
    (tmp_path / "ca/revocations").write_bytes(revoked("alice").encoded)
    with pytest.raises(IdentityError, match="is no list of revocations"):
        IdentitySupply(file, "alice")


def test_rights_of_the_own_certificate_are_told_at_the_call(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "ca")

    async def trial() -> None:
        async with Node("guest", address="127.0.0.1:0", identity=authority.issue("guest", "guest")) as node:
            with pytest.raises(RightError, match="is a guest by its certificate, and may not join group 'g'"):
                await node.join("g", members={"guest": node.address})
        async with Node("reader", address="127.0.0.1:0", identity=authority.issue("reader", "reader")) as node:
            group = await node.join("g", members={"reader": node.address})
            with pytest.raises(RightError, match="may not send to group 'g'"):
                await group.send(b"x")
            with pytest.raises(RightError):
                await group.barrier(b"x")

    asyncio.run(trial())
    assert issubclass(RightError, antiphon.UsageError)
