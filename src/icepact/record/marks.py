"""Marks that transactions leave in PostgreSQL: one whose answer was lost has landed if its mark is there.

The server cannot be asked for that by its own number of the transaction: one that was killed gives numbers of
transactions that it has forgotten to others.
"""

import uuid

from sqlalchemy import Connection, text

from icepact.record.slots import Slot, Slots

_LEAVE = text("""\
INSERT INTO last_transactions (writer, number, at)
SELECT :writer, CAST(:number AS bigint), now() WHERE txid_current_if_assigned() IS NOT NULL
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at""")
"""Only if the transaction has changed or locked anything."""
_ASK = text("""\
INSERT INTO last_transactions (writer, number, at) VALUES (:writer, 0, now())
ON CONFLICT (writer) DO UPDATE SET at = excluded.at RETURNING number""")
_PRUNE = text("""\
DELETE FROM last_transactions WHERE writer IN
(SELECT writer FROM last_transactions WHERE at < now() - interval '7 days' FOR UPDATE SKIP LOCKED)""")
"""Of processes that have ended; a machine may sleep over a weekend before it asks."""


class Marks:
    """The marks of one process: a row for each of its transactions that are under way at once."""

    def __init__(self) -> None:
        self._slots = Slots(lambda: Slot(uuid.uuid4().hex))

    def leave(self, connection: Connection) -> Slot | None:
        """Leave a mark at the end of a transaction; `None` if it has written nothing."""
        slot = self._slots.take()
        slot.number += 1
        if not connection.execute(_LEAVE, {"writer": slot.name, "number": slot.number}).rowcount:
            self.give_back(slot)
            return None
        if slot.number == 1:
            connection.execute(_PRUNE)
        return slot

    def is_there(self, connection: Connection, slot: Slot) -> bool:
        """Whether the transaction that left a mark has landed. That is asked by a write to the same row: a write waits
        until the transaction has ended, and is refused by a standby that may not have heard of it yet."""
        found: int = connection.execute(_ASK, {"writer": slot.name}).scalar_one()
        return found == slot.number

    def give_back(self, slot: Slot) -> None:
        """It is known what became of the transaction."""
        self._slots.give_back(slot)
