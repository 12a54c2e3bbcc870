"""How `antiphon node` prints its log on standard error: lines for people and `grep`, or JSON for collectors."""

import json
import logging
import sys
import time
import traceback
from typing import Any, final


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03}Z"


def _error(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return "".join(traceback.format_exception(record.exc_info[1])).rstrip()


@final
class TextFormatter(logging.Formatter):
    """`2026-11-18T07:20:38.123Z INFO event=view_installed group=quotes …`; the lines of a traceback follow."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if not hasattr(record, "event"):
            message = f"event=log logger={record.name} text={json.dumps(message, ensure_ascii=False)}"
        error = _error(record)
        return f"{_time(record)} {record.levelname} {message}" + (f"\n{error}" if error else "")


@final
class JsonFormatter(logging.Formatter):
    """One object per line: time, level, event, the fields of the event, text and error where there are such."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "log"),
        }
        document |= getattr(record, "fields", {"logger": record.name})
        text = getattr(record, "text", record.getMessage())
        error = _error(record)
        document |= {name: value for name, value in (("text", text), ("error", error)) if value}
        return json.dumps(document, ensure_ascii=False)


def set_up_logging(level: str, format: str) -> None:
    """Log everything of at least this level on standard error; libraries, at least warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("antiphon").setLevel(level.upper())
