"""Handing packets to the host of a process's conversations, as its stack does."""

from antiphon.kernel.codec import unseal
from antiphon.kernel.errors import MalformedError
from antiphon.stacks.conversation.free.conversation import ConversationCore
from antiphon.stacks.conversation.free.host import ConversationHost


def give(host: ConversationHost, packet: bytes, now_ns: int) -> ConversationCore | None:
    """Hand over one packet; the conversation that it was for. What is refused is dropped."""
    try:
        kind, cid, tag, via, flags, _ = unseal(packet)
        return host.take(kind, cid, tag, via, flags, packet, now_ns)
    except MalformedError:
        return None


def refusal(host: ConversationHost, packet: bytes) -> str:
    """Hand over one packet; why it was refused, "" if it was taken."""
    try:
        kind, cid, tag, via, flags, _ = unseal(packet)
        host.take(kind, cid, tag, via, flags, packet, 0)
    except MalformedError as error:
        return error.reason
    return ""
