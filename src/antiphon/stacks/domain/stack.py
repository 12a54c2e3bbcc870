"""The stack `domain`, as one process runs it."""

from random import Random
from typing import final

from antiphon.kernel.identity import ProcessId
from antiphon.kernel.inputs import Join
from antiphon.kernel.options import Options
from antiphon.kernel.policies import PARTITIONABLE
from antiphon.parts.member import Member
from antiphon.stacks.domain.member import DomainMember
from antiphon.stacks.domain.offers import OFFERS
from antiphon.stacks.domain.partitionable import PartitionableMember
from antiphon.stacks.stack import Stack


@final
class DomainStack(Stack):
    """All groups of one process on this stack."""

    def __init__(self, process: ProcessId, random: Random, options: Options) -> None:
        super().__init__(OFFERS, process, random, options)

    def make_member(self, join: Join, last_number: int) -> Member:
        if join.policy == PARTITIONABLE:
            return PartitionableMember(join, self._process, last_number, self._random, self._options)
        return DomainMember(join, self._process, last_number, self._random, self._options)
