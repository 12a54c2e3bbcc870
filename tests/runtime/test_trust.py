"""Who starts without a key, keyring files, and the commands that make them."""

import asyncio
import logging
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import antiphon
from antiphon import KeyMissingError, KeyringError, Node, Trust
from antiphon.cli.main import app
from antiphon.runtime.keyring import (
    KEYS_MAX,
    Keyring,
    KeySupply,
    SharedKey,
    add_key,
    create_keyring,
    load_keyring,
    parse_keyring,
    replace_keys,
    retire_keys,
)
from tests.runtime.seal_table import ring


def test_every_test_that_the_docs_name_is_there() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (root / "docs/security.md").read_text())
    assert len(named) > 60
    for file, name in named:
        text = (root / file).read_text()
        assert not name or f"def {name}(" in text, f"{file} has no {name}"


def test_off_loopback_a_node_without_a_key_does_not_start() -> None:
    async def start(address: str) -> None:
        async with Node("a", address=address):
            pass

    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:7400"):
        with pytest.raises(KeyMissingError, match=r"antiphon key new .*scp -p") as caught:
            asyncio.run(start(address))
        assert "insecure=True" in str(caught.value)
    asyncio.run(start("127.0.0.1:0"))


def test_insecure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def start() -> None:
        async with Node("a", address="0.0.0.0:0", insecure=True):
            pass

    with caplog.at_level(logging.WARNING, "antiphon"):
        asyncio.run(start())
    assert """event=node_insecure what="node 'a'" address=0.0.0.0:0""" in caplog.text


def test_a_keyring_and_insecure_exclude_each_other() -> None:
    with pytest.raises(KeyringError, match="not both"):
        Node("a", address="127.0.0.1:0", keyring=ring(1), insecure=True)


def test_connections_ask_for_keys_off_loopback() -> None:
    async def dial() -> None:
        await antiphon.open_connection("192.0.2.1", 7400, trust=Trust())

    with pytest.raises(KeyMissingError):
        asyncio.run(dial())


def test_a_new_keyring_is_for_its_owner_alone_and_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.key"
    made = create_keyring(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert load_keyring(file).keys == made.keys
    text = file.read_text()
    with pytest.raises(KeyringError, match="is there already"):
        create_keyring(file)
    assert file.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["antiphon.key"]


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o601])
def test_a_keyring_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "antiphon.key"
    create_keyring(file)
    file.chmod(mode)
    with pytest.raises(KeyringError, match="chmod 600"):
        load_keyring(file)


ZEROS, ONES = "00" * 32, "01" * 32


@pytest.mark.parametrize(
    "text",
    [
        *("", "# nothing\n", "1 abcd\n"),
        *(
            "0 " + ZEROS,
            "65536 " + ZEROS,
            "x " + ZEROS,
            f"1 {ZEROS} 5",
            f"1 {ZEROS}\n1 {ONES}",
            f"1 {ZEROS}\n2 {ZEROS}",
        ),
    ],
)
def test_a_file_that_is_no_keyring_is_refused_without_telling_it(text: str) -> None:
    with pytest.raises(KeyringError, match="some file") as caught:
        parse_keyring(text, "some file")
    assert "0000" not in str(caught.value)


def test_too_many_keys_are_refused() -> None:
    keys = [SharedKey(number + 1, number.to_bytes(32, "big")) for number in range(KEYS_MAX + 1)]
    with pytest.raises(KeyringError, match="1 to 16"):
        Keyring(keys)


def test_a_rotation_step_by_step(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.key"
    (first,) = create_keyring(file).keys
    added = add_key(file)
    assert [key.epoch for key in added.keys] == [1, 2]
    assert added.keys[0] == first
    assert retire_keys(file).keys == added.keys[1:] == load_keyring(file).keys
    (third,) = replace_keys(file).keys
    assert third.epoch == 3
    assert third.secret != added.keys[1].secret
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_supply_sees_a_changed_file_and_keeps_its_keys_if_it_is_unusable(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.key"
    create_keyring(file)
    supply = KeySupply(file)
    supply.look()
    add_key(file)
    supply.look()
    assert len(supply.keyring.keys) == 2
    file.write_text("nonsense")
    with pytest.raises(KeyringError):
        supply.look()
    supply.look()  # is said once
    os.unlink(file)
    with pytest.raises(KeyringError):
        supply.look()
    assert len(supply.keyring.keys) == 2
    create_keyring(file)
    supply.look()
    assert len(supply.keyring.keys) == 1


def test_the_commands(tmp_path: Path) -> None:
    file = str(tmp_path / "antiphon.key")
    run = CliRunner()
    told = [
        run.invoke(app, ["key", *words])
        for words in (
            ["new", file],
            ["rotate", file],
            ["status", file],
            ["retire", file],
            ["rotate", file, "--compromised"],
        )
    ]
    assert [result.exit_code for result in told] == [0] * 5, [result.output for result in told]
    assert "2 keys" in told[2].output
    assert [key.epoch for key in load_keyring(file).keys] == [3]
    secret = load_keyring(file).keys[0].secret.hex()
    assert all(secret not in result.output for result in told)
    again = run.invoke(app, ["key", "new", file])
    assert isinstance(again.exception, KeyringError)
