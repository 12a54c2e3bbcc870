"""The ways into a group: as a founder, alone or with others, or later, by asking.

Founders whose incarnations are all known begin at once, each by itself. Where incarnations come from the clock,
founders meet first (parts/membership/founding.py). Whoever comes later asks those that a Search finds, and the first
contact founds the group if nobody is there (runtime/discovery.py).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from antiphon.kernel.causality_domain import CausalityDomain
from antiphon.kernel.errors import UsageError
from antiphon.kernel.identity import ProcessId, View
from antiphon.kernel.inputs import Join
from antiphon.runtime.address import SocketAddress, join_address, resolve
from antiphon.runtime.address_book import contacts_of
from antiphon.runtime.discovery import LOOK_S, Discovery, ListedContacts
from antiphon.runtime.discovery_search import Search
from antiphon.runtime.driver import Driver
from antiphon.runtime.errors import FoundingError, JoinError
from antiphon.runtime.group import Group
from antiphon.runtime.group_events import NO_VIEW
from antiphon.runtime.naming import check_name, parse_process
from antiphon.stacks.registry import offer

LAST_VIEWS_MAX: Final = 10_000
"""Of so many groups that were left it is known from which view, so that they can be joined again in the same life."""
MakeGroup = Callable[[Driver, str, str, str, CausalityDomain], Group]
"""Makes a group from its name, stack, policy and domain."""


class Joining:
    """How one node gets into its groups."""

    def __init__(self, running: Callable[[], Driver], make_group: MakeGroup) -> None:
        """`running`: the driver, or an error if the node is not started or has ended."""
        self._running = running
        self._make_group = make_group
        self._address = ""
        self._family = 0
        self.groups: dict[str, Group] = {}
        """Those that this process is in, or asks to be let into."""
        self._last_views: dict[str, int] = {}
        """The last view that this process was in, of groups that it is in no more."""
        self._unsent: dict[str, int] = {}
        """How many messages of such a group were dropped when it ended."""
        self._searches: dict[asyncio.Task[None], Search] = {}
        self._discoveries: dict[int, Discovery] = {}

    def start(self, address: str, family: int) -> None:
        """The socket is bound there."""
        self._address = address
        self._family = family

    def begin_life(self) -> None:
        """The next incarnation has been in no group yet."""
        self._last_views.clear()
        self._unsent.clear()

    def forget(self, group: Group) -> None:
        """A group is over: nothing is kept for it, and it can be joined again."""
        if self.groups.get(group.name) is group:
            del self.groups[group.name]
        if group.view is not NO_VIEW:
            self._last_views[group.name] = group.view.id
            if group._unsent:
                self._unsent[group.name] = group._unsent
            while len(self._last_views) > LAST_VIEWS_MAX:
                oldest = next(iter(self._last_views))
                del self._last_views[oldest]
                self._unsent.pop(oldest, None)

    def close(self) -> None:
        """Look for nobody any more."""
        for looking in self._searches:
            looking.cancel()
        for discovery in self._discoveries.values():
            discovery.close()

    async def found(
        self, group: str, members: Mapping[str, str], policy: str, stack: str, domain: CausalityDomain
    ) -> Group:
        """Found a group, alone or with others whose incarnations are known."""
        addresses = await self._resolve(members)
        driver = self._running()  # which may have ended while names were looked up
        if driver.process not in addresses:
            raise UsageError(
                f"the members of group {group!r} do not include this process, {driver.process}; every member lists all"
            )
        last_view = self._last_views.get(group, 0)
        if last_view and len(addresses) > 1:
            raise UsageError(
                f"{driver.process} has left group {group!r}, in view {last_view}, and the other founders may have left "
                "it in another; let one of them found it anew, alone, and the others join by contacts, or take "
                "incarnations from the clock: then founders meet first"
            )
        texts = tuple(join_address(address) for address in addresses.values())
        own = join_address(addresses[driver.process])
        member = self._make_group(driver, group, stack, policy, domain)
        view = View(last_view + 1, tuple(addresses), texts)
        join = Join(
            group=group, view=view, stack=stack, policy=policy, address=own, domain=domain,
            unsent=self._unsent.get(group, 0),
        )  # fmt: skip
        driver.join(join, member)
        self._unsent.pop(group, None)  # the engine has passed them over
        self.groups[group] = member
        return member

    async def meet(
        self,
        group: str,
        members: Mapping[str, str],
        policy: str,
        stack: str,
        domain: CausalityDomain,
        timeout_s: float,
        found_after_s: float,
    ) -> Group:
        """Found a group with others whose incarnations are not known (parts/membership/founding.py)."""
        founders: dict[str, str] = {}
        for name, address in members.items():
            check_name("process", name)
            _, resolved = await resolve(address, self._family)
            founders[name] = join_address(resolved)
        driver = self._running()
        if driver.process.name not in founders:
            raise UsageError(
                f"the members of group {group!r} do not include this process, {driver.process.name!r}; every member "
                "lists all"
            )
        if len(set(founders.values())) < len(founders):
            raise UsageError(f"two members of group {group!r} share an address: {founders}")
        member = self._make_group(driver, group, stack, policy, domain)
        join = Join(
            group=group,
            stack=stack,
            policy=policy,
            address=founders[driver.process.name],
            founders=tuple(founders.items()),
            found_after_ns=int(found_after_s * 1e9),
            domain=domain,
            last_view=self._last_views.get(group, 0),
            unsent=self._unsent.get(group, 0),
        )
        driver.join(join, member)
        self._unsent.pop(group, None)  # the engine has passed them over
        self.groups[group] = member
        try:
            if not await member._enter(timeout_s):
                first = next(iter(founders))
                raise FoundingError(group, driver.process, first, list(founders), timeout_s)
        except BaseException:
            member._abandon()
            raise
        return member

    async def begin_alone(
        self,
        group: str,
        members: Mapping[str, str] | None,
        contacts: Sequence[str] | Discovery,
        policy: str,
        stack: str,
        domain: CausalityDomain,
    ) -> Group:
        """Begin in a view of this process alone, of a group whose views merge; the others are told of it."""
        names: tuple[str, ...] = ()
        if members is not None:
            addresses = {parse_process(text).name: where for text, where in members.items()}
            own = addresses.get(self._running().process.name)
            if own is None:
                raise UsageError(
                    f"the members of group {group!r} do not include this process, {self._running().process.name!r}; "
                    "every member lists all"
                )
            contacts = [where for where in addresses.values() if where != own]
            names = tuple(addresses)
        search = Search(contacts, self._address, self._family)
        if contacts:
            await search.look()
        driver = self._running()  # which may have ended while names were looked up
        member = self._make_group(driver, group, stack, policy, domain)
        member._named = names
        join = Join(
            group=group,
            stack=stack,
            policy=policy,
            address=search.own or self._address,
            contacts=tuple(join_address(other) for other in search.others),
            domain=domain,
            last_view=self._last_views.get(group, 0),
            unsent=self._unsent.get(group, 0),
        )
        driver.join(join, member)
        self._unsent.pop(group, None)  # the engine has passed them over
        self.groups[group] = member
        return member

    async def ask(
        self,
        group: str,
        contacts: Sequence[str] | Discovery,
        policy: str,
        stack: str,
        domain: CausalityDomain,
        timeout_s: float,
        found_after_s: float,
    ) -> Group:
        """Ask to be let into a group by those that know it."""
        search = Search(contacts, self._address, self._family)
        driver = self._running()
        patience = asyncio.timeout(timeout_s)
        try:
            async with patience:
                await search.look()
                while not search.own:
                    await asyncio.sleep(LOOK_S)
                    await search.look()
                driver = self._running()  # as above
                member = self._make_group(driver, group, stack, policy, domain)
                join = Join(
                    group=group,
                    stack=stack,
                    policy=policy,
                    address=search.own,
                    contacts=search.texts() if offer(stack).is_served(policy) else (contacts_of(group),),
                    domain=domain,
                    last_view=self._last_views.get(group, 0),
                    unsent=self._unsent.get(group, 0),
                )
                driver.join(join, member, search.others)
                self._unsent.pop(group, None)  # the engine has passed them over
                self.groups[group] = member
                self._look_on(driver, member, search)
                await self._enter(driver, member, search, found_after_s)
        except TimeoutError:
            if not patience.expired():
                raise
            asked = [join_address(other) for other in search.others]
            raise JoinError(group, driver.process, asked, timeout_s, search.waits_for) from None
        return member

    async def _enter(self, driver: Driver, member: Group, search: Search, found_after_s: float) -> None:
        """Wait to be let in, or found the group if that falls to this process."""
        may_found = not offer(member.stack).is_served(member.policy)
        try:
            while not await member._enter(found_after_s):
                if search.is_first and member.view is NO_VIEW and may_found:
                    driver.found(member.name)
        except BaseException:
            search.waits_for = driver.engine.waits_for(member.name)
            member._abandon()
            raise

    def _look_on(self, driver: Driver, member: Group, search: Search) -> None:
        looking = asyncio.create_task(self._keep_looking(driver, member, search))
        self._searches[looking] = search
        looking.add_done_callback(self._searches.pop)
        if not isinstance(search.discovery, ListedContacts):
            self._discoveries[id(search.discovery)] = search.discovery

    async def _keep_looking(self, driver: Driver, member: Group, search: Search) -> None:
        """Whenever this process is outside, those who may let it in are looked for."""
        while not member.is_over:
            await asyncio.sleep(LOOK_S)
            if member.view is NO_VIEW:
                await search.look_again()
                driver.meet(member.name, search.others)

    async def _resolve(self, members: Mapping[str, str]) -> dict[ProcessId, SocketAddress]:
        addresses: dict[ProcessId, SocketAddress] = {}
        taken: dict[SocketAddress, ProcessId] = {}
        for text, address in members.items():
            process = parse_process(text)
            _, resolved = await resolve(address, self._family)
            other = taken.setdefault(resolved, process)
            if other != process or process in addresses:
                raise UsageError(f"the members {other} and {process} share a name or the address {address}")
            addresses[process] = resolved
        return addresses
