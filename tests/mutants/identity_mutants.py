"""Identities with one check removed each, and the scene that shows it."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from antiphon.parts.member import Member
from antiphon.parts.membership import agreement
from antiphon.parts.membership import proofs as proving
from antiphon.parts.membership.agreement import Agreement
from antiphon.parts.membership.messages import Chunks
from antiphon.runtime import authorship, certificates, pair_seal
from antiphon.runtime import identity as identities
from antiphon.runtime.authorship import Marks
from antiphon.runtime.identity import IdentitySupply
from antiphon.runtime.pair_seal import Budget, PairPeer, PairSeal
from tests.mutants.guest_mutants import staged_problem
from tests.mutants.seal_mutants import changed, staged
from tests.parts.membership import test_proofs as proofs
from tests.runtime import test_pair_seal as pairs


def moved(to: Any, place: Any, name: str, *changes: tuple[str, str]) -> tuple[Any, str, Callable[..., Any]]:
    """A function of `place`, changed, as the module `to` has imported it."""
    return to, name, changed(place, name, *changes)[2]


_ANY_VIEW: Final = (
    ("view.id", "0"),
    ("[(one.name, one.incarnation) for one in view.members]", "0"),
)

_SCENES: Final = (
    staged(
        "pair: replays are taken",
        pairs.test_what_comes_twice_is_taken_once,
        changed(PairSeal, "open", ("not peer.window.is_new(counter)", "False")),
    ),
    staged(
        "pair: forgeries move the window",
        pairs.test_a_forged_counter_moves_no_window,
        changed(PairSeal, "_open_pair", ("plain = peer.open(", "peer.window.take(counter)\n    plain = peer.open(")),
    ),
    staged(
        "pair: one key for all pairs",
        pairs.test_a_member_cannot_move_the_window_of_another,
        changed(PairPeer, "_derive", ("self._secret", "bytes(32)"), (" + sender + receiver", "")),
    ),
    staged(
        "pair: a certificate needs no key",
        pairs.test_a_certificate_without_its_key_is_worth_nothing,
        changed(
            PairSeal,
            "_take_hello",
            (
                "certificate is None or not is_signed(certificate.public, signature, _STATEMENT + life + said)",
                "certificate is None",
            ),
        ),
    ),
    staged(
        "pair: a hello is for any life",
        pairs.test_a_hello_to_a_former_life_is_nothing,
        changed(PairSeal, "_take_hello", ("named != self.life or ", "")),
    ),
    staged(
        "pair: whoever is at the address gets it",
        pairs.test_a_packet_goes_to_the_process_that_is_meant_whoever_is_at_its_address,
        changed(PairSeal, "seal", ("self._by_name.get(names[place]) if names else ", "")),
    ),
    staged(
        "pair: the revoked come back",
        pairs.test_who_is_revoked_is_forgotten_and_cannot_come_back,
        changed(IdentitySupply, "holds", (" and not self.revocations.has(certificate)", "")),
    ),
    staged(
        "pair: the revoked stay",
        pairs.test_who_is_revoked_is_forgotten_and_cannot_come_back,
        (PairSeal, "forget_untrusted", lambda self: None),
    ),
    staged(
        "pair: certificates last for ever",
        pairs.test_a_certificate_that_has_run_out_is_worth_nothing,
        changed(IdentitySupply, "holds", ("certificate.until_s > now_s and ", "")),
    ),
    staged(
        "pair: revocations go back",
        pairs.test_revocations_are_passed_on_and_never_go_back,
        changed(IdentitySupply, "take_revocations", ("found.version > self.revocations.version", "True")),
    ),
    staged(
        "pair: newcomers are not told of revocations",
        pairs.test_revocations_are_passed_on_and_never_go_back,
        changed(PairSeal, "_take_hello", ("version < self._supply.revocations.version", "False")),
    ),
    staged(
        "pair: roles are not asked",
        partial(pairs.test_roles_say_what_is_heard, "reader", True, False),
        changed(PairSeal, "_take", ("not is_allowed(packet, author)", "False")),
    ),
    staged(
        "pair: guests speak in groups",
        partial(pairs.test_roles_say_what_is_heard, "guest", False, False),
        changed(pair_seal, "is_allowed", ("not author.may(JOIN_RIGHT)", "False")),
    ),
    staged(
        "pair: chunks are not looked into",
        pairs.test_a_reader_cannot_lead_by_chunks,
        changed(pair_seal, "is_allowed", ("chunk_kind(packet_flags(packet), packet)", "packet_flags(packet)")),
    ),
    staged(
        "pair: signatures without limit",
        pairs.test_half_joins_cost_a_bounded_number_of_signatures,
        changed(Budget, "take", ("self._left < 1", "False")),
    ),
    staged(
        "pair: far counters cost keys without limit",
        pairs.test_a_flood_with_a_live_tag_and_far_counters_costs_no_keys,
        changed(PairSeal, "_open_pair", ("not peer.has_key(counter) and not self._work.take(now_s)", "False")),
    ),
    staged(
        "pair: the next key is not at hand",
        pairs.test_a_flood_with_a_live_tag_and_far_counters_costs_no_keys,
        (PairPeer, "has_key", lambda self, counter: False),
    ),
    staged(
        "pair: a hello answers every stranger",
        partial(pairs.test_no_answer_before_the_cookie_is_three_times_as_long, 0),
        changed(PairSeal, "_open_entry", ("elif plain[1:] == self.life:", "elif True:")),
    ),
    staged(
        "pair: whoever forgets lives on",
        pairs.test_when_too_many_were_met_a_new_life_begins,
        changed(PairSeal, "_meet", ("len(self._met) >= LIVES_MAX", "False")),
    ),
    staged(
        "pair: forks go unnoticed",
        pairs.test_a_fork_begins_a_new_life,
        changed(PairSeal, "_notice_fork", ("self._pid != os.getpid()", "False")),
    ),
    staged(
        "mark: resends need none",
        pairs.test_a_member_cannot_make_a_resend_of_another,
        changed(PairSeal, "_take", ("if found is None:", "if False:"), ("author = found", "author = found or author")),
    ),
    staged(
        "mark: codes are not checked",
        pairs.test_a_member_cannot_make_a_resend_of_another,
        (authorship, "_is_code", lambda cipher, number, code, packet: True),
    ),
    staged(
        "mark: none is kept",
        pairs.test_a_resend_by_a_third_goes_under_the_name_of_its_author,
        (Marks, "keep", lambda self, author, packet, mark: None),
    ),
    staged(
        "mark: all are kept",
        pairs.test_marks_are_bounded_by_author,
        changed(Marks, "keep", ("len(kept) > MARKS_MAX", "False")),
    ),
    staged(
        "mark: the last one counts",
        pairs.test_marks_are_bounded_by_author,
        changed(Marks, "keep", ("if beginning in self._marks:", "if False:")),
    ),
    staged(
        "core: packets speak in any name",
        proofs.test_packets_in_the_name_of_another_are_refused,
        (Member, "_check_author", lambda self, view, sender: None),
    ),
    staged(
        "core: words on membership speak in any name",
        proofs.test_words_in_the_name_of_another_are_refused,
        changed(Chunks, "take", ("author and message.speaker() != author", "False")),
    ),
    staged(
        "core: an INSTALL needs no proof",
        proofs.test_an_install_without_the_word_of_a_majority_is_refused,
        changed(Agreement, "_is_proven", ("not self.credentials.are_known", "True")),
    ),
    staged(
        "pair: any authority will do",
        pairs.test_a_certificate_of_another_authority_is_worth_nothing,
        moved(identities, certificates, "read_certificate", ("not is_signed(authority, signature, said)", "False")),
    ),
    staged(
        "pair: revocations need no signature",
        pairs.test_revocations_of_another_authority_are_nothing,
        moved(identities, certificates, "read_revocations", (" or not is_signed(authority, signature, said)", "")),
    ),
    staged(
        "mark: signatures are not checked",
        pairs.test_a_member_cannot_make_a_resend_of_another,
        moved(
            pair_seal,
            authorship,
            "find_author",
            ("is_signed(certificate.public, mark[end:], _STATEMENT + packet)", "True"),
        ),
    ),
    staged(
        "core: a proof is for any proposal",
        proofs.test_a_proof_is_for_its_proposal_and_its_view_alone,
        moved(agreement, proving, "accepted_statement", ("proposal.body()", "0")),
        moved(proofs, proving, "accepted_statement", ("proposal.body()", "0")),
    ),
    staged(
        "core: a proof is for any view",
        proofs.test_a_proof_is_for_its_proposal_and_its_view_alone,
        moved(agreement, proving, "accepted_statement", *_ANY_VIEW),
        moved(proofs, proving, "accepted_statement", *_ANY_VIEW),
    ),
)

IDENTITY_MUTANTS: Final = tuple(mutant for mutant, _ in _SCENES)
IDENTITY_STAGED: Final[dict[str, Callable[[], str | None]]] = {
    mutant.name: partial(staged_problem, scene) for mutant, scene in _SCENES
}
