"""Linked domains send less from site to site than one domain over all sites."""

from bench.link_bytes import measure


def test_links_carry_less_than_one_big_domain() -> None:
    assert 0 < measure(linked=True, messages=1, size=200, share=0.3) < measure(False, 1, 200, 0.3) / 5
