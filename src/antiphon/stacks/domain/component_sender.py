"""What one process sends about configurations, and how often it may send that to the same address (components.py)."""

from typing import final

from antiphon.stacks.domain.component_messages import (
    ATTEMPT,
    COMMIT,
    Attempt,
    Commit,
    encode_attempt,
    encode_commit,
)

Letter = tuple[str, int, bytes]
"""Address, kind, body."""


@final
class ComponentSender:
    """Collects messages in `letters` until the end of the step. The times that it keeps are forgotten again and again:
    answers with each configuration, attempts after a time of silence."""

    __slots__ = ("_address", "_answered_ns", "_attempted_ns", "_retry_ns", "letters")

    def __init__(self, address: str, retry_ns: int) -> None:
        self._address = address
        self._retry_ns = retry_ns
        self._answered_ns: dict[str, int] = {}
        """By address, from when on an answer may be sent there again."""
        self._attempted_ns: dict[str, int] = {}
        """By address, when an ATTEMPT was last sent there."""
        self.letters: list[Letter] = []

    def take(self) -> list[Letter]:
        """Remove and return what is to leave."""
        letters, self.letters = self.letters, []
        return letters

    def tell(self, commit: Commit, address: str) -> None:
        """Send a commit."""
        self.letters.append((address, COMMIT, encode_commit(commit)))

    def answer(self, commit: Commit, address: str, now_ns: int) -> None:
        """Send a commit, if an answer was not sent there just now."""
        if now_ns >= self._answered_ns.get(address, 0):
            self._answered_ns[address] = now_ns + self._retry_ns // 4
            self.tell(commit, address)

    def forget_answers(self) -> None:
        """Let every address be answered at once again."""
        self._answered_ns = {}

    def may_attempt(self, address: str, now_ns: int, spacing_ns: int) -> bool:
        """Return whether the last attempt to this address of another process is at least so long ago."""
        return address != self._address and now_ns >= self._attempted_ns.get(address, -spacing_ns) + spacing_ns

    def attempt(self, attempt: Attempt, address: str, now_ns: int) -> None:
        """Send an attempt; ask `may_attempt` first."""
        self._attempted_ns[address] = now_ns
        self.letters.append((address, ATTEMPT, encode_attempt(attempt)))

    def forget_attempts(self, until_ns: int) -> None:
        """Forget the attempts that were sent by then."""
        self._attempted_ns = {where: at_ns for where, at_ns in self._attempted_ns.items() if at_ns > until_ns}
