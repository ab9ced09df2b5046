"""What the search for a harmful order of events has found: each is one that hurt once."""

from datetime import timedelta

from icepact.model.status import Status
from tests.support.model_iceberg import DAYS
from tests.support.model_table import FOLDERS
from tests.support.protocol_world import Luck, World

DAY1, DAY2 = DAYS


def test_a_run_that_lost_its_lease_leaves_its_files_to_the_next(world: World) -> None:
    """A process stands still, another one resumes and commits what it had written; then it wakes up."""
    agent = world.start([world.others.append(DAY1, 1, 2)], [world.others.append(DAY2, 1, 2)])
    world.go(agent, "write")
    world.go(agent, "write")  # the first group is written and recorded, the second under way
    world.wait(5, heard=False)
    world.go(world.resume(world.runs()[0]))
    assert world.runs()[0].status is Status.COMMITTED
    assert agent.watch is not None
    agent.watch.look()
    world.go(agent)
    world.end()


def test_a_run_that_stands_still_while_it_cleans_up_deletes_nothing_that_was_resumed(world: World) -> None:
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "send")
    world.others.overwrite(file)
    world.go(agent, "delete")
    world.wait(5, heard=False)
    world.go(world.resume(world.runs()[0]))
    world.go(agent)
    world.end()


def test_a_commit_of_a_resumed_runs_predecessor_is_not_forgotten(world: World) -> None:
    """A commit has no answer, and the resumed run ends without having moved the head. It leaves its files to the
    clean-up, which must not delete them yet."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    world.go(agent, "refresh", Luck.STUCK)
    world.kill(agent)
    world.go(world.resume(world.runs()[0]), luck=Luck.FORBIDDEN)
    assert world.runs()[0].status is Status.FAILED
    world.go(world.clean_up())
    world.deliver(world.on_its_way[0])
    world.check()


def test_a_run_is_not_taken_from_another_attempt_than_was_judged(world: World) -> None:
    """The clean-up finds that the attempt of a run that stood still is refused for good. The run goes on, is refused,
    and sends another. State and epoch are the same as before, so the clean-up takes it."""
    other = world.others.append(DAY2, 1, 2)
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    world.others.delete_row(other)
    world.wait(40, heard=False)
    cleaner = world.clean_up()
    world.go(cleaner, "take")
    world.go(agent, "send")
    world.go(agent, "answer", Luck.SLOW)
    world.go(cleaner)
    world.deliver(world.on_its_way[0])
    world.check()


def test_a_clean_up_that_died_is_done_again(world: World) -> None:
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "move")
    world.kill(agent)
    cleaner = world.clean_up()
    world.go(cleaner, "take")
    world.go(cleaner, "any")
    assert world.runs()[0].status is Status.FENCED
    world.kill(cleaner)
    world.end()


def test_a_delete_that_iceberg_drops_rightly_is_no_alarm(world: World) -> None:
    """A delete of another partition came after the pin and applies to nothing any more. The inputs were the only
    files that are older, so Iceberg drops it with the commit, and the commit is taken for broken."""
    file, other = world.others.append(DAY1, 1, 2), world.others.append(DAY2, 1, 2)
    agent = world.start([file])
    world.others.delete_equal(DAY2, 1)
    world.others.overwrite(other)
    world.go(agent)
    assert world.runs()[0].status is Status.COMMITTED


def test_a_commit_that_is_refused_for_good_stays_refused_after_a_rollback(world: World) -> None:
    """Another run commits at the same head; the first one's commit is refused for good, and its files are deleted.
    Then the other run is rolled back, and the head is again the one to which the commit is bound."""
    file = world.others.append(DAY1, 1, 2)
    first, second = world.start([file]), world.start([file], store=1)
    world.go(first, "send")
    world.go(second)
    world.wait(5, heard=False)
    world.go(world.clean_up())
    world.go(world.take_back(world.runs(1)[0], store=1))
    world.go(first)


def test_a_group_that_is_not_in_the_table_is_not_called_committed(world: World) -> None:
    """A process dies just before it commits two groups. One of them is superseded; the resumed run commits the files
    of the other. Asked for the attempt of the dead one, it finds them, and takes both groups for committed."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY2, 1, 2)
    first = world.start([one], [other])
    world.go(first, "send")
    world.kill(first)
    second = world.resume(world.runs()[0])
    world.go(second, "take")
    world.others.overwrite(other)
    world.go(second)
    [record] = world.runs()
    assert (record.status, len(record.landed)) == (Status.PARTLY_COMMITTED, 1)


def test_a_commit_is_counted_once(world: World) -> None:
    """As before, with one group: the resumed run takes its own commit for that of the dead one, too."""
    first = world.start([world.others.append(DAY1, 1, 2)])
    world.go(first, "send")
    world.kill(first)
    world.go(world.resume(world.runs()[0]))
    [record] = world.runs()
    assert [landed.snapshot_id for landed in record.landed] == [world.others.head.id]


