"""When a paused process goes on."""


def resume_ns(pauses: list[tuple[int, int]], at_ns: int) -> int:
    """When what is due at `at_ns` can happen: then, or when the last of the pauses that overlap there has ended.

    A pause is [from, until).
    """
    moved = True
    while moved:
        moved = False
        for from_ns, until_ns in pauses:
            if from_ns <= at_ns < until_ns:
                at_ns = until_ns
                moved = True
    return at_ns
