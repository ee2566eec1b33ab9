"""Nodes, tasks, GPUs, CPUs and memory of an sbatch text, settled together.

One option alone says little: `-n 8 --ntasks-per-node=4` is two nodes, and `--gpus-per-task=2` then
is eight GPUs on each. The rules are those of sbatch (`_opt_verify`) and slurmctld 22.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobs.submission.sbatch_notes import Verdict
from jobs.submission.sbatch_values import Gpus

_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
#: The options that name GPUs.
GPUS = frozenset({"gres", "gpus-per-node", "gpus", "gpus-per-task"})

_STARTED = "srun starts them"
_TASKS_UNKNOWN = "Say how many tasks a node has, with --ntasks-per-node."
_GPUS_UNKNOWN = "Say how many GPUs a node has, with --gpus-per-node."
_WHOLE_MEMORY = "A node is shared; write how much memory is needed of it, such as 64G."


_OVERRULED = "The request itself says otherwise."
_TASKS_OVERRULED = "The tasks of a node are unknown, as the request itself gives the GPUs."
_CPUS_UNKNOWN = "Say how many CPUs a task has, with --cpus-per-task."
#: The number of the note of what the request itself gives, which has none.
OWN = -1


class Asked(NamedTuple):
    """The value of an option, and the number of its note."""

    value: Any
    note: int


class Own(NamedTuple):
    """The size that the request itself gives, which wins over the text. None is left to the text.

    `has_gpus` is also true for GPUs that are no whole number, or no number at all.
    """

    has_gpus: bool = False
    gpus: int | None = None
    gpus_per_node: int | None = None
    nodes: int | None = None
    cpus_per_node: int | None = None


@dataclass(slots=True)
class Shape:
    """The size of a job in Slurm's words. None is what the text leaves open.

    `nodes` and `nodes_min` are equal but for a range. `gpus` is the total, where it is known.
    """

    nodes: int | None = None
    nodes_min: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpu_type: str | None = None
    memory_mib_per_node: int | None = None


@dataclass(slots=True)
class Settled:
    """The settled members of the request, each with the number of its note, and the notes."""

    shape: Shape = field(default_factory=Shape)
    fields: dict[str, Asked] = field(default_factory=dict)
    notes: dict[int, tuple[Verdict, str]] = field(default_factory=dict)


def settle(
    asked: Mapping[str, Asked], *, own: Own | None = None, is_exclusive: bool = False
) -> Settled:
    """Return what the options in `asked` say together, and beside what the request says itself.

    `asked` has by option: (least, most) for "nodes", `Gpus` for GPUs, and numbers for the rest.
    `is_exclusive`: the job asks for whole nodes.
    """
    settling = _Settling(asked, own or Own(), is_exclusive)
    settling.overrule()
    settling.nodes()
    settling.gpus()
    settling.tasks()
    settling.cpus()
    settling.memory()
    settled = settling.settled
    settled.notes.pop(OWN, None)  # errors in the request itself are told with it
    for name in [name for name, given in settled.fields.items() if given.note == OWN]:
        del settled.fields[name]
    return settled


class _Settling:
    def __init__(self, asked: Mapping[str, Asked], own: Own, is_exclusive: bool) -> None:
        self.asked = dict(asked)
        self.own = own
        self.is_exclusive = is_exclusive
        self.settled = Settled()
        self.shape = self.settled.shape
        self.told: int | None = None  # the tasks that the text tells
        self.derived = ""  # what the tasks give, for their notes

    def value(self, option: str) -> Any:
        """Return the value of `option`, or None."""
        return self.asked[option].value if option in self.asked else None

    def tell(self, option: str, told: str, verdict: Verdict = Verdict.UNDERSTOOD) -> None:
        """Set the note of `option`. A refusal stays."""
        note = self.asked[option].note
        if note not in self.settled.notes or self.settled.notes[note][0] is not Verdict.REFUSED:
            self.settled.notes[note] = (verdict, told)

    def refuse(self, option: str, told: str) -> None:
        self.tell(option, told, Verdict.REFUSED)

    def take(self, name: str, value: Any, option: str, extra: str = "") -> None:
        """Take a member of the request, from the line of `option`."""
        self.settled.fields[name] = Asked(value, self.asked[option].note)
        self.tell(option, f"{name} = {value}{extra}")

    def drop(self, option: str, told: str = _OVERRULED) -> None:
        """Leave an option out, with a note."""
        if option in self.asked:
            self.tell(option, told, Verdict.IGNORED)
            del self.asked[option]

    def overrule(self) -> None:
        """Put the GPUs and the nodes of the request in the place of those of the text."""
        own, tasks = self.own, self.value("ntasks")
        if own.has_gpus:
            self._overrule_gpus()
        elif own.nodes is not None:
            self.drop("nodes")
            if tasks is not None and tasks < own.nodes:
                if "gpus-per-task" in self.asked:
                    told = f"{tasks} tasks are too few for {own.nodes} nodes, as the request says."
                    self.refuse("ntasks", told)
                else:
                    self.drop("ntasks")
        if own.nodes is not None:
            self.asked["nodes"] = Asked((own.nodes, own.nodes), OWN)

    def _overrule_gpus(self) -> None:
        """Leave out the GPUs of the text, and the tasks, which Slurm spreads over them.

        The CPUs and memory of tasks are then unknown, but for one task. The type of GPU still
        counts.
        """
        gpus = {option: self.value(option) for option in GPUS if option in self.asked}
        self._type({option: given for option, given in gpus.items() if given.number})
        is_many = not self.asked.keys().isdisjoint({"gpus-per-task", "ntasks-per-gpu"}) or any(
            (self.value(option) or 1) > 1 for option in ("ntasks", "ntasks-per-node")
        )
        for option in (*sorted(GPUS), "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu"):
            self.drop(option)
        if is_many:
            self.drop("cpus-per-task", _TASKS_OVERRULED)
        if self.shape.gpu_type is not None:
            note = self.settled.fields["gpu_type"].note
            told = f"the request itself gives the number, of type {self.shape.gpu_type}"
            if self.settled.notes[note][0] is not Verdict.REFUSED:
                self.settled.notes[note] = (Verdict.UNDERSTOOD, told)
        if self.own.gpus_per_node is not None:
            self.asked["gpus-per-node"] = Asked(Gpus(self.own.gpus_per_node), OWN)
        elif self.own.gpus is not None:
            self.asked["gpus"] = Asked(Gpus(self.own.gpus), OWN)

    def nodes(self) -> None:
        """Settle the nodes by --nodes, --ntasks and --ntasks-per-node."""
        asked: tuple[int, int] | None = self.value("nodes")
        tasks, each = self.value("ntasks"), self.value("ntasks-per-node")
        self.told = tasks
        if tasks is None and each is not None:
            self.told = each * (1 if asked is None else asked[0])
        if asked is not None:
            (least, most), why = asked, ""
            if tasks is not None and tasks < most:
                least, most = min(least, tasks), tasks
                why = f", as there are {tasks} tasks" if tasks > 1 else ", as there is 1 task"
            self._take_nodes(least, most, "nodes", why)
        elif tasks is not None and each:
            least = most = -(-tasks // each)
            self._take_nodes(least, most, "ntasks")
            self.derived = f"nodes = {most}; "

    def _take_nodes(self, least: int, most: int, option: str, why: str = "") -> None:
        self.shape.nodes_min, self.shape.nodes = least, most
        self.take("nodes", most, option, why)
        if least < most:
            self.settled.fields["nodes_min"] = Asked(least, self.asked[option].note)
            self.tell(option, f"nodes = {most}, nodes_min = {least}{why}")

    def gpus(self) -> None:
        """Settle the GPUs, and the nodes where the GPUs give them."""
        asked = {option: self.value(option) for option in sorted(GPUS) if option in self.asked}
        named = {option: gpus for option, gpus in asked.items() if gpus.number}
        self._type(named)
        each = self._per_node(named)
        total = named["gpus"].number if "gpus" in named else None
        if each is not None and total is not None:
            self._nodes_by(total, each, "gpus")
        if "gpus-per-task" in named:
            total = self._of_tasks(named["gpus-per-task"].number, total, each)
        if each is not None:
            self.shape.gpus_per_node = each
            for option in sorted(named.keys() & {"gres", "gpus-per-node"}):
                self.take("gpus_per_node", each, option, _type_of(named[option]))
        elif total and "gpus" in named:
            self._take_total(total, "gpus", _type_of(named["gpus"]))
        elif total:
            self._take_of_tasks(total, _type_of(named["gpus-per-task"]))
        for option, gpus in asked.items():
            if not gpus.number:
                self.tell(option, "The job asks for no GPUs.")
            elif self.asked[option].note not in self.settled.notes:
                number = "1 GPU" if gpus.number == 1 else f"{gpus.number} GPUs"
                self.tell(option, f"{number}{_type_of(gpus)}, as the other lines say.")
        if each is not None:
            self.shape.gpus = each * (self.shape.nodes or 1) if self._is_fixed() else None
        else:
            self.shape.gpus = total or 0

    def _type(self, named: Mapping[str, Gpus]) -> None:
        """Settle the type of GPU. As for Slurm, each option names the same, or none does."""
        lines = sorted(named, key=lambda option: self.asked[option].note)
        kinds = {named[option].type for option in lines}
        if len(kinds) > 1:
            told = "one kind of GPU" if None not in kinds else "its type in each line, or in none"
            self.refuse(lines[-1], f"A job names {told}; see --{lines[0]}.")
        for option in lines[:1]:
            if (kind := named[option].type) is not None:
                self.shape.gpu_type = kind
                self.settled.fields["gpu_type"] = Asked(kind, self.asked[option].note)

    def _is_fixed(self) -> bool:
        return self.shape.nodes_min == self.shape.nodes

    def _per_node(self, named: Mapping[str, Gpus]) -> int | None:
        """Return the GPUs of each node by --gres and --gpus-per-node, which must agree."""
        found = [option for option in ("gres", "gpus-per-node") if option in named]
        if not found:
            return None
        if len({named[option].number for option in found}) > 1:
            first, second = sorted(found, key=lambda option: self.asked[option].note)
            self.refuse(second, f"--{first} says {named[first].number} GPUs a node; keep one.")
        return named[found[0]].number

    def _nodes_by(self, total: int, each: int, option: str) -> None:
        """Settle the nodes that hold `total` GPUs with `each` on a node."""
        least, most = self.shape.nodes_min, self.shape.nodes
        count = total // each
        if total % each:
            self.refuse(option, f"{total} GPUs are no multiple of {each} a node; keep one.")
        elif least is None or most is None:
            self._take_nodes(count, count, option)
        elif not least <= count <= most:
            self.refuse(option, f"{total} GPUs are not {each} on each of {most} nodes; keep one.")
        elif least < most:
            self._take_nodes(count, count, option)
            self.settled.fields.pop("nodes_min")

    def _of_tasks(self, per_task: int, total: int | None, each: int | None) -> int | None:
        """Return the GPUs of all tasks, with `per_task` for each, and settle the tasks."""
        # slurmctld takes a task a node for granted, but not beside --cpus-per-task.
        is_one_each = self._is_fixed() and "cpus-per-task" not in self.asked
        tasks = self.told or (self.shape.nodes_min if is_one_each else None)
        if tasks is None and total is not None:
            if total % per_task:
                self.refuse("gpus-per-task", f"{total} GPUs are no multiple of {per_task} a task.")
                return total
            tasks = total // per_task
        if tasks is None:
            self.refuse("gpus-per-task", "Say how many tasks there are, with --ntasks.")
            return total
        self.shape.tasks = tasks
        amount = tasks * per_task
        if total is not None and total != amount:
            told = (
                f"{tasks} tasks with {per_task} GPUs each are {amount} GPUs, not {total}; keep one."
            )
            self.refuse("gpus-per-task", told)
        elif each is not None and each % per_task:
            self.refuse(
                "gpus-per-task", f"{each} GPUs a node are no multiple of {per_task} a task."
            )
        elif each is not None and self.value("ntasks-per-node") not in (None, each // per_task):
            told = f"{each} GPUs a node are {each // per_task} tasks a node; keep one."
            self.refuse("ntasks-per-node", told)
        elif each is not None:
            self._nodes_by(amount, each, "gpus-per-task")
        return amount

    def _take_total(self, total: int, option: str, kind: str) -> None:
        """Take GPUs of the whole job. Their number stays when the nodes are a range."""
        self.take("gpus", total, option, kind)
        if self._is_fixed() and total < (self.shape.nodes or 1):
            self.refuse(option, f"{total} GPUs are too few for {self.shape.nodes} nodes.")
        if not self._is_fixed():
            for name in ("nodes", "nodes_min"):
                self.settled.fields.pop(name, None)
            told = "The number of GPUs is fixed, and Tidegate chooses the nodes."
            self.tell("nodes", told, Verdict.IGNORED)

    def _take_of_tasks(self, total: int, kind: str) -> None:
        """Take GPUs that the tasks give: by node where the nodes are known."""
        nodes, tasks = self.shape.nodes, self.shape.tasks
        if nodes is None and tasks == 1:
            nodes = 1
        if nodes is None or not self._is_fixed():
            self._take_total(total, "gpus-per-task", kind)
        elif total % nodes:
            told = f"{tasks} tasks cannot be spread evenly over {nodes} nodes; change --ntasks."
            self.refuse("gpus-per-task", told)
        else:
            self.shape.gpus_per_node = total // nodes
            self.take("gpus_per_node", total // nodes, "gpus-per-task", kind)

    def tasks(self) -> None:
        """Settle the tasks, and how many of them a node has."""
        shape = self.shape
        told, each = self.told, self.value("ntasks-per-node")
        per_gpu = self.value("ntasks-per-gpu")
        if told is not None:
            shape.tasks = told
        elif per_gpu is not None and shape.gpus:
            shape.tasks = per_gpu * shape.gpus
        elif shape.tasks is None:
            shape.tasks = shape.nodes_min or 1
        is_one_node = shape.nodes is None and ("gpus" not in self.settled.fields)
        if shape.nodes is not None and self._is_fixed():
            shape.tasks_per_node = -(-shape.tasks // shape.nodes)
        elif each is not None:
            shape.tasks_per_node = each
        elif shape.nodes is not None:
            shape.tasks_per_node = 1 if told is None and "gpus" not in self.settled.fields else None
        elif is_one_node or shape.tasks == 1:
            shape.tasks_per_node = shape.tasks
        for option, value in (("ntasks", self.value("ntasks")), ("ntasks-per-gpu", shape.tasks)):
            if option in self.asked and value is not None:
                self.take("ntasks", value, option, f"; {self.derived}{_STARTED}")
        if each is not None:
            self.take("ntasks_per_node", each, "ntasks-per-node", f"; {_STARTED}")

    def _gpus_of_a_node(self) -> int | None:
        shape = self.shape
        if shape.gpus_per_node is not None or not shape.gpus:
            return shape.gpus_per_node
        if shape.gpus == 1:
            return 1
        if shape.nodes is None or not self._is_fixed() or shape.gpus % shape.nodes:
            return None
        return shape.gpus // shape.nodes

    def cpus(self) -> None:
        """Settle the CPUs of a node."""
        shape = self.shape
        if self.own.cpus_per_node is not None:
            self.drop("cpus-per-gpu")
            self.drop("cpus-per-task")
        shape.cpus_per_task = self.value("cpus-per-task")
        if shape.cpus_per_task is not None:
            self.take("cpus_per_task", shape.cpus_per_task, "cpus-per-task")
        for option, each, count, missing in (
            ("cpus-per-gpu", self.value("cpus-per-gpu"), self._gpus_of_a_node(), _GPUS_UNKNOWN),
            ("cpus-per-task", shape.cpus_per_task, shape.tasks_per_node, _TASKS_UNKNOWN),
        ):
            if each is None:
                continue
            if option == "cpus-per-gpu" and shape.cpus_per_task is not None:
                self.refuse(
                    option, "--cpus-per-gpu and --cpus-per-task exclude each other; keep one."
                )
            elif count is None:
                self.tell(option, missing, Verdict.IGNORED)
            else:
                extra = "" if option == "cpus-per-gpu" else f", cpus_per_task = {each}"
                self.take("cpus_per_node", each * count, option, extra)

    def memory(self) -> None:
        """Settle the memory of a node."""
        named = [option for option in _MEMORY if option in self.asked]
        for option in sorted(named, key=lambda option: self.asked[option].note)[1:]:
            self.refuse(
                option, "--mem, --mem-per-cpu and --mem-per-gpu exclude each other; keep one."
            )
        for option in named[:1]:
            amount, count, missing = self.value(option), self._units_of_memory(option), ""
            if option != "mem" and count is None:
                missing = _GPUS_UNKNOWN if option == "mem-per-gpu" else self._cpus_unknown()
            if option == "mem-per-cpu" and self.is_exclusive:
                missing = "A job alone on its nodes has the memory of all CPUs; write --mem."
            if not amount:
                missing = _WHOLE_MEMORY
            if missing or count is None:
                self.tell(option, missing, Verdict.IGNORED)
            else:
                self.shape.memory_mib_per_node = amount * count
                self.take("memory_mib_per_node", amount * count, option)

    def _units_of_memory(self, option: str) -> int | None:
        """Return how many times the amount in `option` counts on a node."""
        if option == "mem":
            return 1
        if option == "mem-per-gpu":
            return self._gpus_of_a_node()
        if self.own.cpus_per_node is not None:
            return self.own.cpus_per_node
        cpus = self.settled.fields.get("cpus_per_node")
        if cpus is not None:
            return int(cpus.value)
        # Beside GPUs the cluster gives the CPUs. Else sbatch gives one to each task.
        return None if self._has_gpus() else self.shape.tasks_per_node

    def _has_gpus(self) -> bool:
        return self.own.has_gpus or bool(self.shape.gpus or self.shape.gpus_per_node)

    def _cpus_unknown(self) -> str:
        if self._has_gpus() and "cpus-per-task" not in self.asked:
            return _CPUS_UNKNOWN
        return _TASKS_UNKNOWN


def _type_of(gpus: Gpus) -> str:
    return "" if gpus.type is None else f", of type {gpus.type}"
