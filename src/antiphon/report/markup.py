"""HTML and SVG as trees, so that no text can ever be taken for markup.

Every string passes through here on its way to the page: the serializer escapes it, and what is not printable is
replaced (HTML and XML allow no control characters, escaped or not).
"""

import xml.etree.ElementTree as ET
from typing import Final

from antiphon.report.words import printable

Child = ET.Element | str | None
Attribute = str | int | float

# Elements whose text HTML takes as it stands; only our own style and script go there.
RAW: Final = ("style", "script")


def tag(name: str, attributes: dict[str, Attribute] | None = None, *children: Child) -> ET.Element:
    """An element. A child of None is left out; a float attribute is written with one decimal, enough for a pixel."""
    element = ET.Element(name, {key: _value(value) for key, value in (attributes or {}).items()})
    previous: ET.Element | None = None
    for child in children:
        if child is None:
            continue
        if isinstance(child, ET.Element):
            element.append(child)
            previous = child
        elif previous is None:
            element.text = (element.text or "") + printable(child)
        else:
            previous.tail = (previous.tail or "") + printable(child)
    return element


def raw(name: str, text: str) -> ET.Element:
    """A style or script element with our own text."""
    assert name in RAW
    assert f"</{name}" not in text
    element = ET.Element(name)
    element.text = text
    return element


def held(json: str) -> ET.Element:
    """Data for the script, as JSON. No character in it can end the element or begin another."""
    safe = json.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    element = ET.Element("script", {"type": "application/json", "id": "data"})
    element.text = safe
    return element


def document(root: ET.Element) -> str:
    """The whole page as text."""
    return "<!DOCTYPE html>\n" + ET.tostring(root, encoding="unicode", method="html") + "\n"


def _value(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return printable(str(value))
