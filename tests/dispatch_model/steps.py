"""What can happen next between two leaders, a network and a cluster that forgets.

Every function takes a state and yields steps; each step is one transaction of ours, one answer,
or one event on the cluster, so that everything else can come in between. A call is put on its
way by the transaction that intends it and stays there as long as it likes: a leader that is
stopped between its commit and its call is the same as a call that takes long. Bounded are the
leaders (two), crashes of the controller (one), other users' jobs (one), and what `Bounds` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dispatch_model.designs import Design
from dispatch_model.search import Step
from dispatch_model.states import (
    FIRST,
    NO_ID,
    NOBODY,
    OTHER,
    Attempt,
    Call,
    End,
    Job,
    Left,
    Listing,
    Live,
    Message,
    Phase,
    Seen,
    Sender,
    Sight,
    State,
    Wrong,
)

_HELD = (Live.HELD, Live.HELD_AGAIN)
_IDLE = Sender()

Steps = Iterator[Step[State]]


class Bounds(NamedTuple):
    """How often we may submit our first and our second attempt, and releases under way at once."""

    first_sends: int = 2
    second_sends: int = 1
    releases: int = 1


SMALL = Bounds()


def protocol(design: Design, bounds: Bounds = SMALL) -> Callable[[State], Steps]:
    """The machine of one design."""

    def steps(state: State) -> Steps:
        for leader in range(state.epoch + 1):
            yield from _submitting(state, design, bounds, leader)
            if design.has_threads or state.senders[leader].phase == Phase.IDLE:
                yield from _observing(state, design, bounds, leader)
            yield from _withdrawing(state, design, leader)
        yield from _deciding(state)
        if state.epoch == 0:
            yield "leader 1 takes over", _take_over(state, design), None
        yield from _arriving(state, design)
        yield from _cluster(state)

    return steps


# Our side


def _submitting(state: State, design: Design, bounds: Bounds, leader: int) -> Steps:
    """The sending thread: commit the intent, look up the tag, submit, record the answer."""
    sender = state.senders[leader]
    may_write = leader == state.epoch or not design.is_fenced
    tag = sender.tag
    if sender.phase == Phase.IDLE:
        tag = len(state.attempts) - 1
        attempt = state.attempts[tag]
        is_due = attempt.end == End.OPEN and attempt.native_id == NO_ID
        if may_write and is_due and attempt.sends < bounds[tag]:
            intended = _with_attempt(state, tag, attempt._replace(sends=attempt.sends + 1))
            if design.looks_up and attempt.sends > 0:
                after = _with_sender(intended, leader, Sender(Phase.LOOKING, tag))
            else:
                after = _call_submit(intended, design, leader, tag)
            yield f"leader {leader} intends to submit attempt {tag + 1}", after, None
    elif sender.phase == Phase.LOOKING:
        copies = [job.native_id for job in state.jobs if job.tag == tag and _is_listed(job)]
        if copies:
            after = _with_sender(state, leader, Sender(Phase.ANSWERED, tag, min(copies)))
            yield f"leader {leader} finds a copy of attempt {tag + 1}", after, None
        else:
            after = _call_submit(state, design, leader, tag)
            yield f"leader {leader} finds no copy of attempt {tag + 1}", after, None
    elif sender.phase == Phase.WAITING:
        calls = tuple(
            call._replace(who=NOBODY) if call.who == leader else call for call in state.calls
        )
        after = _with_sender(state, leader, _IDLE)._replace(calls=_sorted(calls))
        yield f"leader {leader} waits no longer for its answer", after, None
    else:
        attempt = state.attempts[tag]
        recorded = _with_sender(state, leader, _IDLE)
        if may_write and (attempt.native_id == NO_ID or not design.first_write_wins):
            recorded = _recorded(recorded, design, tag, sender.native_id)
        yield f"leader {leader} records id {sender.native_id}", recorded, None


def _deciding(state: State) -> Steps:
    """The arbiter, in one transaction each: start the job of a claim, or give the claim up. Its
    leader has a fence of its own."""
    attempt = state.attempts[FIRST]
    if attempt.is_granted or attempt.end != End.OPEN:
        return
    granted = _with_attempt(state, FIRST, attempt._replace(is_granted=True))
    yield "the arbiter starts what is held as attempt 1", granted, None
    given_up = _with_attempt(state, FIRST, attempt._replace(end=End.NEVER_STARTED))
    after = given_up._replace(attempts=(*given_up.attempts, Attempt()))
    yield "the arbiter gives the claim up, and starts the job as attempt 2", after, None


def _withdrawing(state: State, design: Design, leader: int) -> Steps:
    """The leader's main thread, which calls no cluster: take back what has waited too long for its
    cluster. How long is nothing to a model in which calls take as long as they like."""
    attempt = state.attempts[FIRST]
    if not design.withdraws or (leader < state.epoch and design.is_fenced):
        return
    if len(state.attempts) > 1 or not attempt.is_granted or attempt.end != End.OPEN:
        return
    if design.withdraws_unacknowledged_only and attempt.native_id != NO_ID:
        return
    after = state
    if design.closes_what_it_withdraws:
        after = _with_attempt(state, FIRST, attempt._replace(end=End.NEVER_STARTED))
    after = after._replace(attempts=(*after.attempts, Attempt()))
    yield f"leader {leader} takes attempt 1 back; the arbiter makes attempt 2", after, None


def _observing(state: State, design: Design, bounds: Bounds, leader: int) -> Steps:
    """The observing thread: list, then conclude from the list, however old it is by then.

    Every conclusion begins with a fenced transaction that reads the attempt afresh.
    """
    if leader < state.epoch and design.is_fenced:
        return
    listing = _listed(state, design)
    if listing != state.listings[leader]:
        yield f"leader {leader} lists", _with_listing(state, leader, listing), None
    if not design.complete_listings_only and state.listings[leader] != ():
        yield f"leader {leader} gets half a list", _with_listing(state, leader, ()), None
    seen = state.listings[leader]
    for tag, attempt in enumerate(state.attempts):
        if attempt.end == End.OPEN:
            if attempt.native_id != NO_ID:
                yield from _releasing(state, design, bounds, leader, tag)
            if seen is not None and attempt.is_granted:
                yield from _concluding(state, design, leader, tag, seen)
        if seen is not None:
            yield from _removing(state, leader, tag, seen)


def _releasing(state: State, design: Design, bounds: Bounds, leader: int, tag: int) -> Steps:
    """Let the recorded copy run, again as long as it is listed as held under our tag."""
    attempt = state.attempts[tag]
    if design.releases_granted_only and not attempt.is_granted:
        return
    if not design.is_held or (attempt.release_sent and not design.repeats_release):
        return
    if sum(call.call == Call.RELEASE for call in state.calls) >= bounds.releases:
        return
    if design.compares_tag:
        targets = [
            entry.native_id
            for entry in state.listings[leader] or ()
            if entry.tag == tag and entry.sight == Sight.SETTLED
            if entry.native_id == attempt.native_id or not design.releases_recorded_only
        ]
    else:
        targets = [] if attempt.release_sent else [attempt.native_id]
    for native_id in targets:
        sent = state
        if design.release_is_committed_first:
            sent = _with_attempt(state, tag, attempt._replace(release_sent=True))
        after = _call(sent, Message(Call.RELEASE, tag, native_id))
        yield f"leader {leader} releases id {native_id} of attempt {tag + 1}", after, None


def _concluding(state: State, design: Design, leader: int, tag: int, seen: Listing) -> Steps:
    """Adopt, end or miss an open attempt."""
    attempt = state.attempts[tag]
    ours = [entry for entry in seen if entry.tag == tag]
    if attempt.native_id == NO_ID:
        if ours:
            oldest = min(ours).native_id
            after = _recorded(state, design, tag, oldest)
            yield f"leader {leader} adopts id {oldest}", after, None
        return
    recorded = [entry for entry in ours if entry.native_id == attempt.native_id]
    if recorded:
        if recorded[0].sight == Sight.ENDED:
            after = _with_attempt(state, tag, attempt._replace(end=End.ENDED))
            yield f"leader {leader} sees the end of attempt {tag + 1}", after, None
    elif attempt.release_sent and design.never_again_once_released:
        name = f"leader {leader} misses attempt {tag + 1}, which was released: accounting"
        if state.left == Left.PURGED:
            after = _with_attempt(state, tag, attempt._replace(end=End.ENDED))
            yield f"{name} knows its end", after, None
        is_there = any(
            job.native_id == attempt.native_id and job.tag == tag and _is_listed(job)
            for job in state.jobs
        )
        after = _with_attempt(state, tag, attempt._replace(end=End.UNKNOWN))
        yield f"{name} does not know", after, Wrong.GIVEN_UP if is_there else None
    elif tag == FIRST:
        closed = _with_attempt(state, tag, attempt._replace(end=End.NEVER_STARTED))
        after = closed._replace(attempts=(*closed.attempts, Attempt()))
        yield f"leader {leader} misses attempt 1; the arbiter makes attempt 2", after, None


def _removing(state: State, leader: int, tag: int, seen: Listing) -> Steps:
    """Take held copies off the cluster that are nobody's any more."""
    attempt = state.attempts[tag]
    if attempt.end == End.OPEN and attempt.native_id == NO_ID:
        return
    if attempt.end == End.OPEN and not attempt.is_granted:
        return
    for entry in seen:
        is_copy = entry.native_id != attempt.native_id or attempt.end != End.OPEN
        if entry.tag == tag and entry.sight in (Sight.SETTLED, Sight.HELD) and is_copy:
            removal = Message(Call.REMOVE, tag, entry.native_id)
            if removal not in state.calls:
                after = _call(state, removal)
                yield f"leader {leader} removes copy {entry.native_id}", after, None