def test_a_commit_without_an_answer_is_tried_again(world: World) -> None:
    """The first one arrives when the second has landed, and is refused."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, luck=Luck.STUCK)
    [record] = world.runs()
    assert (record.status, len(record.landed), len(record.attempts)) == (Status.COMMITTED, 1, 1)
    world.deliver(world.on_its_way[0])
    world.end()
    [record] = world.runs()
    assert (record.status, len(record.landed), len(record.attempts)) == (Status.COMMITTED, 1, 0)


def test_a_commit_that_lands_late_is_not_made_twice(world: World) -> None:
    """The first one lands just before the second is judged."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    world.go(agent, "move", Luck.STUCK)
    world.deliver(world.on_its_way[0])
    world.go(agent)
    [record] = world.runs()
    assert (record.status, len(record.landed), len(record.attempts)) == (Status.COMMITTED, 1, 0)
    world.end()


def test_two_commits_without_an_answer_are_both_remembered(world: World) -> None:
    """The commit of a dead process lands while its successor's own has no answer; then that one dies, too."""
    first = world.start([world.others.append(DAY1, 1, 2)], [world.others.append(DAY2, 1, 2)], commits=2)
    world.go(first, "answer", Luck.SLOW)
    world.kill(first)
    second = world.resume(world.runs()[0])
    world.go(second, "take")
    world.deliver(world.on_its_way[0])
    world.go(second, "finish", Luck.STUCK)
    world.kill(second)
    world.go(world.clean_up())
    for request in list(world.on_its_way):
        world.deliver(request)
    world.check()
    world.end()
    [record] = world.runs()
    assert (record.status, len(record.landed)) == (Status.COMMITTED, 2)


def test_what_is_left_over_goes_even_if_what_was_committed_has_expired(world: World) -> None:
    """A clean-up that knows what the run committed does not ask the table. But if that is not on storage any more,
    nothing in the folder counts as unwanted, for ever."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY2, 1, 2)
    agent = world.start([one], [other], commits=2)
    world.go(agent, "send")
    world.go(agent, "write")
    world.kill(agent)
    world.go(world.clean_up())
    world.others.overwrite(next(path for path in world.others.head.files if path.startswith(FOLDERS)))
    world.catalog.expire(1)
    world.end()


def test_a_run_whose_heads_have_expired_is_ended(world: World) -> None:
    """Two processes on two machines died over its commits. Of each only its own machine can say that it is gone; but
    the heads to which the commits are bound have expired, so that nobody can ever come back to them."""
    first = world.start([world.others.append(DAY1, 1, 2)], host="there")
    world.go(first, "send")
    world.others.overwrite(world.others.append(DAY2, 1))
    world.kill(first)
    world.wait(40)
    second = world.resume(world.runs()[0], host="here")
    world.go(second, "send")
    world.kill(second)
    world.others.append(DAY2, 1)
    world.catalog.expire(1)
    world.end()


def test_files_of_a_long_run_do_not_vanish(world: World) -> None:
    """A unit is finished; more than a day later its group is committed, and just then orphans are removed, with the
    usual floor."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "checkpoint")
    world.wait(1500)
    world.go(agent, "send")
    world.catalog.remove_orphans(timedelta(days=1))
    world.go(agent)
    world.end()


def test_files_of_a_snapshot_that_was_taken_back_are_not_committed_again(world: World) -> None:
    """A commit lands unseen and is rolled back. Tried again, it would refer to files that go with the first one's
    expiry: that can be just before it lands."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    head = world.others.head.id
    world.go(agent, "sleep", Luck.LOST)
    world.others.point(head)
    world.go(agent, "send")
    world.catalog.expire(1)
    world.go(agent)
    world.end()


def test_files_of_a_snapshot_that_was_taken_back_are_not_committed_again_by_iceberg(world: World) -> None:
    """The same with a commit that conflicts with itself, which Iceberg tries again."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    head = world.others.head.id
    world.go(agent, "again", Luck.REPEATED)
    world.others.point(head)
    world.go(agent, "swap")
    world.catalog.expire(1)
    if not agent.ended:
        world.go(agent)
    world.end()


def test_a_snapshot_that_was_taken_back_stays_readable(world: World) -> None:
    """A commit lands, conflicts with itself and is rolled back; were it to land once more, Iceberg would call the first
    one's manifests unused."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    head = world.others.head.id
    world.go(agent, "again", Luck.REPEATED)
    world.others.point(head)
    world.go(agent)
    world.end()


def test_files_of_an_earlier_commit_that_was_taken_back_are_not_committed_again(world: World) -> None:
    """The commit of a dead process lands while its successor commits the same files, and is rolled back."""
    first = world.start([world.others.append(DAY1, 1, 2)])
    head = world.others.head.id
    world.go(first, "answer", Luck.SLOW)
    world.kill(first)
    second = world.resume(world.runs()[0])
    world.go(second, "send")
    world.deliver(world.on_its_way[0])
    world.others.point(head)
    world.go(second, "swap")
    world.catalog.expire(1)
    if not second.ended:
        world.go(second)
    world.end()


def test_files_of_a_commit_without_an_answer_that_was_taken_back_are_not_committed_again(world: World) -> None:
    """The same, in one process."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    head = world.others.head.id
    world.go(agent, "swap")
    world.go(agent, "send", Luck.STUCK)
    world.deliver(world.on_its_way[0])
    world.others.point(head)
    world.go(agent, "swap")
    world.catalog.expire(1)
    if not agent.ended:
        world.go(agent)
    world.end()
