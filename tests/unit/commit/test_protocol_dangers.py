"""What each protection of the commit protocol is for: an order of events that does no harm, and does without it."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from icepact.commit import judge, protocol, taking_along
from icepact.commit.batches import ProvenGroup
from icepact.commit.judge import Answer, InputAtPin, ReadPoint, Verdict
from icepact.iceberg.commit import replace
from icepact.iceberg.table.table import HeadView
from icepact.maintain import cleanup, rebase, rounds, runs
from icepact.model.run import Claim, Owner, RunRecord
from icepact.model.status import Status
from icepact.record.kv.store import KvStore
from tests.support import model_table
from tests.support.model_iceberg import DAYS, Violation
from tests.support.protocol_search import search
from tests.support.protocol_world import REAL_DANGLING, REAL_JUDGE_GROUPS, STAGE, Agent, Luck, World, sleep

DAY1, DAY2 = DAYS


def deleted_and_appended(world: World) -> None:
    """All old files are rewritten; meanwhile an equality delete and an append."""
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    world.others.delete_equal(DAY1, 1)
    world.others.append(DAY1, 5)
    world.go(agent)


def converted_before_the_judgement(world: World) -> None:
    """An equality delete comes and is converted while files are written."""
    world.others.append(DAY1, 3)
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    delete = world.others.delete_equal(DAY1, 1)
    assert delete is not None
    world.others.convert(delete)
    world.go(agent)


def converted_after_the_judgement(world: World) -> None:
    """The group is late because of an equality delete; that is converted while the commit is on its way."""
    world.others.append(DAY1, 3)
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    delete = world.others.delete_equal(DAY1, 1)
    assert delete is not None
    world.go(agent, "send")
    world.others.convert(delete)
    world.go(agent)


def one_group_falls_out(world: World) -> None:
    """A delete applies to two groups; one of them is not committed with the other."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY1, 1, 3)
    world.others.delete_equal(DAY1, 1)
    agent = world.start([one], [other])
    world.go(agent, "write")
    world.others.delete_row(other)
    world.others.delete_equal(DAY1, 3)
    world.go(agent)


def killed_while_committing(world: World) -> None:
    """The commit lands after the clean-up has looked."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "answer", Luck.SLOW)
    world.kill(agent)
    world.go(world.clean_up())
    world.deliver(world.on_its_way[0])
    world.check()


def woken_while_fenced(world: World) -> None:
    """A run that stood still goes on just when the clean-up has found it dead."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "move")
    world.wait(5, heard=False)
    cleaner = world.clean_up()
    world.go(cleaner, "take")
    world.go(agent, "answer", Luck.SLOW)
    world.go(cleaner)
    for request in list(world.on_its_way):
        world.deliver(request)
    world.check()


def conflicts_with_itself(world: World) -> None:
    """A catalog carries the commit out and loses its answer; the client sends it again, and it lost a race: with
    itself. So Iceberg tries again, on top of it."""
    world.go(world.start([world.others.append(DAY1, 1, 2)]), luck=Luck.REPEATED)


def conflicts_with_itself_and_a_delete_follows(world: World) -> None:
    """Iceberg's own validation comes first, and meets somebody's delete."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "again", Luck.REPEATED)
    world.others.delete_equal(DAY1, 7)
    world.go(agent)


def conflicts_with_itself_and_the_judged_head_expires(world: World) -> None:
    """Iceberg's own validation comes first, and does not know the snapshot any more that it should begin with."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "again", Luck.REPEATED)
    world.others.append(DAY2, 1)
    world.catalog.expire(1)
    world.go(agent)


def conflicts_with_itself_at_last(world: World) -> None:
    """Iceberg has no try left, and asks nobody."""
    world.go(world.start([world.others.append(DAY1, 1, 2)]), luck=Luck.REPEATED_LAST)


