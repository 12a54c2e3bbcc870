"""Seals and sealed connections with one check removed each, and the scene that shows it."""

import inspect
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from antiphon.runtime import seal as sealing
from antiphon.runtime import sealed_streams as streams
from antiphon.runtime.seal import MetLife, ReplayWindow, Seal
from antiphon.runtime.sealed_streams import RecordKeys, SealedConnection, Strangers
from antiphon.runtime.trust import Trust
from tests.mutants.guest_mutants import staged_problem
from tests.mutants.mutants import Mutant
from tests.runtime import test_seal as seals
from tests.runtime import test_sealed_streams as connections
from tests.runtime import test_trust as trusting


def changed(place: Any, name: str, *changes: tuple[str, str]) -> tuple[Any, str, Callable[..., Any]]:
    """A function of a class or module with pieces of its text replaced."""
    function = getattr(place, name)
    if not inspect.isfunction(function):
        return place, name, function  # compiled: it has no text, and mutants are hunted in plain Python
    text = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    names: dict[str, Any] = {}
    exec(text, function.__globals__, names)
    return place, name, names[name]


_NO_HEADER: Final = (
    changed(Seal, "_seal", ("packet, header)", "packet, b'')")),
    changed(sealing, "open_sealed", ("datagram[:HEADER_BYTES]", "b''")),
)


def staged(
    name: str, scene: Callable[[], None], *patches: tuple[Any, str, Callable[..., Any]]
) -> tuple[Mutant, Callable[[], None]]:
    """A mutant, and the scene that shows it."""
    return Mutant(name, (), patches), scene


