"""The one table of keys, and what is made from it: docs/configuration.md, the overrides, the example deployments."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from antiphon.deployment.config import load_config
from antiphon.deployment.schema import OPTIONS, TABLES, as_markdown, as_text, overridable
from antiphon.kernel.options import Options

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def test_the_page_has_the_table() -> None:
    assert as_markdown() in (ROOT / "docs" / "configuration.md").read_text()


def test_every_option_has_a_key() -> None:
    names = {key.name for key in OPTIONS.keys}
    assert {field.name for field in fields(Options)} - names == {"of_stacks"}


def test_every_key_is_listed_for_the_terminal() -> None:
    for table in TABLES:
        for key in table.keys:
            assert f"  {key.name}  (" in as_text()


def test_a_variable_overrides_one_key_only() -> None:
    assert len(overridable()) == sum(
        key.kind not in ("table of names and addresses", "table of names and whole numbers")
        for table in TABLES
        if not table.is_array
        for key in table.keys
    )


def test_the_file_of_the_pods_is_sound() -> None:
    config = load_config(DEPLOY / "kubernetes" / "member.toml", {})
    assert config.discovery == {"dns": "antiphon-members:7400"}


def test_manifests_unit_and_image_agree_with_the_file_and_the_command() -> None:
    manifest = (DEPLOY / "kubernetes" / "antiphon.yaml").read_text()
    member = tomllib.loads((DEPLOY / "kubernetes" / "member.toml").read_text())
    service, _, port = member["discovery"]["dns"].partition(":")
    assert re.search(rf"kind: Service\nmetadata:\n  name: {service}\n", manifest)
    assert f"serviceName: {service}" in manifest
    assert "clusterIP: None" in manifest
    for listen in (member["node"]["listen"], member["observe"]["listen"]):
        assert f"containerPort: {listen.rpartition(':')[2]}" in manifest
    assert f"port: {port}, protocol: UDP" in manifest
    mounts = re.findall(r"mountPath: ([^,}\s]+)", manifest)
    assert any(member["keys"]["keyring"].startswith(f"{mount}/") for mount in mounts)
    assert any(member["node"]["history"].startswith(f"{mount}/") for mount in mounts)
    for path in ("/live", "/ready"):
        assert f"path: {path}" in manifest
    names = set(re.findall(r"- \{name: (\w+), mountPath", manifest))
    assert names == set(re.findall(r"^        - name: (\w+)$", manifest, re.MULTILINE)) - {"member"} | {"state"}
    unit = (DEPLOY / "antiphon@.service").read_text()
    assert re.search(r"^ExecStart=\S+/antiphon node /etc/antiphon/%i.toml$", unit, re.MULTILINE)
    assert re.search(r"^ExecStartPre=\S+/antiphon config check /etc/antiphon/%i.toml$", unit, re.MULTILINE)
    assert "RestartPreventExitStatus=2" in unit
    image = (DEPLOY / "Dockerfile").read_text()
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", image, re.MULTILINE):
        for name in source.split():
            assert (ROOT / name).exists(), name
    assert 'CMD ["node", "/etc/antiphon/member.toml"]' in image