def _take_over(state: State, design: Design) -> State:
    """A new epoch. Leader 0 does not know; a fence leaves it nothing but calls."""
    after = state._replace(epoch=1)
    if not design.is_fenced:
        return after
    calls = tuple(call._replace(who=NOBODY) for call in state.calls)
    after = after._replace(listings=(None, None), calls=_sorted(calls))
    if state.senders[0].phase != Phase.LOOKING:
        after = _with_sender(after, 0, _IDLE)
    return after


# Between us and the cluster


def _arriving(state: State, design: Design) -> Steps:
    """Any call under way arrives or is lost. Answers are lost by waiting no longer."""
    for index, call in enumerate(state.calls):
        if index and call == state.calls[index - 1]:
            continue
        rest = state._replace(calls=state.calls[:index] + state.calls[index + 1 :])
        gone = rest if call.who == NOBODY else _with_sender(rest, call.who, _IDLE)
        yield f"{call.call.name.lower()} is lost", gone, None
        if call.call == Call.SUBMIT:
            yield _accepted(rest, design, call)
        elif call.call == Call.RELEASE:
            yield _released(rest, call)
        else:
            yield _removed(rest, call)


def _accepted(state: State, design: Design, call: Message) -> Step[State]:
    native_id = state.next_id
    name = f"the cluster accepts attempt {call.tag + 1} as id {native_id}"
    live = Live.HELD
    job = Job(native_id, call.tag, live, _on_disk(state, live))
    state = state._replace(jobs=(*state.jobs, job), next_id=native_id + 1)
    if call.who != NOBODY:
        answered = Sender(Phase.ANSWERED, call.tag, native_id)
        state = _with_sender(state, call.who, answered)
    if design.is_held:
        return name, state, None
    return _started(state, job, name)