def sent_again_and_not_allowed_any_more(world: World) -> None:
    """The first time it was; Iceberg asks nobody."""
    world.go(world.start([world.others.append(DAY1, 1, 2)]), luck=Luck.NOT_ANY_MORE)


def on_its_way_and_not_allowed_any_more(world: World) -> None:
    """A gateway has sent the client away while the server works on the commit; the client comes again, and is not
    allowed to. Then the server is done."""
    world.go(world.start([world.others.append(DAY1, 1, 2)]), luck=Luck.STUCK_AND_NOT_ANY_MORE)
    for request in world.on_its_way:
        world.deliver(request)
    world.check()


def conflicts_with_itself_and_the_catalog_is_away(world: World) -> None:
    """Iceberg cannot read the table for its next try."""
    world.go(world.start([world.others.append(DAY1, 1, 2)]), luck=Luck.AWAY)


def outputs_vanish(world: World) -> None:
    """A resumed run finds all its files; then somebody removes what no snapshot refers to."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "move")
    world.kill(agent)
    second = world.resume(world.runs()[0])
    world.go(second, "take")
    for _ in range(3):
        world.go(second, "refresh")
    world.catalog.remove_orphans(timedelta())
    world.go(second)


def an_older_delete_is_back(world: World) -> None:
    """A delete was taken back before the pin, and is the head again before the commit: news, but older than the pin."""
    others = world.others
    others.append(DAY1, 3)
    file = others.append(DAY1, 1, 2)
    others.delete_equal(DAY1, 1)
    others.point_to(0, ancestors=True)
    others.append(DAY1, 5)
    agent = world.start([file])
    world.go(agent, "write")
    others.point_to(0, ancestors=False)
    world.go(agent)


def an_input_was_picked_again(world: World) -> None:
    """Rolled back, then picked: the same file is newer than a delete that came in between."""
    others = world.others
    others.append(DAY1, 3)
    file = others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    others.point_to(0, ancestors=True)
    others.delete_equal(DAY1, 1)
    assert others.pick(0)
    others.delete_equal(DAY1, 2)
    world.go(agent)


def an_input_was_picked_again_and_has_other_ids(world: World) -> None:
    """Rolled back, then picked: rows have other ids than were written."""
    others = world.others
    world.catalog.upgrade()
    others.append(DAY1, 3)
    file = others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    others.point_to(0, ancestors=True)
    others.append(DAY2, 4)
    assert others.pick(0)
    world.check()
    world.go(agent)


def the_key_column_is_dropped(world: World) -> None:
    """New files lack the column; a writer that has not heard of it deletes by it."""
    world.others.append(DAY1, 3)
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.catalog.drop_column()
    world.go(agent, "write")
    world.others.delete_equal(DAY1, 1, old=True)
    world.go(agent)


def rows_get_ids(world: World) -> None:
    """An append after an upgrade gives ids to all rows, just before a commit of files without any."""
    file = world.others.append(DAY1, 1, 2)
    world.catalog.upgrade()
    agent = world.start([file])
    world.go(agent, "send")
    world.others.append(DAY2, 1)
    world.check()
    world.go(agent)


def upgraded_and_rows_get_ids(world: World) -> None:
    """The same, with the upgrade in between, too."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    world.catalog.upgrade()
    world.others.append(DAY2, 1)
    world.check()
    world.go(agent)


