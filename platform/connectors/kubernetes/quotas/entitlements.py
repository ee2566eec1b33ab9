"""The quota tree as objects of a Kubernetes cluster with Kueue.

`difference` is pure. `KubernetesEntitlements` reads the cluster, asks it with `dryRun=All` what it
would refuse, and makes one change at a time. Everything is written by server-side apply as field
manager "tidegate-quota". Objects with our labels are ours. If a foreign object has a name that we
need, it is left alone, and the change waits with a note.

A change is written as the existing object with the settings of the change. So an accepted
difference stays while others are overwritten. Nothing is remembered between calls: after a crash,
the next comparison continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.entitlements import Change, ChangeKind, Entitlements, Value
from connectors.errors import ClusterUnavailable, OutcomeUnknown, WorkloadRejected
from connectors.kubernetes.client.api import Forbidden, KubeApi, KubeRefused, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.objects import naming
from connectors.kubernetes.quotas.cells import BORROWS, LENDS, quantity
from connectors.kubernetes.quotas.objects import (
    CLUSTER_QUEUE,
    COHORT,
    FLAVOR,
    KINDS,
    NAMESPACE,
    OBJECT_LIMITS,
    QUEUE,
    TOPOLOGY,
    Json,
    Shape,
    is_of_another_portal,
    is_ours,
    is_terminating,
    name_of,
    path_of,
    shape_of,
)
from connectors.kubernetes.quotas.settings import for_apply, for_merge_patch, manifest, settings_of
from connectors.kubernetes.quotas.wanted_objects import Item, depth, wanted_items
from connectors.protocol import ClusterConnector

MANAGER = "tidegate-quota"
#: The most changes of one comparison that are checked with the cluster beforehand.
_ASKED_MAX = 2_000
_NOTE_MAX = 1_000
_HOLD = "Hold"
_RUNNING = "None"
_Key = tuple[str, str]
_Send = Callable[[], Json]


@dataclass(frozen=True, slots=True)
class Known:
    """The current state of one thing on the cluster that is ours, or has a name of ours."""

    thing: str
    name: str
    settings: Mapping[str, Value]
    path: str = ""
    is_ours: bool = True
    is_another_portals: bool = False
    is_terminating: bool = False
    #: For a queue: the numbers of workloads that wait, and that hold quota.
    waiting: int = 0
    holding: int = 0
    #: Devices that workloads hold, by the name of their quota in the settings.
    in_use: Mapping[str, int] | None = None

    @property
    def key(self) -> _Key:
        """The identity of the thing."""
        return self.thing, self.name


# The difference.


def difference(wanted: Sequence[Item], known: Sequence[Known], owner: str) -> tuple[Change, ...]:
    """Return the changes in the order in which to make them.

    Reductions come first, children before parents. Then come removals, in the same order. Then come
    increases and creations, parents first. Flavors and topologies belong to no node: they are
    created before anything names them, and removed last. `owner` is our label, see `objects.Shape`.
    """
    there = {item.key: item for item in known}
    found: list[Change] = []
    for item in wanted:
        found += _of_item(item, there.get(item.key), owner)
    found += _of_what_left(wanted, known)
    return tuple(sorted(found, key=_order))


def _of_item(item: Item, now: Known | None, owner: str) -> Iterable[Change]:
    if now is None:
        yield Change(ChangeKind.CREATE, *item.key, after=dict(item.settings), path=item.path)
    elif not now.is_ours:
        whose = "somebody else; rename or remove it"
        if now.is_another_portals:
            whose = (
                "another Tidegate, or of this one under another entry for the cluster; to hand it "
                f"over, set its label {naming.CLUSTER} to {owner}"
            )
        yield Change(
            *(ChangeKind.CREATE, *item.key),
            note=f"the cluster has one of this name, of {whose}",
            is_blocked=True,
            path=item.path,
        )
    elif now.is_terminating:
        yield Change(
            *(ChangeKind.CREATE, *item.key),
            after=dict(item.settings),
            note="is being deleted; it is made again when it is gone",
            is_blocked=True,
            path=item.path,
        )
    else:
        yield from _of_settings(item, now)


def _of_settings(item: Item, now: Known) -> Iterable[Change]:
    """Yield at most one change that reduces and one that increases."""
    item = replace(item, settings={**item.settings, **_with_others(item, now)})
    differing = {
        name: value for name, value in item.settings.items() if now.settings.get(name) != value
    }
    before = now.settings
    taken = _taken(item, before, differing)
    given = {name: value for name, value in differing.items() if name not in taken}
    if taken:
        note = _note(item.settings, taken, now.in_use or {})
        yield _settled(ChangeKind.LOWER, item, before, taken, note)
    if given:
        is_raised = any(_is_amount(item.thing, name) for name in given)
        kind = ChangeKind.RAISE if is_raised else ChangeKind.CHANGE
        yield _settled(kind, item, before, given, "")


def _taken(
    item: Item, before: Mapping[str, Value], differing: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the settings in `differing` that reduce an amount.

    Limits are valid only below a parent, so they come and go with it. A queue lends at most what it
    has, so its lending falls with its quota.
    """
    parent = "parent" if item.thing == COHORT else "cohort"
    found = {
        name
        for name, value in differing.items()
        if _takes(item.thing, name, value, _before(before, name))
    }
    found |= {name for name in differing if name.removesuffix(LENDS) in found}
    if parent in differing:
        limits = {name for name in differing if name.endswith((BORROWS, LENDS))} | {parent}
        found = found | limits if item.settings[parent] is None else found - limits
    return {name: value for name, value in differing.items() if name in found}


