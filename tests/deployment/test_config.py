"""Files for `antiphon node`: what is sound is understood, and each problem is named with its line, key and remedy."""

from pathlib import Path

import pytest

from antiphon.deployment.config import ConfigError, load_config
from antiphon.deployment.example import EXAMPLE
from antiphon.deployment.member_config import MemberConfig
from antiphon.runtime.discovery import FileDiscovery, NameDiscovery

SOUND = """[node]
name = "alice"
listen = "127.0.0.1:7400"
[discovery]
contacts = ["127.0.0.1:7400"]
[[group]]
name = "quotes"
"""


def load(directory: Path, text: str, **environment: str) -> MemberConfig:
    file = directory / "member.toml"
    file.write_text(text)
    return load_config(file, environment)


def problems(directory: Path, text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(directory, text, **environment)
    return [problem.removeprefix(f"{directory}/") for problem in raised.value.problems]


def test_the_example_is_sound(tmp_path: Path) -> None:
    config = load(tmp_path, EXAMPLE)
    assert config.name == "alice"
    assert config.keyring == tmp_path / "cluster.key"
    assert config.history == tmp_path / "history"
    assert [group.name for group in config.groups] == ["quotes"]


def test_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, SOUND)
    assert config.rejoin
    assert config.options is None
    assert config.observe == ""
    assert (config.groups[0].stack, config.groups[0].policy) == ("vector", "primary")
    assert not load(tmp_path, SOUND.replace("[discovery]", 'service = "a.b:main"\n[discovery]')).rejoin


def test_the_environment_overrides(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        SOUND,
        ANTIPHON_NODE_NAME="bob",
        ANTIPHON_DISCOVERY_CONTACTS="127.0.0.1:1, 127.0.0.1:2",
        ANTIPHON_OPTIONS_WINDOW_PACKETS="77",
        ANTIPHON_NODE_REJOIN="false",
        ANTIPHON_LOG_FORMAT="json",
        ANTIPHON_PURE="1",
        OTHER="x",
    )
    assert config.name == "bob"
    assert config.contacts(config.groups[0]) == ["127.0.0.1:1", "127.0.0.1:2"]
    assert config.options is not None
    assert config.options.window_packets == 77
    assert not config.rejoin
    assert config.log_format == "json"


def test_what_the_environment_gets_wrong(tmp_path: Path) -> None:
    assert problems(tmp_path, SOUND, ANTIPHON_NODE_LISEN="x", ANTIPHON_LOG_LEVEL="loud") == [
        'ANTIPHON_LOG_LEVEL: takes debug or info or warning or error, not "loud"',
        "ANTIPHON_NODE_LISEN: overrides no key; did you mean `ANTIPHON_NODE_LISTEN`?",
    ]


def test_discovery_by_file_and_by_name(tmp_path: Path) -> None:
    for way, kind in (('file = "members.txt"', FileDiscovery), ('dns = "members.example:7400"', NameDiscovery)):
        config = load(tmp_path, SOUND.replace('contacts = ["127.0.0.1:7400"]', way))
        assert isinstance(config.contacts(config.groups[0]), kind)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('name = "alice"', 'nam = "alice"', "member.toml:2: nam: there is no such key in [node]; did you mean `name`?"),
        ("127.0.0.1:7400", "127.0.0.1", "member.toml:3: listen: the address '127.0.0.1' cannot be used"),
        (
            "[discovery]",
            "[discovry]",
            "member.toml:4: discovry: there is no table 'discovry'; did you mean",
        ),
        ('name = "quotes"', 'stack = "vector"', "member.toml:6: group: [[group]] lacks `name`"),
        ('name = "quotes"', 'name = "q"\nstack = "vectr"', "did you mean `vector`?"),
        ('name = "quotes"', 'name = "q"\n\npolicy = "sites"', "member.toml:9: policy: stack 'vector' has the policies"),
        ('name = "quotes"', 'name = "q"\ndomain = "x"', "member.toml:8: domain: there is no [[domain]] 'x'"),
        ('name = "quotes"', "name = 5", "member.toml:7: name: takes a text in quotes"),
        ("[[group]]", "[group]", "member.toml:6: group: is an array of tables: write [[group]] above its keys"),
        ("[discovery]", "linger_s = -1\n[discovery]", "member.toml:4: linger_s: is 0 or more, not -1"),
        ("[discovery]", 'service = "main"\n[discovery]', 'member.toml:4: service: is "package.module:function"'),
        ("contacts = [", 'file = "x"\ncontacts = [', "member.toml:6: contacts: only one of: file, contacts"),
        ('listen = "127.0.0.1:7400"', 'listen = "0.0.0.0:7400"', "antiphon key new cluster.key"),
        ("[node]", "[node", "member.toml:1: this is no TOML"),
        ('name = "quotes"', 'name = "q"\n[[group]]\nname = "q"', "member.toml:9: name: group 'q' stands here twice"),
        ('name = "quotes"', 'name = "q"\nmembers = { bob = "127.0.0.1:1" }', "'alice', is not among the founders: bob"),
    ],
)
def test_problems_have_a_line_a_key_and_a_remedy(tmp_path: Path, old: str, new: str, expected: str) -> None:
    found = problems(tmp_path, SOUND.replace(old, new, 1))
    assert any(expected in problem for problem in found), found


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = SOUND.replace("alice", "").replace('"quotes"', "true")
    assert [problem.split(":")[1] for problem in problems(tmp_path, text)] == ["2", "7"]


def test_values_over_several_lines_do_not_confuse_the_lines(tmp_path: Path) -> None:
    text = SOUND.replace('["127.0.0.1:7400"]', '[\n  "127.0.0.1:7400", # [[group]]\n  "127.0.0.1:7401",\n]')
    assert problems(tmp_path, text + "colour = 1\n")[0].startswith("member.toml:11: colour:")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "nothing.toml", {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="no text in UTF-8"):
        load_config(tmp_path / "binary.toml", {})