_SCENES: Final = (
    staged(
        "seal: replays are taken",
        seals.test_what_comes_twice_is_taken_once,
        changed(ReplayWindow, "is_new", ("not self._bits", "True or self._bits")),
    ),
    staged(
        "seal: nothing is too old",
        seals.test_what_is_older_than_the_window_is_refused,
        changed(ReplayWindow, "is_new", ("self._top - counter < WINDOW", "True")),
    ),
    staged(
        "seal: forgeries move the window",
        seals.test_a_forged_counter_does_not_move_the_window,
        changed(
            Seal,
            "open",
            ("index = counter >> SUBKEY_BITS", "index = counter >> SUBKEY_BITS; peer.window.take(counter)"),
        ),
    ),
    staged("seal: the header is not covered", seals.test_the_header_cannot_be_changed, *_NO_HEADER),
    staged(
        "seal: classes are alike",
        seals.test_each_class_is_taken_as_itself_alone,
        changed(
            Seal,
            "open",
            ("or (found != kind and found != GREETING)", ""),
            ("if found == kind:", "if found != GREETING:"),
        ),
    ),
    staged(
        "seal: own packets are taken",
        seals.test_own_packets_are_refused,
        changed(Seal, "open", ("or life == self.life", "")),
    ),
    staged(
        "seal: any greeting is a meeting",
        seals.test_a_capture_of_everything_is_nothing_to_a_newcomer,
        changed(sealing, "_names", ("bool(greeting[1:] == life)", "True")),
    ),
    staged(
        "seal: strangers are met unasked",
        seals.test_a_capture_of_everything_is_nothing_to_a_newcomer,
        changed(Seal, "_meet", ("kind == GREETING and _names(packet, self.life)", "True")),
    ),
    staged(
        "seal: counters before the greeting are new",
        seals.test_what_was_sealed_before_a_life_began_is_nothing_to_it,
        changed(MetLife, "__init__", ("ReplayWindow(greeting)", "ReplayWindow(0)")),
    ),
    staged(
        "seal: whoever forgets lives on",
        seals.test_whoever_is_forgotten_cannot_be_replayed,
        changed(Seal, "_remember", ("self._begin_life()", "pass")),
    ),
    staged(
        "seal: nobody is forgotten",
        seals.test_whoever_is_forgotten_cannot_be_replayed,
        changed(Seal, "_remember", ("len(self._met) > LIVES_MAX", "False")),
    ),
    staged(
        "seal: forks go unnoticed",
        seals.test_a_fork_repeats_nothing,
        changed(Seal, "_notice_fork", ("self._pid != os.getpid()", "False")),
    ),
    staged(
        "seal: greetings of forks go unnoticed",
        seals.test_a_fork_repeats_nothing,
        changed(Seal, "_answer", ("self._notice_fork()", "pass")),
    ),
    staged(
        "seal: a new life has the name of the old",
        seals.test_at_the_end_of_the_counter_a_new_life_begins,
        changed(
            Seal,
            "_begin_life",
            ("self.life = self._draw(LIFE_BYTES)", "self.life = getattr(self, 'life', b'') or self._draw(LIFE_BYTES)"),
        ),
    ),
    staged(
        "seal: one key for all counters",
        seals.test_subkeys_change_before_their_limit,
        changed(sealing, "derive", ('index.to_bytes(8, "little")', "b''")),
    ),
    staged(
        "seal: work for strangers is not limited",
        seals.test_a_flood_of_unknown_lives_costs_little_and_leaves_nothing,
        changed(Seal, "_may_work", ("self._work < 1", "False")),
    ),
    staged(
        "seal: forged counters cost keys without limit",
        seals.test_a_flood_with_a_live_tag_costs_no_keys,
        changed(Seal, "open", ("if not self._may_work(now_s):", "if False:")),
    ),
    staged(
        "seal: every packet of a stranger is answered",
        seals.test_strangers_are_asked_seldom_and_briefly,
        changed(Seal, "_meet", ("now_s - asked_s < ASK_S", "False")),
    ),
    staged(
        "seal: strangers are remembered for ever",
        seals.test_strangers_that_were_asked_are_soon_forgotten,
        changed(Seal, "_meet", ("len(self._asked) > ASKED_MAX", "False")),
    ),
    staged(
        "seal: whoever asks first for a stranger keeps it",
        seals.test_a_stranger_cannot_be_kept_from_meeting_by_false_sources,
        changed(Seal, "_meet", ("(life, source)", "(life, ('', 0))"), ("[life, source]", "[life, ('', 0)]")),
    ),
    staged(
        "seal: removed keys still open",
        seals.test_a_stolen_key_is_worth_nothing_once_it_is_taken_out,
        changed(
            Seal,
            "change_keys",
            ("self._keyring = keyring", "keyring.by_tag.update(self._keyring.by_tag)\n    self._keyring = keyring"),
        ),
    ),
    staged(
        "seal: what a thief did lasts",
        seals.test_a_stolen_key_is_worth_nothing_once_it_is_taken_out,
        changed(Seal, "change_keys", ("if is_cut:", "if False:")),
    ),
    staged(
        "seal: the newest key is used at once",
        seals.test_a_new_key_is_used_when_the_last_one_has_it_and_nothing_is_lost,
        changed(Seal, "choose_key", ("least = min(", "least = max(")),
    ),
    staged(
        "seal: greetings are sealed by the own key",
        partial(seals.test_a_process_that_was_down_comes_back_by_any_listed_key, (1,)),
        changed(Seal, "_answer", ("GREETING, key)", "GREETING, self._keyring.newest)")),
    ),
    staged(
        "stream: records have no numbers",
        connections.test_records_cannot_be_repeated_swapped_or_left_out,
        changed(RecordKeys, "seal", ("number.to_bytes", "(0).to_bytes")),
        changed(RecordKeys, "open", ("number.to_bytes", "(0).to_bytes")),
    ),
    staged(
        "stream: the acceptor's hello does not count",
        connections.test_a_recorded_connection_cannot_be_played_again,
        changed(RecordKeys, "__init__", ("dialler + acceptor", "dialler")),
    ),
    staged(
        "stream: a cut goes unnoticed",
        connections.test_a_connection_that_was_cut_off_is_reported_as_lost,
        changed(SealedConnection, "connection_lost", ("not self._has_ended", "False")),
    ),
    staged(
        "stream: whoever says hello is let in",
        connections.test_a_program_does_not_hear_of_strangers,
        changed(SealedConnection, "_take_hello", ("return True", "self._begin(_PROOF)\n    return True")),
    ),
    staged(
        "stream: strangers are without number",
        connections.test_strangers_are_limited,
        changed(Strangers, "add", ("len(self._waiting) > STRANGERS_MAX", "False")),
    ),
    staged(
        "stream: removed keys go on",
        connections.test_a_connection_ends_when_its_key_is_taken_out,
        changed(SealedConnection, "_take_records", ("self._key.tag not in self._supply.keyring.by_tag", "False")),
    ),
    staged(
        "stream: who dials is not asked for keys",
        connections.test_plain_and_sealed_ends_do_not_talk,
        changed(streams, "open_connection", ('trust.keys("what is dialled", address)', "None")),
    ),
    staged(
        "trust: no key is no matter",
        trusting.test_off_loopback_a_node_without_a_key_does_not_start,
        changed(Trust, "keys", ("raise KeyMissingError(what, join_address(address))", "return None")),
    ),
)

SEAL_MUTANTS: Final = tuple(mutant for mutant, _ in _SCENES)
SEAL_STAGED: Final[dict[str, Callable[[], str | None]]] = {
    mutant.name: partial(staged_problem, scene) for mutant, scene in _SCENES
}