def _released(state: State, call: Message) -> Step[State]:
    name = f"release of id {call.native_id} arrives"
    for job in state.jobs:
        if job.native_id == call.native_id and job.live in _HELD:
            if job.tag != call.tag:
                return name, state, Wrong.HITS_ANOTHER
            return _started(state, job, name)
    return name, state, None


def _removed(state: State, call: Message) -> Step[State]:
    name = f"removal of id {call.native_id} arrives"
    for job in state.jobs:
        if job.native_id == call.native_id and job.live in _HELD:
            if job.tag != call.tag:
                return name, state, Wrong.HITS_ANOTHER
            return name, _with_job(state, job, Live.REMOVED), None
    return name, state, None


def _started(state: State, job: Job, name: str) -> Step[State]:
    """A held job runs: the one place where a second run could begin."""
    after = _with_job(state, job, Live.RUNNING)._replace(has_started=True)
    if job.live == Live.HELD_AGAIN:
        return name, after, None
    wrong = None
    if state.has_started:
        wrong = {
            Left.STILL_THERE: Wrong.TWO_COPIES,
            Left.PURGED: Wrong.AGAIN_AFTER_PURGE,
            Left.FORGOTTEN: Wrong.AGAIN_AFTER_CRASH,
        }[state.left]
    elif state.attempts[job.tag].end == End.NEVER_STARTED:
        wrong = Wrong.RUNS_THOUGH_CLOSED
    elif not state.attempts[job.tag].is_granted:
        wrong = Wrong.RUNS_UNGRANTED
    return name, after, wrong


# The cluster's side


def _cluster(state: State) -> Steps:
    """The controller saves, crashes, purges; jobs end; another user submits after the crash.

    Another user matters only by taking an id that we still name. The time to settle is longer than
    the longest pause between saves, so what is settled is saved.
    """
    if state.crashes_left:
        saved = _saved(state)
        if saved != state:
            yield "the controller saves", saved, None
        yield "the controller crashes", _crashed(state), None
    elif state.others_left and _names_an_id_to_come(state):
        job = Job(state.next_id, OTHER, Live.HELD, Live.HELD)
        after = state._replace(
            jobs=(*state.jobs, job), next_id=state.next_id + 1, others_left=state.others_left - 1
        )
        yield f"another user gets id {job.native_id}", after, None
    for job in state.jobs:
        if job.live == Live.RUNNING:
            yield f"id {job.native_id} ends", _with_job(state, job, Live.ENDED), None
        elif job.live == job.saved == Live.ENDED:
            purged = tuple(other for other in state.jobs if other != job)
            after = state._replace(jobs=purged, left=Left.PURGED)
            yield f"id {job.native_id} is purged", after, None


