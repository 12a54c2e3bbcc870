"""Wire versions, and the leaving of all members, with one rule removed each, and the scene that shows it."""

from collections.abc import Callable
from functools import partial
from typing import Final

from antiphon.kernel import codec
from antiphon.parts.membership.agreement import Agreement
from antiphon.parts.membership.membership import Membership
from antiphon.parts.membership.messages import Chunks, MembershipMessage
from antiphon.parts.membership.rounds import Round
from tests.kernel import test_wire_versions as versions
from tests.mutants.guest_mutants import staged_problem
from tests.mutants.seal_mutants import changed, staged
from tests.testing import test_simulate_leave as leaving

_READ_ALL: Final = changed(
    codec, "unseal", ("not VERSION_MIN <= version <= newest", "not VERSION_MIN <= version <= VERSION")
)

_SCENES: Final = (
    staged(
        "wire: joiners do not count",
        versions.test_the_version_of_the_next_view_is_read_by_all,
        changed(Round, "_version", ("*[requests.version(process) for process in requests.joiners]", "")),
    ),
    staged(
        "wire: whoever goes does not count",
        versions.test_whoever_goes_counts_too,
        changed(
            Round,
            "_version",
            ("for rank in members]", "for rank in members if rank in self.states and rank != 1]"),
        ),
    ),
    staged(
        "wire: packets that are too new are read",
        versions.test_versions_in_reach_are_read_and_others_are_dropped,
        (versions, "unseal", _READ_ALL[2]),
    ),
    staged(
        "wire: packets without a checksum are read without a seal",
        versions.test_under_a_seal_the_newest_version_has_no_checksum_and_else_it_has,
        (versions, "unseal", changed(codec, "unseal", ("if sealed and version", "if version"))[2]),
    ),
    staged(
        "wire: a view that cannot be read is entered",
        versions.test_a_view_that_cannot_be_read_is_not_entered,
        (Agreement, "_check_version", lambda self, proposal: None),
    ),
    staged(
        "wire: nobody tells what it reads",
        partial(versions.test_a_rolling_upgrade_loses_nothing_and_ends_in_the_new_version, "vector", False),
        changed(MembershipMessage, "encode", ("proposed, self.version)", "proposed)")),
    ),
    staged(
        "wire: the version of the next view is not told",
        partial(versions.test_a_rolling_upgrade_loses_nothing_and_ends_in_the_new_version, "vector", False),
        changed(Chunks, "take", ("message.accepted.view.version = max(proposed, VERSION_MIN)", "pass")),
    ),
    staged(
        "leave: the last goes without a word to those before",
        partial(leaving.test_all_leave_at_once, "vector", 8),
        changed(Membership, "_part", ('self._remaining.update(dict.fromkeys(self._unanswered, ""))', "pass")),
    ),
)

WIRE_MUTANTS: Final = tuple(mutant for mutant, _ in _SCENES)
WIRE_STAGED: Final[dict[str, Callable[[], str | None]]] = {
    mutant.name: partial(staged_problem, scene) for mutant, scene in _SCENES
}