def landed_and_expired(world: World) -> None:
    """A commit that is called refused has landed, and its snapshot has expired; its files are live."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "again", Luck.REPEATED)
    world.others.append(DAY2, 1)
    world.catalog.expire(1)
    world.go(agent)
    world.go(world.clean_up())


def asleep_before_the_commit(world: World) -> None:
    """A process stands still until its commit is given up and its files are deleted. Then somebody takes the commit
    back because of which it was given up, and it wakes."""
    other = world.others.append(DAY2, 1, 2)
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    head = world.others.head.id
    world.others.delete_row(other)
    world.wait(40, heard=False)
    world.go(world.clean_up())
    world.others.point(head)
    world.go(agent)


def deleted_by_position(world: World) -> None:
    """A row of an input is deleted while files are written; so is another one while the commit is on its way."""
    file = world.others.append(DAY1, 1, 2, 3)
    agent = world.start([file])
    world.go(agent, "write")
    world.others.delete_row(file)
    world.go(agent, "send")
    world.others.delete_row(file)
    world.go(agent)


def deleted_by_vector(world: World) -> None:
    """The same on format version 3: the vector of the input is replaced each time."""
    world.catalog.upgrade()
    deleted_by_position(world)


def deleted_by_position_and_by_key(world: World) -> None:
    """A row of one input is deleted by its position, one of the other by its key."""
    world.others.append(DAY1, 3)
    one, other = world.others.append(DAY1, 1), world.others.append(DAY1, 7, 8)
    agent = world.start([one, other])
    world.go(agent, "write")
    world.others.delete_row(other)
    world.others.delete_equal(DAY1, 1)
    world.go(agent)


def killed_after_deletes_were_taken_along(world: World) -> None:
    """The commit has landed when its process dies; the clean-up comes upon files that are not outputs."""
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    world.others.delete_row(file)
    world.go(agent, "answer", Luck.HUNG)
    world.kill(agent)
    world.wait(150)
    world.go(world.clean_up())


def deletes_vanish(world: World) -> None:
    """Somebody removes what no snapshot refers to, when it has just been written."""
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    world.others.delete_row(file)
    world.go(agent, "carried")
    world.catalog.remove_orphans(timedelta())
    world.go(agent)


def carried_and_deleted(world: World) -> None:
    """Rows that were deleted by key are carried; another one is deleted while files are written."""
    file = world.others.append(DAY1, 1, 2, 3)
    world.others.delete_equal(DAY1, 1)
    world.carries = True
    agent = world.start([file])
    world.go(agent, "write")
    world.others.delete_row(file, 1)
    world.go(agent)


def carried_by_vector_and_deleted(world: World) -> None:
    """The same on format version 3."""
    world.catalog.upgrade()
    carried_and_deleted(world)


def carried_where_none_goes(world: World) -> None:
    """What deletes rows of the inputs deletes some of others, too: it stays, under another name."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY1, 1, 3)
    world.others.delete_equal(DAY1, 1)
    world.carries = True
    world.go(world.start([one]))
    world.go(world.start([other]))


def newer_rows_beside_what_moves(world: World) -> None:
    """A row with the deleted key came after the delete: it must not be hidden by the copy."""
    one = world.others.append(DAY1, 1, 2)
    world.others.append(DAY1, 1, 3)
    world.others.delete_equal(DAY1, 1)
    world.others.append(DAY1, 1)
    world.carries = True
    world.go(world.start([one]))


