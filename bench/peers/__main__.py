"""`python -m bench.peers`: see command.py."""

from bench.peers.command import main

main()