def _saved(state: State) -> State:
    jobs = tuple(job._replace(saved=job.live) for job in state.jobs if job.live != Live.REMOVED)
    return state._replace(jobs=jobs, saved_next_id=state.next_id)


def _crashed(state: State) -> State:
    """Back to what is on disk. From now on the disk no longer matters, as no crash is left."""
    jobs = []
    left = state.left
    for job in state.jobs:
        has_run = job.live in (Live.HELD_AGAIN, Live.RUNNING, Live.ENDED)
        if job.saved == Live.UNSAVED:
            if has_run:
                left = Left.FORGOTTEN
            continue
        live = Live.HELD_AGAIN if job.saved == Live.HELD and has_run else job.saved
        jobs.append(job._replace(live=live, saved=live))
    return state._replace(
        jobs=tuple(jobs),
        next_id=state.saved_next_id,
        saved_next_id=0,
        crashes_left=state.crashes_left - 1,
        left=left,
    )


def _listed(state: State, design: Design) -> Listing:
    """Our jobs as the controller lists them, less those that no rule could act upon."""
    listing = []
    for job in state.jobs:
        if job.tag == OTHER or job.live == Live.REMOVED:
            continue
        entry = Seen(job.native_id, job.tag, _sight(job, design))
        attempt = state.attempts[job.tag]
        is_current = attempt.end == End.OPEN and attempt.native_id in (NO_ID, job.native_id)
        if is_current or entry.sight in (Sight.HELD, Sight.SETTLED):
            listing.append(entry)
    return tuple(listing)


def _sight(job: Job, design: Design) -> Sight:
    if job.live == Live.ENDED:
        return Sight.ENDED
    if job.live not in _HELD:
        return Sight.LISTED
    if job.saved != Live.UNSAVED or not design.waits_for_save:
        return Sight.SETTLED
    return Sight.LISTED if design.removal_waits_for_save else Sight.HELD


def _names_an_id_to_come(state: State) -> bool:
    """Whether we know an id that the controller has forgotten and will give away again."""
    known = [attempt.native_id for attempt in state.attempts]
    known += [call.native_id for call in state.calls]
    known += [sender.native_id for sender in state.senders]
    known += [entry.native_id for listing in state.listings for entry in listing or ()]
    return max(known) >= state.next_id


def _is_listed(job: Job) -> bool:
    return job.live != Live.REMOVED


def _on_disk(state: State, live: Live) -> Live:
    """What the disk has of a change: nothing yet, or all of it once no crash is left."""
    return Live.UNSAVED if state.crashes_left else live


# Small changes


def _with_attempt(state: State, tag: int, attempt: Attempt) -> State:
    attempts = (*state.attempts[:tag], attempt, *state.attempts[tag + 1 :])
    return state._replace(attempts=attempts)


def _recorded(state: State, design: Design, tag: int, native_id: int) -> State:
    """An id is recorded. Listings from before can then no longer show that it is missing."""
    attempt = state.attempts[tag]._replace(native_id=native_id, sends=0)
    after = _with_attempt(state, tag, attempt)
    return after._replace(listings=(None, None)) if design.misses_in_a_row else after


def _with_sender(state: State, leader: int, sender: Sender) -> State:
    zero, one = state.senders
    return state._replace(senders=(sender, one) if leader == 0 else (zero, sender))


def _with_listing(state: State, leader: int, listing: Listing) -> State:
    zero, one = state.listings
    return state._replace(listings=(listing, one) if leader == 0 else (zero, listing))


def _with_job(state: State, job: Job, live: Live) -> State:
    """`job` becomes `live`; what the disk has of it stays, unless no crash is left."""
    if live == Live.REMOVED and (job.saved == Live.UNSAVED or not state.crashes_left):
        return state._replace(jobs=tuple(other for other in state.jobs if other != job))
    changed = job._replace(live=live, saved=job.saved if state.crashes_left else live)
    return state._replace(jobs=tuple(changed if other == job else other for other in state.jobs))


def _call_submit(state: State, design: Design, leader: int, tag: int) -> State:
    """Put a submission on its way. Whoever could not record its answer does not wait for it."""
    if design.is_fenced and leader < state.epoch:
        return _call(_with_sender(state, leader, _IDLE), Message(Call.SUBMIT, tag))
    waiting = _with_sender(state, leader, Sender(Phase.WAITING, tag))
    return _call(waiting, Message(Call.SUBMIT, tag, who=leader))


def _call(state: State, message: Message) -> State:
    return state._replace(calls=_sorted((*state.calls, message)))


def _sorted(calls: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(sorted(calls))
