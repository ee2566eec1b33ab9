"""The words of the dispatch model: one portal job, two leaders, one cluster that forgets.

What a state leaves out it could not tell apart either: `NOBODY` waits for a call whose caller
timed out, and a deposed leader behind a fence keeps nothing but a call that it still makes.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

#: Whose a cluster job is: of our first attempt, of our second, or of another user.
FIRST, SECOND, OTHER = 0, 1, 2
#: No native id is recorded; ids begin with 1.
NO_ID = 0
NOBODY = -1


class End(IntEnum):
    """How an attempt stands in our database."""

    OPEN = 0
    NEVER_STARTED = 1
    ENDED = 2
    UNKNOWN = 3


class Live(IntEnum):
    """What the controller holds a job for; `UNSAVED` only ever as what is on its disk.

    `HELD_AGAIN` is a job that ran before a crash put its older, held state back: whoever
    releases it then lets the cluster repeat a run under the same id. `REMOVED` is off the list,
    but the disk may still have it.
    """

    UNSAVED = 0
    HELD = 1
    HELD_AGAIN = 2
    RUNNING = 3
    ENDED = 4
    REMOVED = 5


class Sight(IntEnum):
    """What a listing says of one of our jobs, as far as a rule depends on it.

    `SETTLED` is held, and listed so long after its submit time that the controller has saved it;
    `HELD` is held for less long, where a rule looks at that.
    """

    LISTED = 0
    HELD = 1
    SETTLED = 2
    ENDED = 3


class Call(IntEnum):
    """What can be under way to the cluster."""

    SUBMIT = 0
    RELEASE = 1
    REMOVE = 2


class Phase(IntEnum):
    """Where the sending thread of a leader stands."""

    IDLE = 0
    LOOKING = 1
    WAITING = 2
    ANSWERED = 3


class Left(IntEnum):
    """Where the copy that ran went from the cluster's list."""

    STILL_THERE = 0
    PURGED = 1
    FORGOTTEN = 2


class Wrong(StrEnum):
    """What must not happen."""

    TWO_COPIES = "two copies start"
    AGAIN_AFTER_PURGE = "second run after the first was purged"
    AGAIN_AFTER_CRASH = "second run after a crash forgot the first"
    HITS_ANOTHER = "hits another user's job"
    RUNS_THOUGH_CLOSED = "an attempt closed as never started runs"
    GIVEN_UP = "a job that the cluster has is called unknown"
    RUNS_UNGRANTED = "a job runs before the arbiter has started it"


class Attempt(NamedTuple):
    """A row of our database. `native_id` is the cluster's id as recorded, `sends` the committed
    intents to submit as long as there may be another, `release_sent` that the first release was
    about to be called. One that is not `is_granted` is a held submission of a claim's job: it is
    there for the cluster alone until the arbiter starts the job."""

    native_id: int = NO_ID
    sends: int = 0
    release_sent: bool = False
    end: End = End.OPEN
    is_granted: bool = True


class Job(NamedTuple):
    """A job object of the cluster: what the controller holds, and what its disk has of it."""

    native_id: int
    tag: int
    live: Live
    saved: Live


class Message(NamedTuple):
    """A call under way. A submission has the leader that waits for its answer as `who`."""

    call: Call
    tag: int
    native_id: int = NO_ID
    who: int = NOBODY


class Sender(NamedTuple):
    """The thread of a leader that submits: one call at a time, forgotten when it dies."""

    phase: Phase = Phase.IDLE
    tag: int = FIRST
    native_id: int = NO_ID


class Seen(NamedTuple):
    """One of our jobs in a listing."""

    native_id: int
    tag: int
    sight: Sight


Listing = tuple[Seen, ...]


class State(NamedTuple):
    """Everything at one moment.

    `epoch` is the leader that the database believes in: 0, then 1. Leader 0 goes on believing
    in itself. `listings` are what the observing thread of each leader holds in memory, however
    old. `saved_next_id` is the id counter on the controller's disk. `has_started` and `left`
    are for the judge alone: whether a copy of ours ever ran, and where it went.
    """

    attempts: tuple[Attempt, ...] = (Attempt(),)
    senders: tuple[Sender, Sender] = (Sender(), Sender())
    listings: tuple[Listing | None, Listing | None] = (None, None)
    epoch: int = 0
    jobs: tuple[Job, ...] = ()
    calls: tuple[Message, ...] = ()
    next_id: int = 1
    saved_next_id: int = 1
    crashes_left: int = 1
    others_left: int = 1
    has_started: bool = False
    left: Left = Left.STILL_THERE


#: The first moment where the job has a claim, whose victims have their grace.
CLAIMED = State(attempts=(Attempt(is_granted=False),))
