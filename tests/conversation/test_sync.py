"""Conversations for plain threads, over real sockets on loopback."""

from pathlib import Path
from threading import Thread

import pytest

import antiphon
from antiphon.conversation import ConversationTimeoutError
from antiphon.conversation.sync import (
    accept_conversation,
    open_conversation,
    restart_conversation,
    stored_conversations,
)


def test_threads_talk_and_come_back(tmp_path: Path) -> None:
    with antiphon.sync.Node("a", address="127.0.0.1:0", incarnation=1) as one:
        with antiphon.sync.Node("b", address="127.0.0.1:0", incarnation=1, storage=tmp_path) as other:
            address = other.address
            a = open_conversation(one, {"b": other.address}, keep=True)
            question = a.send(b"shall we?")
            b = accept_conversation(other, timeout_s=20)
            assert b.participants == ("a", "b")
            assert b.receive(20)[1] == b"shall we?"
            b.send(b"we shall")
            assert a.receive(20)[1] == b"we shall"
            assert a.stable(question)
            with pytest.raises(ConversationTimeoutError):
                b.receive(0.01)
            heard: list[bytes] = []
            reading = Thread(target=lambda: heard.extend(payload for _, payload in b))
            reading.start()
            a.send(b"let us")
            b.call(lambda conversation: conversation.core.me)
            while not heard:
                pass
            b.close()
            reading.join(20)
            assert heard == [b"let us"]
        with antiphon.sync.Node("b", address=address, incarnation=2, storage=tmp_path) as other:
            (checkpoint,) = stored_conversations(other)
            b = restart_conversation(other, checkpoint, again=True, timeout_s=20)
            assert b.receive(20)[1] == b"shall we?"
            b.send(b"we shall")
            assert b.receive(20)[1] == b"let us"
