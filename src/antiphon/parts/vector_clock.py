"""Vector time (isis-1991, section 4.3), as plain lists of counts indexed by rank.

What a vector says: entry k counts the packets of member k that come before. Two vectors compare entry by entry;
m comes before m' just if VT(m) < VT(m').
"""


def merge(into: list[int], other: list[int]) -> bool:
    """Raise each entry of `into` to that of `other`; whether any rose (4.3, rule 4)."""
    rose = False
    for rank in range(len(into)):
        if other[rank] > into[rank]:
            into[rank] = other[rank]
            rose = True
    return rose


def at_most(one: list[int], other: list[int]) -> bool:
    """one <= other: no entry is greater."""
    return all(one[rank] <= other[rank] for rank in range(len(one)))


def before(one: list[int], other: list[int]) -> bool:
    """one < other: no entry is greater and some entry is less."""
    return at_most(one, other) and one != other


def changes(base: list[int], now: list[int]) -> list[tuple[int, int]]:
    """The entries of `now` that differ from `base`, as (rank, value): all that must travel (5.4, lemma 1)."""
    result: list[tuple[int, int]] = []
    for rank in range(len(now)):
        if now[rank] != base[rank]:
            result.append((rank, now[rank]))
    return result
