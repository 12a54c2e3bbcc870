"""The stack `label`, as one process runs it."""

from random import Random
from typing import final

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.parts.member import Member
from antiphon.stacks.label.member import LabelMember
from antiphon.stacks.label.offers import OFFERS
from antiphon.stacks.stack import Stack


@final
class LabelStack(Stack):
    """All groups of one process on this stack."""

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)
        self.groups_apart = True

    def make_member(self, join: Join, last_number: int) -> Member:
        lazy_ns = 1000 * self.option("lazy_us")
        return LabelMember(join, self._process, last_number, self._random, self._options, lazy_ns)
