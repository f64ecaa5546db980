"""Faults of the program that a run tests (workload kind `app`): killed, stopped for a while, given
another wall clock, or cut off from the cluster.

The parameter `instance` says which process of the program is hit. `cut.clients` with the target
`all` cuts the program off from the cluster, together with all other clients; `app.cut` does it
alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.fault_state import TAG, new_tag
from nemesis.faults.clock import ANY, JUMPS_MS, read_offset_or_any
from nemesis.faults.fault import (
    Ability,
    Fault,
    FaultBase,
    Injection,
    Measurement,
    Option,
    Params,
    node_list,
)
from nemesis.faults.network.cuts import PacketDropFault
from nemesis.hosts import CLIENTS, PROGRAM, Cut, Hosts

EVERY: Final = "all"


def _instance(text: str) -> str:
    if text != EVERY and not (text.isdigit() and 1 <= int(text) <= 100):
        raise ValueError("it is a number from 1 to 100, or all")
    return text


INSTANCE: Final = Option(
    name="instance",
    default="1",
    about="which process of the program: its number, from 1, or all",
    read=_instance,
)


OFFSET: Final = Option(
    name="offset_ms",
    default=ANY,
    about="how far ahead the clock is, ms (negative: behind), or any",
    read=read_offset_or_any,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFault(FaultBase):
    """The common parts: which instances are hit, and their names."""

    needs: frozenset[Ability] = frozenset({Ability.PROGRAM_SIGNALS})
    options: tuple[Option, ...] = (INSTANCE,)
    default_selector: str = "clients"
    selectable: bool = False

    def label(self, injection: Injection) -> str:
        """For example `app.kill instance 2`."""
        return f"{self.name} {_named(injection)}"

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The instance, with a tag of this injection."""
        return Injection(details=(*sorted(params.values.items()), new_tag(rng)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KillProgram(ProgramFault):
    """SIGKILL; the supervisor starts the instance again at the heal."""

    name: str = "app.kill"
    about: str = "SIGKILL to an instance of the tested program; it starts again at the heal"

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Kill the instances. Raises NotApplicable if none of them is running."""
        _require_running(hosts, injection)
        for each in _hit(hosts, injection):
            hosts.programs.kill(each, injection.detail(TAG))

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the processes are gone."""
        left = [each for each in _hit(hosts, injection) if hosts.programs.states(each)]
        if left:
            return Measurement(confirmed=False, evidence=f"instance {_list(left)} still runs")
        return Measurement(confirmed=True, evidence=f"process of {_named(injection)} gone")

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Let the supervisor start the instances that no other fault keeps down."""
        for each in _hit(hosts, injection):
            hosts.programs.release(each, injection.detail(TAG))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the instances run, or another fault keeps them down."""
        programs, hit = hosts.programs, _hit(hosts, injection)
        if down := [i for i in hit if not programs.pid(i) and not programs.is_kept_down(i)]:
            return Measurement(confirmed=False, evidence=f"instance {_list(down)} does not run")
        return Measurement(confirmed=True, evidence=f"{_named(injection)} runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseProgram(ProgramFault):
    """SIGSTOP; SIGCONT at the heal."""

    name: str = "app.pause"
    about: str = "SIGSTOP to an instance of the tested program; SIGCONT at the heal"

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Stop the instances. Raises NotApplicable if none of them is running."""
        _require_running(hosts, injection)
        for each in _hit(hosts, injection):
            hosts.programs.pause(each, injection.detail(TAG))

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the kernel reports all their processes as stopped."""
        states = _states(hosts, injection)
        stopped = sum(state == "T" for state in states)
        return Measurement(
            confirmed=bool(states) and stopped == len(states),
            evidence=f"{stopped} of {len(states)} processes of {_named(injection)} in state T",
        )

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Continue the instances that no other fault stops."""
        for each in _hit(hosts, injection):
            hosts.programs.resume(each, injection.detail(TAG))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if no process is stopped any more."""
        stopped = sum(state == "T" for state in _states(hosts, injection))
        if stopped:
            return Measurement(confirmed=False, evidence=f"{stopped} processes are still stopped")
        return Measurement(confirmed=True, evidence=f"{_named(injection)} continues")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewProgram(ProgramFault):
    """Another wall clock; the right one at the heal."""

    name: str = "app.clock"
    about: str = (
        "the wall clock of an instance of the tested program jumps, and back at the heal; "
        "monotonic time stays right"
    )
    needs: frozenset[Ability] = frozenset({Ability.PROGRAM_SIGNALS, Ability.PROGRAM_CLOCKS})
    options: tuple[Option, ...] = (INSTANCE, OFFSET)

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The instance and the offset, with a tag of this injection."""
        details = dict(params.values)
        if details[OFFSET.name] == ANY:
            details[OFFSET.name] = str(rng.choice(JUMPS_MS))
        return Injection(details=(*sorted(details.items()), new_tag(rng)))

    def label(self, injection: Injection) -> str:
        """For example `app.clock instance 2, +60000 ms`."""
        offset_ms = int(injection.detail(OFFSET.name))
        return f"{self.name} {_named(injection)}, {offset_ms:+} ms"

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Set the clocks. Raises NotApplicable if no instance is running."""
        _require_running(hosts, injection)
        for each in _hit(hosts, injection):
            offset_ms = int(injection.detail(OFFSET.name))
            hosts.programs.clocks.skew(each, injection.detail(TAG), offset_ms)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if each clock shows the requested time, and not the time without the fault."""
        return self._measured(hosts, injection, injection.detail(TAG))

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Remove this fault's part of the offset."""
        for each in _hit(hosts, injection):
            hosts.programs.clocks.unskew(each, injection.detail(TAG))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if each clock shows the time without the fault, or its instance is down."""
        return self._measured(hosts, injection, "")

    def _measured(self, hosts: Hosts, injection: Injection, layer: str) -> Measurement:
        """Whether the clocks show the requested time; with a layer: and not that without it."""
        clocks, confirmed, found = hosts.programs.clocks, True, []
        for each in _hit(hosts, injection):
            shown, wanted_ms = clocks.read(each), clocks.requested_offset_ms(each)
            if shown is None:
                confirmed &= not layer
                found.append(f"instance {each} does not run")
                continue
            without_ms = wanted_ms - clocks.requested_offset_ms(each, layer) if layer else None
            confirmed &= shown.allows(wanted_ms)
            confirmed &= without_ms is None or not shown.allows(without_ms)
            middle_s = (shown.least_ms + shown.most_ms) / 2000
            found.append(f"the clock of instance {each} shows {middle_s:+.3f} s")
        return Measurement(confirmed=confirmed and bool(found), evidence="; ".join(found))


def _hit(hosts: Hosts, injection: Injection) -> list[int]:
    """The instances that the injection names and that exist."""
    wanted = injection.detail(INSTANCE.name)
    return [each for each in hosts.programs.instances() if wanted in (EVERY, str(each))]


def _require_running(hosts: Hosts, injection: Injection) -> None:
    if not any(hosts.programs.pid(each) for each in _hit(hosts, injection)):
        raise NotApplicable(f"{_named(injection)} of the tested program was not running")


def _states(hosts: Hosts, injection: Injection) -> list[str]:
    return [s for each in _hit(hosts, injection) for s in hosts.programs.states(each).values()]


def _named(injection: Injection) -> str:
    wanted = injection.detail(INSTANCE.name)
    return "all instances" if wanted == EVERY else f"instance {wanted}"


def _list(instances: Sequence[int]) -> str:
    return ", ".join(map(str, instances))


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProgram(PacketDropFault):
    """Drops all packets between nodes and the program, of all its instances."""

    name: str = "app.cut"
    about: str = (
        "the nodes are cut off from the tested program, but neither from other clients nor from "
        "each other"
    )
    needs: frozenset[Ability] = frozenset(
        {Ability.PROGRAM_SIGNALS, Ability.PROGRAM_CUTS, Ability.PACKET_DROPS}
    )
    default_selector: str = "clients"
    selectable: bool = False

    def label(self, injection: Injection) -> str:
        """For example `app.cut from node 1,2,3`."""
        nodes = sorted({cut.dst for cut in injection.cuts} - {PROGRAM})
        return f"{self.name} from {node_list(nodes)}"

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Both directions of the links to the selected nodes, or to all without any.

        The nodes are not hit: no other client and no node notices.
        """
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        hit = [node for node in selected if node != CLIENTS] or nodes
        ways = [way for node in hit for way in ((PROGRAM, node), (node, PROGRAM))]
        return Injection(cuts=tuple(Cut(src, dst, layer=layer) for src, dst in ways))


FAULTS: Final[tuple[Fault, ...]] = (KillProgram(), PauseProgram(), SkewProgram(), CutProgram())