def _with_others(item: Item, now: Known) -> dict[str, Value]:
    """Return the wanted list together with the entries that others added to it."""
    checks = _texts(now.settings.get("checks"))
    if item.thing != CLUSTER_QUEUE or not checks:
        return {}
    ours = _texts(item.settings["checks"])
    others = [text for text in checks if text.partition(" on ")[0] not in ours]
    return {"checks": sorted([*ours, *others])}


def _settled(
    kind: ChangeKind,
    item: Item,
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    note: str,
) -> Change:
    return Change(
        *(kind, *item.key),
        before={name: before.get(name) for name in after},
        after=dict(after),
        note=note,
        path=item.path,
    )


def _is_amount(thing: str, name: str) -> bool:
    """Return whether a larger value of the setting means a larger amount."""
    if thing in (COHORT, CLUSTER_QUEUE):
        return " " in name or name == "stop"
    return thing == OBJECT_LIMITS or (thing == QUEUE and name == "stop")


def _before(before: Mapping[str, Value], name: str) -> Value:
    """Return the earlier allowance of the setting: a queue without a limit lends everything."""
    value = before.get(name)
    return before.get(name.removesuffix(LENDS)) if value is None else value


def _takes(thing: str, name: str, value: Value, before: Value) -> bool:
    """Return whether `value` allows less than `before`; None allows everything."""
    if name == "stop":
        return before == _RUNNING
    if name in ("flavors", "resources", "other_quota"):
        return not set(_texts(before)) <= set(_texts(value))
    if not _is_amount(thing, name) or value is None:
        return False
    return not isinstance(before, int) or not isinstance(value, int) or value < before


def _texts(value: Value) -> list[str]:
    return value if isinstance(value, list) else []


def _note(wanted: Mapping[str, Value], taken: Iterable[str], in_use: Mapping[str, int]) -> str:
    """Return a note that running jobs go on above a lower limit; "" if none do."""
    cells = sorted({name.removesuffix(BORROWS).removesuffix(LENDS) for name in taken})
    above = []
    for cell in cells:
        nominal, borrows = wanted.get(cell), wanted.get(cell + BORROWS)
        if isinstance(nominal, int) and isinstance(borrows, int):
            most = nominal + borrows
            if in_use.get(cell, 0) > most:
                above.append(
                    f"{in_use[cell]} {cell} are in use and run on; nothing starts before less "
                    f"than {most} are"
                )
    return "; ".join(above)