def two_groups_of_one_delete(world: World) -> None:
    """Each is committed by itself; what moved with the first is still what the second was read with."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY1, 1, 3)
    world.others.append(DAY1, 1, 4)
    world.others.delete_equal(DAY1, 1)
    world.carries = True
    world.go(world.start([one], [other], commits=2))


def carried_and_killed(world: World) -> None:
    """The commit has landed when its process dies; deletes were written by its units."""
    file = world.others.append(DAY1, 1, 2)
    world.others.delete_row(file)
    world.carries = True
    agent = world.start([file])
    world.go(agent, "answer", Luck.HUNG)
    world.kill(agent)
    world.wait(150)
    world.go(world.clean_up())


def carried_deletes_vanish(world: World) -> None:
    """Somebody removes what no snapshot refers to: outputs are there again, and so must be their deletes."""
    file = world.others.append(DAY1, 1, 2)
    world.others.delete_row(file)
    world.carries = True
    agent = world.start([file])
    world.go(agent, "checkpoint")
    world.catalog.delete(list(world.catalog.deletes))
    world.go(agent)


def overtaken_while_nobody_worked(world: World) -> None:
    """A row is deleted by its position after a process died that had written its file."""
    file = world.others.append(DAY1, 1, 2, 3)
    world.others.delete_row(file)
    agent = world.start([file])
    world.go(agent, "move")
    world.kill(agent)
    world.others.delete_row(file)
    world.go(world.resume(world.runs()[0]))


def overtaken_by_key_while_nobody_worked(world: World) -> None:
    """The same, and it is deleted by its key: the run is resumed at a snapshot that is newer than this delete."""
    world.others.append(DAY1, 3)
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "move")
    world.kill(agent)
    world.others.delete_equal(DAY1, 1)
    world.go(world.resume(world.runs()[0]))


def not_bound(patch: pytest.MonkeyPatch) -> None:
    """The commit is not bound to the head at which it was judged."""
    patch.setattr(replace.BoundToHead, "validate", lambda self, snapshots: True)


def late_anyway(patch: pytest.MonkeyPatch) -> None:
    """Late groups are committed whether or not an old file remains."""
    patch.setattr(protocol, "_safely_late", lambda view, pinned, late: (list(late), []))


def _remember_the_pin(patch: pytest.MonkeyPatch) -> None:
    def remembering(table: Any, staging: Any, batch: Any, groups: Sequence[ProvenGroup], *more: Any) -> Any:
        STAGE.world.current.pinned = batch.pinned_snapshot, frozenset(path for g in groups for path in g.paths)
        return protocol.commit(table, staging, batch, groups, *more, sleep=sleep)

    patch.setattr(rounds, "commit", remembering)


def dangling_at_the_pin(patch: pytest.MonkeyPatch) -> None:
    """Which deletes go is judged at the pin, for all that was planned."""

    def at_the_pin(table: Any, view: HeadView, inputs: frozenset[str], *, keep_after: int | None) -> Any:
        pin, planned = STAGE.world.current.pinned
        if table.has_snapshot(pin):
            view, inputs = table.view_of(table.snapshot(pin), planned), planned
        return REAL_DANGLING(table, view, inputs, keep_after=keep_after)

    _remember_the_pin(patch)
    patch.setattr(protocol, "_dangling", at_the_pin)


def left_to_iceberg(patch: pytest.MonkeyPatch) -> None:
    """Deletes that came meanwhile are left to Iceberg's own validation."""

    def judged(view: HeadView, groups: Sequence[ProvenGroup], pin: ReadPoint) -> list[tuple[ProvenGroup, Verdict]]:
        verdicts = REAL_JUDGE_GROUPS(view, groups, pin)
        late = Verdict(answer=Answer.ONLY_NEW_EQUALITY_DELETES)
        changed = (
            *(Answer.REPLAN, Answer.NEW_POSITION_DELETES),
            *(Answer.NEW_DELETES_OF_BOTH_KINDS, Answer.DELETES_TO_RESOLVE),
        )
        return [(group, late if verdict.answer in changed else verdict) for group, verdict in verdicts]

    patch.setattr(protocol, "judge_groups", judged)


def hasty_clean_up(patch: pytest.MonkeyPatch) -> None:
    """The clean-up does not ask what became of the last commit."""
    patch.setattr(cleanup, "_final_fates", lambda *given: [])


def taken_as_it_is(patch: pytest.MonkeyPatch) -> None:
    """A run is taken whatever became of it since it was looked at."""
    take = KvStore.take

    def anyway(self: KvStore, record: RunRecord, owner: Owner, *, to: Status) -> Claim:
        now = self.run(record.run_id)
        assert now is not None
        return take(self, now, owner, to=to)

    patch.setattr(KvStore, "take", anyway)


def cleaned_up_by_iceberg(patch: pytest.MonkeyPatch) -> None:
    """Iceberg deletes what a commit has written that it takes for failed."""
    patch.setattr(protocol, "UnusedFiles", lambda java, rewrite: None)


