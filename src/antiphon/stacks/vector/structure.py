"""The overlap graph of groups and its biconnected components (isis-1991, section 6.6).

A message to group b carries the time of group a only where a and b lie in one biconnected component: a chain of
messages that leaves such a component comes back through the group by which it left, and there order is restored.
"""


def components(pairs: tuple[tuple[str, str], ...]) -> list[frozenset[str]]:
    """The biconnected components of a graph given by its edges; a bridge is a component of two (Hopcroft, Tarjan)."""
    neighbours: dict[str, list[str]] = {}
    for one, other in pairs:
        if one != other:
            neighbours.setdefault(one, []).append(other)
            neighbours.setdefault(other, []).append(one)
    depth: dict[str, int] = {}
    low: dict[str, int] = {}
    found: list[frozenset[str]] = []
    for root in neighbours:
        if root in depth:
            continue
        depth[root] = low[root] = 0
        edges: list[tuple[str, str]] = []
        path: list[tuple[str, str, int]] = [(root, "", 0)]
        while path:
            node, parent, place = path.pop()
            if place < len(neighbours[node]):
                path.append((node, parent, place + 1))
                other = neighbours[node][place]
                if other not in depth:
                    depth[other] = low[other] = depth[node] + 1
                    edges.append((node, other))
                    path.append((other, node, 0))
                elif other != parent and depth[other] < depth[node]:
                    edges.append((node, other))
                    low[node] = min(low[node], depth[other])
            elif parent:
                low[parent] = min(low[parent], low[node])
                if low[node] >= depth[parent]:
                    found.append(_cut_off(edges, (parent, node)))
    return found


def _cut_off(edges: list[tuple[str, str]], last: tuple[str, str]) -> frozenset[str]:
    """The groups on the edges from the top of the stack down to `last`, which are taken off it."""
    members: set[str] = set()
    while True:
        edge = edges.pop()
        members.update(edge)
        if edge == last:
            return frozenset(members)
