"""The file for `antiphon node`: read, overridden by the environment, and checked, all problems at once.

    [node]
    listen = "10.0.0.1:7400"
    [discovery]
    contacts = ["10.0.0.1:7400", "10.0.0.2:7400"]
    [keys]
    keyring = "cluster.key"
    [[group]]
    name = "quotes"

schema.py says what may stand there. An environment variable ANTIPHON_<TABLE>_<KEY> overrides a key of a single table:
ANTIPHON_NODE_LISTEN, say; lists are separated by commas. Relative paths are relative to the file. A problem names the
file, the line, the key, what is wrong, and what is allowed.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from antiphon.deployment.locator import Path as KeyPath
from antiphon.deployment.locator import locate
from antiphon.deployment.member_config import MemberConfig, relations
from antiphon.deployment.schema import PREFIX, TABLES, ConfigTable, overridable
from antiphon.deployment.values import ConfigValueError, check_value, read_variable
from antiphon.kernel.errors import UsageError

FILE_BYTES_MAX: Final = 1024 * 1024
_AT_LINE: Final = re.compile(r"\s*\(at line (\d+), column \d+\)")


class ConfigError(UsageError):
    """A configuration cannot be used; `problems` says why, each with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_config(file: Path, environment: Mapping[str, str]) -> MemberConfig:
    """The configuration in a file, with overrides. Raises ConfigError with all that is wrong."""
    return _Reading(file).load(environment)


class _Reading:
    """One file being read, and what is wrong with it so far."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines: dict[KeyPath, int] = {}
        self._variables: dict[KeyPath, str] = {}
        self._problems: list[tuple[int, str]] = []

    def load(self, environment: Mapping[str, str]) -> MemberConfig:
        document = self._parse()
        self._override(document, environment)
        for name in document:
            if name not in [table.name for table in TABLES]:
                self._complain((name,), f"there is no table {name!r}{_instead(name, [table.name for table in TABLES])}")
        for table in TABLES:
            self._check_table(table, document)
        self._fail()
        config, wrong = relations(document, self._file.parent)
        for path, text in wrong:
            self._complain(path, text)
        self._fail()
        return config

    def _parse(self) -> dict[str, Any]:
        try:
            with self._file.open("rb") as stream:
                text = stream.read(FILE_BYTES_MAX + 1).decode()
        except OSError as error:
            raise ConfigError([f"{self._file}: cannot be read: {error.strerror}"]) from None
        except UnicodeDecodeError as error:
            raise ConfigError([f"{self._file}: is no text in UTF-8 ({error.reason} at byte {error.start})"]) from None
        if len(text) > FILE_BYTES_MAX:
            raise ConfigError([f"{self._file}: is longer than {FILE_BYTES_MAX:,} bytes, so it is no configuration"])
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            at = _AT_LINE.search(str(error))
            line = at.group(1) if at else str(1 + text.count("\n"))
            raise ConfigError([f"{self._file}:{line}: this is no TOML: {_AT_LINE.sub('', str(error))}"]) from None
        self._lines = locate(text)
        return document

    def _override(self, document: dict[str, Any], environment: Mapping[str, str]) -> None:
        known = overridable()
        single = [f"{PREFIX}{table.name.upper()}_" for table in TABLES]
        for variable, text in sorted(environment.items()):
            if variable in known:
                table, key = known[variable]
                self._variables[table.name, key.name] = variable
                try:
                    value = read_variable(key, text)
                except ConfigValueError as problem:
                    self._complain((table.name, key.name), str(problem))
                    continue
                if isinstance(document.setdefault(table.name, {}), dict):
                    document[table.name][key.name] = value
            elif variable.startswith(tuple(single)):
                self._problems.append((0, f"{variable}: overrides no key{_instead(variable, known)}"))

    def _check_table(self, table: ConfigTable, document: dict[str, Any]) -> None:
        found = document.get(table.name)
        if table.is_array:
            if found is not None and not (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
                self._complain((table.name,), f"is an array of tables: write [[{table.name}]] above its keys")
                return
            for place, one in enumerate(found or []):
                self._check_keys(table, one, (table.name, place))
        elif found is not None and not isinstance(found, dict):
            self._complain((table.name,), f"is a table: write [{table.name}] above its keys")
        elif found is not None or any(key.required for key in table.keys if table.name == "node"):
            self._check_keys(table, found or {}, (table.name,))

    def _check_keys(self, table: ConfigTable, found: dict[str, Any], path: KeyPath) -> None:
        names = [key.name for key in table.keys]
        for name, value in found.items():
            key = table.key(name)
            if key is None:
                self._complain((*path, name), f"there is no such key in {_title(table)}{_instead(name, names)}")
                continue
            try:
                check_value(key, value)
            except ConfigValueError as problem:
                self._complain((*path, name), str(problem))
        for key in table.keys:
            if key.required and key.name not in found and (*path, key.name) not in self._variables:
                self._complain(path, f"{_title(table)} lacks `{key.name}`: {key.meaning}")

    def _complain(self, path: KeyPath, text: str) -> None:
        variable = self._variables.get(path)
        if variable is not None:
            self._problems.append((0, f"{variable}: {text}"))
            return
        line = next((self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), 1)
        name = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
        self._problems.append((line, f"{self._file}:{line}: {name}: {text}"))

    def _fail(self) -> None:
        if self._problems:
            raise ConfigError([text for _, text in sorted(self._problems)])


def _title(table: ConfigTable) -> str:
    return f"[[{table.name}]]" if table.is_array else f"[{table.name}]"


def _instead(name: str, names: Iterable[str]) -> str:
    names = list(names)
    close = get_close_matches(name, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; allowed are: {', '.join(names)}"