def cleaned_up_and_told(patch: pytest.MonkeyPatch) -> None:
    """The same, and a commit that meets itself is told to Iceberg as one that lost a race."""
    cleaned_up_by_iceberg(patch)
    validate = replace.BoundToHead.validate

    def told(self: replace.BoundToHead, snapshots: Any) -> bool:
        try:
            return validate(self, snapshots)
        except replace._MetItself:
            self.met_itself = False
            return False

    patch.setattr(replace.BoundToHead, "validate", told)


def not_looked_for(patch: pytest.MonkeyPatch) -> None:
    """New files are committed whether or not they are there."""
    patch.setattr(protocol, "_vanished", lambda table, batch, attempt: {})


def late_whatever_is_new(patch: pytest.MonkeyPatch) -> None:
    """All new equality deletes count as late ones."""
    patch.setattr(judge, "_why_not_late", lambda news, pin: None)


def the_same_by_name(patch: pytest.MonkeyPatch) -> None:
    """An input counts as the same if its name is."""

    def judged(view: HeadView, groups: Sequence[ProvenGroup], pin: ReadPoint) -> list[tuple[ProvenGroup, Verdict]]:
        now = {f.path: (f.sequence_number, f.first_row_id) for f in view.files}

        def as_now(then: InputAtPin) -> InputAtPin:
            number, first = now.get(then.path, (then.sequence_number, then.first_row_id))
            return dataclasses.replace(then, sequence_number=number, first_row_id=first)

        verdicts = REAL_JUDGE_GROUPS(
            view, [dataclasses.replace(g, inputs=[as_now(i) for i in g.inputs]) for g in groups], pin
        )
        return [(group, verdict) for group, (_, verdict) in zip(groups, verdicts, strict=True)]

    patch.setattr(protocol, "judge_groups", judged)


def late_and_the_same_by_name(patch: pytest.MonkeyPatch) -> None:
    """Both of it."""
    late_whatever_is_new(patch)
    the_same_by_name(patch)


def bound_whatever_ids(patch: pytest.MonkeyPatch) -> None:
    """The binding asks only what kind of commits came in between."""

    def validate(self: Any, snapshots: Any) -> bool:
        history = snapshots.iterator()
        while history.hasNext():
            snapshot = history.next()
            if snapshot.snapshotId() == self._view.snapshot_id or snapshot.operation() != "append":
                return bool(snapshot.snapshotId() == self._view.snapshot_id)
        return False

    patch.setattr(replace.BoundToHead, "validate", validate)


def as_far_as_is_known(patch: pytest.MonkeyPatch) -> None:
    """What is not found in the part of the history that has not expired counts as not there."""
    history = replace._history

    def known(table: Any, branch: str) -> Iterator[Any]:
        with suppress(replace.HistoryCut):
            yield from history(table, branch)

    patch.setattr(replace, "_history", known)


def whenever_it_may_be(patch: pytest.MonkeyPatch) -> None:
    """A commit is tried however long ago it was recorded."""
    bind: Any = replace.BoundToHead.__init__

    def bound(self: Any, *given: Any) -> None:
        bind(self, *given[:-1], lambda: True)

    patch.setattr(replace.BoundToHead, "__init__", bound)