def _of_what_left(wanted: Sequence[Item], known: Sequence[Known]) -> Iterable[Change]:
    """Yield the removals, children before parents. A blocked object keeps its references alive."""
    stays = {item.key for item in wanted}
    left = [item for item in known if item.is_ours and item.key not in stays]
    using: list[Item | Known] = [*wanted, *(item for item in known if not item.is_ours)]
    queues = {item.name: item for item in known if item.thing == CLUSTER_QUEUE}
    things = list(KINDS)
    for item in sorted(left, key=lambda one: (things.index(one.thing), depth(one.path)))[::-1]:
        if item.thing == CLUSTER_QUEUE and item.settings.get("stop") == _RUNNING:
            yield Change(
                *(ChangeKind.LOWER, *item.key),
                before={"stop": _RUNNING},
                after={"stop": _HOLD},
                note="is no longer in the tree; nothing new starts in it",
                path=item.path,
            )
        reason = _reason_to_stay(item, queues.get(item.name), using)
        if reason:
            using.append(item)
        yield Change(
            *(ChangeKind.DELETE, *item.key),
            before=dict(item.settings),
            note=reason or "is no longer in the tree",
            is_blocked=bool(reason),
            path=item.path,
        )


def _reason_to_stay(item: Known, queue: Known | None, using: Iterable[Item | Known]) -> str:
    """Return why `item` is not deleted although it left the tree; "" when it is.

    `queue` is the cluster queue of its team.
    """
    if item.is_terminating:
        return "is being deleted; what uses it ends first"
    if item.thing == NAMESPACE:
        return (
            "stays with all that is in it, which may be somebody's data; when nobody needs it, "
            f"remove it by kubectl delete namespace {item.name}"
        )
    if item.thing in (CLUSTER_QUEUE, QUEUE) and queue is not None and _is_used(queue):
        return _use(queue)
    users = _users(item, using)
    return f"is still used by {', '.join(users[:5])}" if users else ""


def _is_used(queue: Known) -> bool:
    return queue.waiting + queue.holding > 0


def _use(queue: Known) -> str:
    return (
        f"{queue.holding} workloads hold quota in it and {queue.waiting} wait; it goes when they "
        "are done or deleted"
    )


#: The settings in which others refer to a thing, as their first word.
_NAMED_BY: Mapping[str, tuple[str, ...]] = {
    COHORT: ("parent", "cohort"),
    FLAVOR: ("flavors", "other_quota"),
    TOPOLOGY: ("topology",),
}


def _users(item: Known, others: Iterable[Item | Known]) -> list[str]:
    """Return the names of those `others` that refer to `item`, for people."""
    return [
        f"{other.thing} {other.name}"
        for other in others
        if item.name in _named_by(other.settings, item.thing)
    ]


def _named_by(settings: Mapping[str, Value], thing: str) -> set[str]:
    """Return the names of the kind `thing` that the settings refer to."""
    values = [settings.get(name) for name in _NAMED_BY.get(thing, ())]
    texts = [
        one for value in values for one in ([value] if isinstance(value, str) else _texts(value))
    ]
    return {text.partition(" ")[0] for text in texts}


def _order(change: Change) -> tuple[int, int, int, str]:
    thing = list(KINDS).index(change.thing)
    level = depth(change.path)
    is_named = change.thing in (FLAVOR, TOPOLOGY)
    match change.kind:
        case ChangeKind.LOWER:
            return 1, -thing, -level, change.name
        case ChangeKind.DELETE:
            return 4 if is_named else 2, -thing, -level, change.name
        case _:
            return 0 if is_named else 3, thing, level, change.name


# The cluster.


def control_entitlements(connector: ClusterConnector) -> KubernetesEntitlements:
    """Return the entitlement control of the Kubernetes cluster of `connector`."""
    assert isinstance(connector, KubernetesConnector)
    return KubernetesEntitlements(connector.api, shape_of(connector.options, connector.cluster_id))


