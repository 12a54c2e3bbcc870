"""The guarantee `content`, for the reference auditor; its rules are at the top of `antiphon.pipeline.reference`."""

from antiphon.history.schema import DIGEST_DIGITS, Row
from antiphon.pipeline.explain import MessageName, content_text
from antiphon.pipeline.guarantees import CONTENT
from antiphon.pipeline.reference_views import FindTally, MakeExample
from antiphon.pipeline.reference_world import KnownLog, ReferenceWorld, messages_of


class ContentJudge:
    """Compares what was delivered with what was sent. `tally` says where to count, if at all."""

    def __init__(self, world: ReferenceWorld, tally: FindTally, example: MakeExample) -> None:
        self._world = world
        self._tally = tally
        self._example = example

    def judge(self) -> None:
        for log in self._world.logs.values():
            for row in log.rows:
                if row.kind == "deliver":
                    self._judge_row(log, row)

    def _judge_row(self, log: KnownLog, row: Row) -> None:
        if (tally := self._tally(CONTENT, row.group or "")) is None:
            return
        known = [message for message in messages_of(row) if message in self._world.bit]
        sent = [message for message in known if message in self._world.send_row]
        tally.checked += len(known)
        tally.unknown += len(known) - len(sent)
        bad = [message for message in sent if self._differs(message, row)] or self._of_other_size(sent, row)
        tally.violations += len(bad)
        tally.causes.update(bad)
        if bad and tally.example is None:
            text = content_text(log.process, bad[0])
            tally.example = self._example(text, bad[0].group, [self._world.send_row[bad[0]], row])

    def _differs(self, message: MessageName, row: Row) -> bool:
        """In level or digest."""
        send = self._world.send_row[message]
        sent, delivered = _digest(send, message), _digest(row, message)
        return send.level != row.level or (sent is not None and delivered is not None and sent != delivered)

    def _of_other_size(self, sent: list[MessageName], row: Row) -> list[MessageName]:
        """All messages of the row, if it stands for whole send rows, and these are of another size together."""
        sends = {id(send): send for send in (self._world.send_row[message] for message in sent)}.values()
        if len(sent) < (row.count or 0) or sum(send.count or 0 for send in sends) != row.count:
            return []
        return sent if sum(send.size or 0 for send in sends) != row.size else []


def _digest(row: Row, message: MessageName) -> str | None:
    """The part of a row's digest that stands for one of its messages."""
    if row.digest is None or row.number is None:
        return None
    place = (message.number - row.number) * DIGEST_DIGITS
    return row.digest[place : place + DIGEST_DIGITS]
