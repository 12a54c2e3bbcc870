"""The fast profile: its times fit together, and a group works with it."""

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.options import MILLISECOND_NS, Options
from tests.runtime.cluster import run
from tests.runtime.places import everyone, founded, talk


def test_several_heartbeats_may_be_lost_before_anybody_is_doubted() -> None:
    for options in (Options(), Options.fast()):
        assert options.silence_ns_min >= 5 * options.heartbeat_interval_ns
        assert options.doubt_ns >= options.heartbeat_interval_ns  # so that somebody has heard it since
        assert options.retry_ns < options.silence_ns_min < options.silence_ns_max


def test_the_fast_profile_gives_up_after_what_it_says() -> None:
    fast = Options.fast()
    assert fast.silence_ns_min + fast.doubt_ns == 210 * MILLISECOND_NS
    assert 4 * (fast.silence_ns_min + fast.doubt_ns) < Options().silence_ns_min + Options().doubt_ns


def test_a_group_with_the_fast_profile_goes_on_without_its_oldest() -> None:
    async def test() -> None:
        async with founded(options=Options.fast()) as places:
            await talk(places)
            places[0].kill()
            for change in await everyone(places[1:], "b/1", "c/1"):
                assert change.failed == (ProcessId("a"),)
            await talk(places[1:])

    run(test)
