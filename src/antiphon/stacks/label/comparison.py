"""Which labels a message of this stack may have: those of CBCASTs are compared (kernel/labels.py), those of ABCASTs are
any text (queues.py)."""

from antiphon.kernel.errors import UsageError
from antiphon.kernel.functions import find_function
from antiphon.kernel.labels import SEPARATOR
from antiphon.kernel.levels import ABCAST, LEVEL_NAMES, RELIABLE
from antiphon.stacks.label.item import LABEL_BYTES_MAX


def wire_label(label: str) -> bytes:
    """The label as broadcasts carry it; nothing for a text that orders nothing."""
    return label.encode() if SEPARATOR in label else b""


def check_label_at_call(label: str, level: int, outside: bool) -> None:
    """Raise UsageError for a label that cannot order a message of this level; `outside`: of a sender that is no
    member."""
    check_order_label(label, level)
    if outside and level != ABCAST and wire_label(label):
        raise UsageError(f"labels that are compared order what members send; from outside leave {label!r} out")


def check_order_label(label: str, level: int) -> None:
    """Raise UsageError for a label that cannot order a message of this level."""
    name, _, value = label.partition(SEPARATOR)
    encoded = label.encode() if level == ABCAST else wire_label(label)
    if not encoded:
        return
    if len(encoded) > LABEL_BYTES_MAX:
        raise UsageError(f"a label has at most {LABEL_BYTES_MAX} bytes, not {len(encoded)}: {label!r}")
    if level == ABCAST:
        return
    if level != RELIABLE:
        raise UsageError(
            f"a label orders a message by its comparison alone, so the message is `reliable`, not "
            f"{LEVEL_NAMES[level]!r}; send it so, or leave the label {label!r} out"
        )
    function = find_function(name)
    try:
        function(value.encode(), value.encode())
    except Exception as error:
        raise UsageError(f"the comparison {name!r} cannot read the label {label!r}: {error}") from error
