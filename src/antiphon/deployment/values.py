"""Values of a configuration: whether they are of the kind that their key wants, and what environment variables mean."""

from difflib import get_close_matches
from typing import Any, Final

from antiphon.deployment.schema import (
    ADDRESS,
    ADDRESSES,
    FLAG,
    NAMED_ADDRESSES,
    NAMED_NUMBERS,
    PAIRS,
    SECONDS,
    TEXT,
    TEXTS,
    WHOLE,
    ConfigKey,
)
from antiphon.runtime.address import split_address
from antiphon.runtime.errors import AddressError

_EXAMPLES: Final = {
    TEXT: 'a text in quotes, as "alice"',
    ADDRESS: 'an address, as "10.0.0.1:7400"',
    WHOLE: "a whole number, as 1024",
    SECONDS: "a number of seconds, as 2.5",
    FLAG: "true or false",
    TEXTS: 'a list of texts, as ["quotes", "orders"]',
    ADDRESSES: 'a list of addresses, as ["10.0.0.1:7400", "10.0.0.2:7400"]',
    PAIRS: 'a list of pairs, as [["quotes", "orders"]]',
    NAMED_ADDRESSES: 'a table, as { alice = "10.0.0.1:7400", bob = "10.0.0.2:7400" }',
    NAMED_NUMBERS: 'a table, as { "stack.option" = 1 }',
}


class ConfigValueError(Exception):
    """A value is not what its key wants; the text says what it wants."""


def check_value(key: ConfigKey, value: Any) -> None:
    """Raises ConfigValueError."""
    if not _is_of_kind(key.kind, value):
        raise ConfigValueError(f"takes {_EXAMPLES[key.kind]}, not {_shown(value)}")
    if key.choices and value not in key.choices:
        close = get_close_matches(str(value), key.choices, n=1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        raise ConfigValueError(f"takes {' or '.join(key.choices)}, not {_shown(value)}{hint}")
    if key.kind in (WHOLE, SECONDS) and value < key.least:
        raise ConfigValueError(f"is {key.least} or more, not {_shown(value)}")
    for address in _addresses(key.kind, value):
        try:
            split_address(address)
        except AddressError as error:
            raise ConfigValueError(str(error)) from None
    if key.kind == TEXT and not value:
        raise ConfigValueError("is empty; leave the key out, or give it a value")


def _is_of_kind(kind: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "text" | "address":
            return isinstance(value, str)
        case "whole number":
            return is_number and isinstance(value, int)
        case "seconds":
            return is_number
        case "true or false":
            return isinstance(value, bool)
        case "list of texts" | "list of addresses":
            return _is_texts(value)
        case "list of pairs of texts":
            return isinstance(value, list) and all(_is_texts(pair) and len(pair) == 2 for pair in value)
        case "table of names and addresses":
            return isinstance(value, dict) and _is_texts(list(value.values()))
        case _:
            return isinstance(value, dict) and all(type(number) is int for number in value.values())


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _addresses(kind: str, value: Any) -> list[str]:
    if kind == ADDRESS:
        return [value]
    if kind == ADDRESSES:
        return list(value)
    return list(value.values()) if kind == NAMED_ADDRESSES else []


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def read_variable(key: ConfigKey, text: str) -> Any:
    """What an environment variable with this text means for a key. Raises ConfigValueError."""
    text = text.strip()
    if key.kind == FLAG:
        if text.lower() not in ("true", "false"):
            raise ConfigValueError(f'takes true or false, not "{text}"')
        return text.lower() == "true"
    if key.kind in (WHOLE, SECONDS):
        try:
            return int(text) if key.kind == WHOLE else float(text)
        except ValueError:
            raise ConfigValueError(f'takes {_EXAMPLES[key.kind]}, not "{text}"') from None
    if key.kind in (TEXTS, ADDRESSES):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text
