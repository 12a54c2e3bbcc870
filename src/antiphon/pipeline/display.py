"""Small tables for notebooks, as HTML. Every text is escaped: names come from users."""

from collections.abc import Sequence
from html import escape


def html_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a line above it. Figures are set to the right."""
    head = "".join(f"<th style='text-align:left'>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<p>{escape(caption)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"<td style='text-align:right'>{value:,}</td>"
    return f"<td style='text-align:left'>{escape('' if value is None else str(value))}</td>"
