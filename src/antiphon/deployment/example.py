"""The file that `antiphon config example` prints."""

from typing import Final

EXAMPLE: Final = """\
# A member for `antiphon node`. `antiphon config keys` lists all keys; `antiphon config check FILE` checks this file.

[node]
name = "alice"                  # unique in each group; the host's name if left out
listen = "10.0.0.1:7400"        # where it receives
history = "history"             # record here, for `antiphon audit`; relative to this file
# service = "shop.orders:main"  # async def main(node, groups); without one: a plain member

[discovery]                     # one of: contacts, file, dns, beacon
contacts = ["10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400"]

[keys]
keyring = "cluster.key"         # antiphon key new cluster.key

[observe]
listen = "127.0.0.1:9400"       # /live /ready /metrics /status

[log]
level = "info"
format = "text"                 # or "json"

[[group]]
name = "quotes"
"""