class KubernetesEntitlements:
    """Implements `connectors.entitlements.EntitlementControl`."""

    def __init__(self, api: KubeApi, shape: Shape) -> None:
        self._api = api
        self._shape = shape

    def changes(self, wanted: Entitlements) -> tuple[Change, ...]:
        """See the protocol. Raises WorkloadRejected when no node is entitled to anything.

        Applying that would remove everything; it is more likely a mistake than an intention.
        """
        if not wanted.nodes:
            raise WorkloadRejected(
                "no organization has quota in a pool of this cluster, so nothing is compared and "
                "nothing removed; set a quota first, or remove what is left by kubectl"
            )
        items = wanted_items(wanted, self._shape)
        known = self._read(items)
        return self._asked(difference(items, known, self._shape.owner), known)

    def apply(self, change: Change) -> None:
        """See the protocol."""
        if change.thing not in self._shape.things:
            raise WorkloadRejected(f"this cluster has no {change.thing[:40]!r} to change")
        found = self._found(change)
        if change.kind is ChangeKind.DELETE:
            self._delete(change, found)
            return
        settings: dict[str, Value] = {}
        if found is not None:
            settings = settings_of(change.thing, found, self._shape)
            if all(settings.get(name) == value for name, value in change.after.items()):
                return
        elif change.kind is not ChangeKind.CREATE:
            raise WorkloadRejected(f"{change.subject} is gone; compare again")
        settings |= change.after
        body = manifest(change.thing, change.name, settings, self._shape)
        kept = self._write(change, body, is_new=found is None)
        if self._lost(change, kept):
            # Another manager owns a field that must be removed; an apply would leave it.
            path = KINDS[change.thing].path(change.name)
            kept = self._sent(change, lambda: self._api.merge_patch(path, for_merge_patch(body)))
        if lost := self._lost(change, kept):
            raise OutcomeUnknown(f"{change.subject}: {lost}")

    # Reading.

    def _read(self, items: Sequence[Item]) -> tuple[Known, ...]:
        """Return everything that is ours, or has a wanted name. It makes one list per kind."""
        names = {item.key for item in items}
        found: list[Known] = []
        for thing in self._shape.things:
            for one in self._list(thing):
                name = name_of(thing, one)
                ours = is_ours(thing, one, self._shape)
                only = KINDS[thing].only
                is_named = (thing, name) in names and (not only or one["metadata"]["name"] == only)
                if is_named or (ours and (not only or one["metadata"]["name"] == only)):
                    found.append(self._known(thing, name, one, ours=ours))
                elif thing in (COHORT, CLUSTER_QUEUE, FLAVOR):
                    # A foreign object, which may use one of ours.
                    found.append(self._known(thing, name, one, ours=False))
        return tuple(found)

    def _list(self, thing: str) -> list[Json]:
        try:
            return self._api.list(KINDS[thing].collection).items
        except NotFound as error:
            raise ClusterUnavailable(
                f"the cluster knows no {KINDS[thing].kind} of {KINDS[thing].api}; Kueue 0.17 or "
                f"newer must be installed there ({error})"
            ) from error
        except KubeRefused as error:
            raise ClusterUnavailable(
                f"the cluster does not let us list its {KINDS[thing].plural}: {error}; the rights "
                "that are needed are in deploy/kubernetes/role.yaml"
            ) from error

    def _known(self, thing: str, name: str, found: Json, *, ours: bool) -> Known:
        status = found.get("status") or {}
        return Known(
            thing=thing,
            name=name,
            settings=settings_of(thing, found, self._shape),
            path=path_of(found),
            is_ours=ours,
            is_another_portals=is_of_another_portal(found, self._shape),
            is_terminating=is_terminating(found),
            waiting=int(status.get("pendingWorkloads") or 0),
            holding=int(status.get("reservingWorkloads") or 0),
            in_use=_in_use(status),
        )

    def _found(self, change: Change) -> Json | None:
        """Return the object of the change. Raises WorkloadRejected for one that is not ours."""
        try:
            found = self._api.get(KINDS[change.thing].path(change.name))
        except NotFound:
            return None
        except KubeRefused as error:
            raise WorkloadRejected(f"{change.subject}: {error}") from error
        if not is_ours(change.thing, found, self._shape):
            raise WorkloadRejected(
                f"{change.subject} has become somebody else's meanwhile; compare again"
            )
        if is_terminating(found) and change.kind is not ChangeKind.DELETE:
            raise WorkloadRejected(f"{change.subject} is being deleted; compare again")
        return found

    # Asking before.

    def _asked(self, changes: Sequence[Change], known: Sequence[Known]) -> tuple[Change, ...]:
        """Return the changes, blocking those that the cluster would refuse.

        It cannot check objects in a namespace that does not exist yet.
        """
        settings = {item.key: dict(item.settings) for item in known}
        namespaces = {item.name for item in known if item.thing == NAMESPACE}
        found: list[Change] = []
        for place, change in enumerate(changes):
            key = (change.thing, change.name)
            is_asked = change.kind is not ChangeKind.DELETE and not change.is_blocked
            if KINDS[change.thing].only and change.name not in namespaces:
                is_asked = False
            if is_asked and place < _ASKED_MAX:
                settings[key] = {**settings.get(key, {}), **change.after}
                body = manifest(change.thing, change.name, settings[key], self._shape)
                if refusal := self._refusal(change, body):
                    note = f"the cluster would refuse it: {refusal}"[:_NOTE_MAX]
                    found.append(replace(change, note=note, is_blocked=True))
                    continue
            found.append(change)
        return tuple(found)

    def _refusal(self, change: Change, body: Json) -> str:
        path = KINDS[change.thing].path(change.name)
        try:
            self._api.apply(path, for_apply(body), force=True, dry_run=True, manager=MANAGER)
        except KubeRefused as error:
            return _said(error)
        except OutcomeUnknown as error:
            # A dry run has no effect, so only the answer is unknown.
            raise ClusterUnavailable(str(error)) from error
        return ""

    # Writing.

    def _write(self, change: Change, body: Json, *, is_new: bool) -> Json:
        path = KINDS[change.thing].path(change.name)
        # Without force, an object that was created meanwhile causes a conflict.
        return self._sent(
            change,
            lambda: self._api.apply(path, for_apply(body), force=not is_new, manager=MANAGER),
        )

    def _sent(self, change: Change, send: _Send) -> Json:
        try:
            return send()
        except KubeRefused as error:
            raise WorkloadRejected(f"{change.subject}: {_said(error)}") from error

    def _lost(self, change: Change, kept: Json) -> str:
        """Return the part of the change that the cluster has not stored; "" when it stored all."""
        has = settings_of(change.thing, kept, self._shape)
        for name, value in change.after.items():
            if has.get(name) != value:
                return f"{name} was set to {value!r} and the cluster has {has.get(name)!r}"
        return ""

    def _delete(self, change: Change, found: Json | None) -> None:
        if found is None or is_terminating(found):
            return
        known = self._known(change.thing, change.name, found, ours=True)
        if change.thing == NAMESPACE:
            raise WorkloadRejected(f"{change.subject} is never deleted from here")
        if _is_used(known):
            raise WorkloadRejected(f"{change.subject}: {_use(known)}")
        path = KINDS[change.thing].path(change.name)
        uid = str(found["metadata"].get("uid", ""))
        try:
            self._api.delete(path, uid=uid)
        except KubeRefused as error:
            raise WorkloadRejected(f"{change.subject}: {_said(error)}") from error
        try:
            left = self._api.get(path)
        except NotFound:
            return
        if left["metadata"].get("uid") == uid and not is_terminating(left):
            raise OutcomeUnknown(f"{change.subject} was to be deleted and is still there")


def _said(error: KubeRefused) -> str:
    """Return the cluster's message, with a remedy where one is known."""
    if isinstance(error, Forbidden) and "is forbidden: User " in error.message:
        return f"{error.message}; the rights that are needed are in deploy/kubernetes/role.yaml"
    return error.message


def _in_use(status: Json) -> dict[str, int]:
    """Return the devices that workloads hold in a queue, by the name of their quota."""
    found: dict[str, int] = {}
    for flavor in status.get("flavorsReservation") or ():
        for resource in flavor.get("resources") or ():
            total = quantity(resource.get("total", "0"))
            if isinstance(total, int):
                found[f"{flavor.get('name')} {resource.get('name')}"] = total
    return found
