"""The state of a replicated object: its attributes, as MessagePack and back."""

from typing import TYPE_CHECKING, Any, Final, get_type_hints

import msgspec

if TYPE_CHECKING:
    from antiphon.toolkit.replicated import ReplicatedObject

OWN: Final = "_copy"
"""The one attribute that is no part of the state."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_ATTRIBUTES: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


def attributes_of(target: "ReplicatedObject") -> dict[str, Any]:
    """Return the attributes that are the state."""
    return {name: value for name, value in vars(target).items() if name != OWN}


def adopt(target: "ReplicatedObject", attributes: dict[str, Any]) -> None:
    """Replace the state."""
    for name in attributes_of(target):
        if name not in attributes:
            delattr(target, name)
    for name, value in attributes.items():
        setattr(target, name, value)


def encode_state(target: "ReplicatedObject") -> bytes:
    """Return the state as bytes."""
    return _ENCODER.encode(attributes_of(target))


def decode_state(target: "ReplicatedObject", data: bytes) -> dict[str, Any]:
    """Return encoded attributes, those that the class annotates as what it says. Raises msgspec.DecodeError."""
    hints = get_type_hints(type(target))
    raw = _ATTRIBUTES.decode(data)
    return {name: msgspec.msgpack.decode(value, type=hints.get(name, Any)) for name, value in raw.items()}


def state_type(target: "ReplicatedObject") -> Any:
    """Return the type of the attributes that the object has now, for a decoder."""
    from typing import TypedDict

    hints = get_type_hints(type(target))
    fields = {name: hints.get(name, Any) for name in attributes_of(target)}
    return TypedDict(f"{type(target).__name__}Attributes", fields)  # type: ignore[operator]
