"""A whiteboard with a copy at each participant, on the context graph alone: no message waits, no order is agreed.

    python shared_whiteboard.py bob 127.0.0.1:7401                             # waits for a conversation
    python shared_whiteboard.py alice 127.0.0.1:7400 bob=127.0.0.1:7401        # opens it

Type words to draw them, `clear` to wipe what you see, or an empty line to see it. What another participant drew before
it saw your `clear` stays, on all boards: it is not in the context of the clearing. End of input or Ctrl-C leaves.
"""

import asyncio
import contextlib
import json
import sys

import antiphon
from antiphon.conversation import accept_conversation, open_conversation
from antiphon.toolkit import input_lines


class Board:
    def __init__(self, conversation: antiphon.conversation.Conversation) -> None:
        self.conversation, self.strokes, self.unanswered = conversation, {}, 0  # strokes: by the handle of the message

    def apply(self, handle, text: str) -> None:
        if text == "clear":
            wiped = self.conversation.precedes
            self.strokes = {each: drawn for each, drawn in self.strokes.items() if not wiped(each, handle)}
        elif text:
            self.strokes[handle] = text

    async def say(self, text: str) -> None:
        self.unanswered = 0
        self.apply(await self.conversation.send(text.encode()), text)

    async def look_on(self) -> None:
        while True:
            handle, payload = await self.conversation.receive()
            self.apply(handle, payload.decode())
            self.unanswered += 1
            if payload and self.unanswered >= 100:  # tell the others what was read, so that they can let go of it
                await self.say("")


async def main(name: str, address: str, *others: str) -> None:
    async with antiphon.Node(name, address=address) as node:
        addresses = dict(other.split("=") for other in others)
        board = Board(await (open_conversation(node, addresses) if others else accept_conversation(node)))
        await board.say("")  # the first message opens the conversation at the others
        print("members", *sorted(board.conversation.participants), flush=True)
        looking = asyncio.create_task(board.look_on())
        async for line in input_lines():
            if line:
                await board.say(line)
            else:
                print("board", json.dumps(sorted(board.strokes.values())), flush=True)
        looking.cancel()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*sys.argv[1:]))