def not_resolved(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks for the rows of equality deletes that the outputs are out of reach of."""
    patch.setattr(model_table, "found_by_key", lambda file, deletes: set())


def as_if_read_again(patch: pytest.MonkeyPatch) -> None:
    """What was read before counts as read at the new pin."""
    patch.setattr(rebase.ReadInputs, "of_text", staticmethod(lambda text, now: now))


def left_behind(patch: pytest.MonkeyPatch) -> None:
    """Position deletes that came meanwhile are not taken along."""
    patch.setattr(model_table.ModelLateDeletes, "carry", lambda self, group_id, changed: [])


def carried_ones_left_behind(patch: pytest.MonkeyPatch) -> None:
    """Deletes that a group carries are not committed with its outputs."""
    patch.setattr(taking_along, "rows_of", lambda documents: 0)
    patch.setattr(rounds, "ProvenGroup", lambda **given: ProvenGroup(**{**given, "deletes": ()}))


def only_late_ones(patch: pytest.MonkeyPatch) -> None:
    """Late deletes are written without those that the group carries."""
    carry = model_table.ModelLateDeletes.carry

    def alone(self: Any, group_id: str, changed: Any) -> Any:
        results = self._results
        self._results = {unit_id: dataclasses.replace(result, deletes=()) for unit_id, result in results.items()}
        try:
            return carry(self, group_id, changed)
        finally:
            self._results = results

    patch.setattr(model_table.ModelLateDeletes, "carry", alone)


def as_new_as_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """The copy of a delete gets the number of the snapshot."""

    def added(table: Any, view: HeadView, rewrite: Any, path: str, copy: str) -> None:
        delete = table.catalog.deletes[copy]
        rewrite.add_copy(delete._replace(number=table.catalog.metadata.last_number + 1))

    patch.setattr(replace, "_add_copy", added)


def taken_along_once(patch: pytest.MonkeyPatch) -> None:
    """What was taken along for one head is committed at another."""
    carry = model_table.ModelLateDeletes.carry

    def once(self: Any, group_id: str, changed: Any) -> Any:
        if not hasattr(self, "first"):
            self.first = carry(self, group_id, changed)
        return self.first

    patch.setattr(model_table.ModelLateDeletes, "carry", once)


def one_kind_is_enough(patch: pytest.MonkeyPatch) -> None:
    """New position deletes of a group are looked at, new equality deletes are not."""
    _taken_for(patch, Answer.NEW_POSITION_DELETES)


def the_other_kind_is_enough(patch: pytest.MonkeyPatch) -> None:
    """New equality deletes of a group are looked at, new position deletes are not."""
    _taken_for(patch, Answer.ONLY_NEW_EQUALITY_DELETES)


def _taken_for(patch: pytest.MonkeyPatch, answer: Answer) -> None:
    worst = judge._worst

    def one_kind(verdicts: Any) -> Verdict:
        verdict = worst(verdicts)
        both = verdict.answer is Answer.NEW_DELETES_OF_BOTH_KINDS
        return dataclasses.replace(verdict, answer=answer) if both else verdict

    patch.setattr(judge, "_worst", one_kind)


def only_outputs_are_referred_to(patch: pytest.MonkeyPatch) -> None:
    """A clean-up asks only which data files the table refers to."""

    def referenced(table: Any, run_id: str) -> frozenset[str]:
        return frozenset(p for s in table.metadata.snapshots.values() for p in s.files if run_id in p)

    for module in (cleanup, runs):
        patch.setattr(module, "referenced", referenced)


def forgotten_once_refused(patch: pytest.MonkeyPatch) -> None:
    """A commit that is not allowed counts as one that will never land."""
    patch.setattr(rounds.Work, "unanswered", rounds.Work.refused)


Unprotected = Callable[[pytest.MonkeyPatch], None]
Danger = Callable[[World], None]
DANGERS: list[tuple[Unprotected, Danger]] = [
    (not_bound, converted_after_the_judgement),
    (late_anyway, deleted_and_appended),
    (dangling_at_the_pin, one_group_falls_out),
    (left_to_iceberg, converted_before_the_judgement),
    (hasty_clean_up, killed_while_committing),
    (taken_as_it_is, woken_while_fenced),
    (cleaned_up_and_told, conflicts_with_itself),
    (cleaned_up_by_iceberg, conflicts_with_itself_and_a_delete_follows),
    (cleaned_up_by_iceberg, conflicts_with_itself_and_the_judged_head_expires),
    (cleaned_up_by_iceberg, conflicts_with_itself_and_the_catalog_is_away),
    (cleaned_up_by_iceberg, conflicts_with_itself_at_last),
    (cleaned_up_by_iceberg, sent_again_and_not_allowed_any_more),
    (not_looked_for, outputs_vanish),
    (late_whatever_is_new, an_older_delete_is_back),
    (late_whatever_is_new, overtaken_by_key_while_nobody_worked),
    (not_resolved, overtaken_by_key_while_nobody_worked),
    (not_resolved, deleted_and_appended),
    (as_if_read_again, overtaken_while_nobody_worked),
    (as_if_read_again, overtaken_by_key_while_nobody_worked),
    (left_behind, overtaken_while_nobody_worked),
    (late_whatever_is_new, the_key_column_is_dropped),
    (late_and_the_same_by_name, an_input_was_picked_again),
    (the_same_by_name, an_input_was_picked_again_and_has_other_ids),
    (bound_whatever_ids, rows_get_ids),
    (bound_whatever_ids, upgraded_and_rows_get_ids),
    (as_far_as_is_known, landed_and_expired),
    (whenever_it_may_be, asleep_before_the_commit),
    (left_behind, deleted_by_position),
    (left_behind, deleted_by_vector),
    (taken_along_once, deleted_by_position),
    (taken_along_once, deleted_by_vector),
    (one_kind_is_enough, deleted_by_position_and_by_key),
    (the_other_kind_is_enough, deleted_by_position_and_by_key),
    (left_behind, deleted_by_position_and_by_key),
    (only_outputs_are_referred_to, killed_after_deletes_were_taken_along),
    (not_looked_for, deletes_vanish),
    (forgotten_once_refused, on_its_way_and_not_allowed_any_more),
    (carried_ones_left_behind, carried_where_none_goes),
    (only_late_ones, carried_and_deleted),
    (only_late_ones, carried_by_vector_and_deleted),
    (left_behind, carried_and_deleted),
    (as_new_as_the_snapshot, newer_rows_beside_what_moves),
    (only_outputs_are_referred_to, carried_and_killed),
    (not_looked_for, carried_deletes_vanish),
]
HARM = r"lost|back|not on storage|another row id"


def _name(function: Callable[..., object]) -> str:
    return function.__name__


@pytest.mark.parametrize("danger", [danger for _, danger in DANGERS], ids=_name)
def test_a_danger_is_averted(world: World, danger: Danger) -> None:
    danger(world)
    world.end()


@pytest.mark.parametrize(("unprotected", "danger"), DANGERS, ids=_name)
def test_a_danger_is_real(
    world: World, unprotected: Unprotected, danger: Danger, monkeypatch: pytest.MonkeyPatch
) -> None:
    unprotected(monkeypatch)
    with pytest.raises(Violation, match=HARM):
        danger(world)


@pytest.mark.parametrize("danger", [deleted_by_position, deleted_by_vector], ids=_name)
def test_deletes_are_taken_along_in_the_first_round(world: World, danger: Danger) -> None:
    """Nothing is written again, however often the head moves."""
    danger(world)
    [run] = world.runs()
    assert run.status is Status.COMMITTED
    head = world.others.head
    assert head.facts["icepact.carried-deletes"] == "2"
    assert [delete.path for delete in head.deletes.values()] == sorted(world.catalog.deletes)[-1:]
    [output] = head.files
    assert output.endswith("-00-0")  # of the first epoch and round


def test_deletes_of_both_kinds_are_taken_along_in_the_first_round(world: World) -> None:
    """By the outputs' number, and by new deletes."""
    deleted_by_position_and_by_key(world)
    head = world.others.head
    assert head.facts["icepact.carried-deletes"] == "1"
    assert sorted(delete.kind for delete in head.deletes.values()) == ["equality", "position"]
    [output] = [path for path in head.files if path.startswith(model_table.FOLDERS)]
    assert output.endswith("-00-0")


@pytest.mark.parametrize(
    "danger",
    [deleted_and_appended, overtaken_while_nobody_worked, overtaken_by_key_while_nobody_worked],
    ids=_name,
)
def test_what_is_written_is_kept(world: World, danger: Danger) -> None:
    """Deletes that cannot wait are resolved, those that came before a run is resumed are taken along."""
    danger(world)
    [run] = world.runs()
    assert run.status is Status.COMMITTED
    head = world.others.head
    assert head.facts["icepact.late-deletes"] == "1"
    [output] = [path for path in head.files if path.startswith(model_table.FOLDERS)]
    assert output.endswith("-00-0")  # of the first epoch and round


@pytest.mark.parametrize("danger", [carried_and_deleted, carried_by_vector_and_deleted], ids=_name)
def test_late_deletes_are_put_together_with_carried_ones(world: World, danger: Danger) -> None:
    danger(world)
    head = world.others.head
    assert (head.facts["icepact.carried-deletes"], head.facts["icepact.late-deletes"]) == ("2", "1")
    [output] = head.files
    [delete] = [delete for delete in head.deletes.values() if delete.referenced == output]
    assert len(delete.hits) == 2
    assert output.endswith("-00-0")


def test_a_delete_that_others_need_moves(world: World) -> None:
    """Once for each commit that needs it; nothing is done again."""
    two_groups_of_one_delete(world)
    [run] = world.runs()
    assert run.status is Status.COMMITTED
    assert len(run.landed) == 2
    head = world.others.head
    assert all(path.endswith("-00-0") for path in head.files if path.startswith(model_table.FOLDERS))
    [moved] = [delete for delete in head.deletes.values() if delete.key is not None]
    assert "-moved-" in moved.path
    assert moved.number < head.number - 1


def test_what_cannot_be_carried_is_applied_in_the_next_round(world: World) -> None:
    """A file of position deletes of two data files, on a table that was upgraded since: none may be added any more."""
    one = world.others.append(DAY1, 1, 2)
    world.others.append(DAY1, 1, 3)
    world.others.delete_row(one, shared=True)
    world.catalog.upgrade()
    world.others.append(DAY2, 1)
    world.carries = True
    world.go(world.start([one]))
    [run] = world.runs()
    assert run.status is Status.COMMITTED
    head = world.others.head
    assert "icepact.carried-deletes" not in head.facts
    [output] = [path for path in head.files if path.startswith(model_table.FOLDERS)]
    assert output.endswith("-01-0")
    assert len(head.files[output].rows) == 1
    world.end()


def new_keys_all_the_time(world: World) -> Agent:
    """As Flink writes: a delete of each new key, too. Statistics tell that it reaches none of the inputs."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    while not agent.ended:
        world.go(agent, "refresh")
        world.others.upsert_growing(DAY1)
    return agent


def test_new_keys_do_not_starve_a_run(world: World) -> None:
    new_keys_all_the_time(world)
    assert world.runs()[0].status is Status.COMMITTED


def test_new_keys_would_starve_a_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it not that Iceberg, which asks no statistics, looks only at what came after the judgement."""
    from_the_head = model_table.Rewrite.validateFromSnapshot

    def from_the_pin(self: model_table.Rewrite, snapshot_id: int) -> model_table.Rewrite:
        return from_the_head(self, STAGE.world.current.pinned[0])

    _remember_the_pin(monkeypatch)
    monkeypatch.setattr(model_table.Rewrite, "validateFromSnapshot", from_the_pin)
    new_keys_all_the_time(world)
    assert world.runs()[0].status is Status.FAILED


@pytest.mark.matrix
@pytest.mark.parametrize("unprotected", dict(DANGERS), ids=_name)
def test_the_search_finds_what_is_unprotected(unprotected: Unprotected, monkeypatch: pytest.MonkeyPatch) -> None:
    unprotected(monkeypatch)
    with pytest.raises(Violation):
        search(500)
