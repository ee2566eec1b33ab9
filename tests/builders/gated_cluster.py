"""A cluster whose natives wait for us, as one would be that plays by the book."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from builders.native_builders import T0
from connectors.errors import ClusterUnavailable, NativeRefused
from connectors.natives import NativeRef, NativeSize, size_of
from connectors.protocol import Listing, NativeWorkload, Outcome, RankSlot, WorkloadPhase

HELD = WorkloadPhase.HELD


def a_gated_native(
    native_id: str = "uid-1",
    *,
    submitted_s: int = 0,
    name: str = "train",
    account: str = "ns-nlp",
    user: str = "somebody",
    gpus: int = 8,
    ranks: int = 1,
    pool: str = "h100",
    time_limit_s: int | None = 3600,
) -> NativeWorkload:
    """Somebody's workload of `ranks` ranks with `gpus` each, which has not been started."""
    ranks_mgpu = (gpus * 1000,) * ranks
    return NativeWorkload(
        native_id=native_id,
        submitted_at=T0 + submitted_s,
        name=name,
        account=account,
        user=user,
        pool=pool,
        mgpu=sum(ranks_mgpu),
        native_state="Gated",
        phase=HELD,
        time_limit_s=time_limit_s,
        ranks_mgpu=ranks_mgpu,
    )


@dataclass
class AGatedCluster:
    """Starts what it is told to, on nodes of its own, and remembers what it was asked.

    It is its own control, starter and opener. `now_s` is its clock, from NOW on. `away` makes
    every call fail, a `lazy` one takes starts and does nothing about them, and what it `refuses` it
    lets nobody change. `granted` is with what each was last started.
    """

    teams: Mapping[str, str] = field(default_factory=lambda: {"ns-nlp": "ai-company/research/nlp"})
    now_s: int = 0
    away: bool = False
    lazy: bool = False
    refuses: set[str] = field(default_factory=set)
    granted: dict[str, NativeSize | None] = field(default_factory=dict)
    natives: dict[str, NativeWorkload] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    told: list[tuple[str, str, str]] = field(default_factory=list)
    tool: str = "kubectl"

    @property
    def starter(self) -> AGatedCluster:
        """It starts them at our word."""
        return self

    @property
    def submits_held(self) -> bool:
        """What the portal gives it waits too."""
        return True

    def add(self, *natives: NativeWorkload) -> None:
        """Somebody creates these."""
        for native in natives:
            self.natives[native.native_id] = native

    def remove(self, native_id: str) -> None:
        """Their owner deletes one."""
        del self.natives[native_id]

    def finish(self, native_id: str, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        """One ends by itself."""
        self._change(
            native_id,
            phase=WorkloadPhase.ENDED,
            native_state="Finished",
            ended_at=T0 + self.now_s,
            is_released=True,
            outcome=outcome,
        )

    def evict(self, native_id: str) -> None:
        """The cluster ends the run of one by rules of its own."""
        if self.natives[native_id].slots:
            self._hold(native_id, "Evicted")

    def listing(self) -> Listing:
        """What it says now."""
        return Listing(T0 + self.now_s, {}, natives=tuple(self.natives.values()))

    def asked(self, kind: str) -> list[str]:
        """Of which natives it was asked this, in order."""
        return [native_id for call, native_id in self.calls if call == kind]

    def team_of(self, account: str) -> str | None:
        """See the protocol."""
        if self.away:
            raise ClusterUnavailable("away")
        return self.teams.get(account)

    def resize(self, native_id: str, *, gpus: int, ranks: int, pool: str = "h100") -> None:
        """Its owner changes what it asks for."""
        ranks_mgpu = (gpus * 1000,) * ranks
        self._change(native_id, ranks_mgpu=ranks_mgpu, mgpu=sum(ranks_mgpu), pool=pool)

    def start(self, ref: NativeRef, granted: NativeSize | None) -> None:
        """See the protocol."""
        self._answer("start", ref)
        self.granted[ref.native_id] = granted
        native = self.natives.get(ref.native_id)
        if native is None or native.phase is not HELD or self.lazy:
            return
        if size_of(native.pool, native.ranks_mgpu) != granted:
            return
        self._change(
            ref.native_id,
            phase=WorkloadPhase.RUNNING,
            native_state="Admitted",
            started_at=T0 + self.now_s,
            ended_at=None,
            slots=tuple(
                RankSlot(f"ai-company-{rank:03}", mgpu)
                for rank, mgpu in enumerate(native.ranks_mgpu)
                if mgpu
            ),
        )

    def stop(self, ref: NativeRef) -> None:
        """See the protocol."""
        self._answer("stop", ref)
        native = self.natives.get(ref.native_id)
        if native is not None and native.slots and not native.is_released:
            self._hold(ref.native_id, "Inactive")

    def cancel(self, ref: NativeRef) -> None:
        """See the protocol."""
        self._answer("cancel", ref)
        if ref.native_id in self.natives:
            self.finish(ref.native_id, Outcome.STOPPED)

    def notify(self, ref: NativeRef) -> None:
        """See the protocol."""
        self._answer("notify", ref)

    def find_ended(self, ref: NativeRef) -> NativeWorkload | None:
        """See the protocol."""
        self._answer("find_ended", ref)
        return None

    def explain(self, ref: NativeRef, code: str, sentence: str) -> None:
        """See the protocol."""
        self._answer("explain", ref)
        self.told.append((ref.native_id, code, sentence))

    def _hold(self, native_id: str, state: str) -> None:
        self._change(
            native_id,
            phase=HELD,
            native_state=state,
            started_at=None,
            ended_at=T0 + self.now_s,
            slots=(),
        )

    def _change(self, native_id: str, **values: object) -> None:
        self.natives[native_id] = replace(self.natives[native_id], **values)  # type: ignore[arg-type]

    def _answer(self, kind: str, ref: NativeRef) -> None:
        if self.away:
            raise ClusterUnavailable("away")
        self.calls.append((kind, ref.native_id))
        if ref.native_id in self.refuses:
            raise NativeRefused("a webhook says no")
