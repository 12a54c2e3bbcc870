"""A whiteboard that all have alike, over the context graph alone: nobody waits, and no order is agreed upon.

    python shared_whiteboard.py bob 127.0.0.1:7401                             # waits for somebody to begin
    python shared_whiteboard.py alice 127.0.0.1:7400 bob=127.0.0.1:7401        # begins

Type words to draw them, `clear` to wipe off what you see, or an empty line to see it. What is drawn while somebody else
clears stays, on all boards: it was not in the context of the clearing. The end of the input leaves.
"""

import asyncio
import json
import sys

import antiphon


class Board:
    def __init__(self, conversation: antiphon.Conversation) -> None:
        self.conversation = conversation
        self.strokes, self.unanswered = {}, 0  # what is drawn, by the handle of its message

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
            if payload and self.unanswered >= 100:  # who only looks on lets the others know that it does
                await self.say("")


async def main(name: str, address: str, *others: str) -> None:
    async with antiphon.Node(name, address=address) as node:
        if others:
            board = Board(await node.open_conversation(dict(other.split("=") for other in others)))
            await board.say("")  # takes the others into the conversation
        else:
            board = Board(await node.accept_conversation())
        print("members", *sorted(board.conversation.participants), flush=True)
        looking = asyncio.create_task(board.look_on())
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                await board.say(line.strip())
            else:
                print("board", json.dumps(sorted(board.strokes.values())), flush=True)
        looking.cancel()


asyncio.run(main(*sys.argv[1:]))
