"""One late request: it arrives after requests of newer connections, as over a slow path.

A client that gets no answer in time closes its connection, opens another one, and goes on. The
network still has the old request, and delivers it later: so an EndTxn can arrive in the next
transaction (KAFKA-17754), and a produced batch after the abort of its transaction (KIP-890).
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.faults.fault import Ability, Fault, FaultBase, Injection, Measurement, Option, Params
from nemesis.faults.network.options import PORT, choice, chosen_links, number, peers, read_port
from nemesis.hosts import CLIENTS, Hosts
from nemesis.requests import APIS, RequestFilter, SeenRequest, WatchedRequests

ANY: Final = "any"
NONE: Final = "none"
_NAMES: Final[Mapping[int, str]] = {key: name for name, key in APIS.items()}
Link = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDelayed(FaultBase):
    """Holds the first matching request that arrives at one of the nodes, and lets it go later."""

    needs: frozenset[Ability] = frozenset({Ability.LINK_QUALITY})
    default_selector: str = "all"
    selectable: bool = False
    tick_ms: int | None = 50

    def label(self, injection: Injection) -> str:
        """For example `request-delayed EndTxn to nodes 1, 2, 3`."""
        return FaultBase.label(self, injection).replace(
            self.name, f"{self.name} {injection.detail('api')} to", 1
        )

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The links on which the request may arrive."""
        links = chosen_links(selected, nodes, Params({**params.values, "direction": "in"}))
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        details = (*sorted(params.values.items()), ("layer", layer))
        return Injection(nodes=tuple(selected), links=tuple(links), details=details)

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Watch every link. Raises NotApplicable without links."""
        if not injection.links:
            raise NotApplicable("no request could arrive")
        _watch(hosts, injection, injection.links, hold=True)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Hold no second request once one is held; let the held one go when its time has come."""
        layer, seen = injection.detail("layer"), _seen(hosts, injection)
        held = {link: each for link, each in seen.items() if each.held is not None}
        if not held:
            return
        _watch(hosts, injection, [link for link in seen if link not in held], hold=False)
        later = _seen(hosts, injection)
        for link, watched in held.items():
            noted = _noted(link, watched, later)
            if watched.held_ms is None and _may_go(_held(watched), noted, injection):
                hosts.links.let_requests_go([link], layer)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a request was held; the evidence names it and says how long it was held."""
        seen = _seen(hosts, injection)
        held = {link: each for link, each in seen.items() if each.held is not None}
        if not held:
            return Measurement(confirmed=False, evidence="no such request has arrived")
        oldest = max(held, key=lambda link: _held(held[link]).age_ms)
        noted = _noted(oldest, held[oldest], _seen(hosts, injection))
        last = min(noted, key=lambda each: each.age_ms, default=None)
        after = last is not None and last.age_ms < _held(held[oldest]).age_ms
        then = f"; then arrived {_name(last)}" if last and after else ""
        found = "; ".join(_describe(link, each) for link, each in held.items())
        return Measurement(confirmed=True, evidence=found + then)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Let everything go, and watch no longer."""
        hosts.links.unwatch_requests(injection.links, injection.detail("layer"))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if no link is watched any more."""
        if left := list(_seen(hosts, injection)):
            pairs = ", ".join(f"{src}>{dst}" for src, dst in left)
            return Measurement(confirmed=False, evidence=f"still watched: {pairs}")
        return Measurement(confirmed=True, evidence="no request is held any more")


def _watch(hosts: Hosts, injection: Injection, links: Sequence[Link], *, hold: bool) -> None:
    """Watch links for the request to wait for, and for the request to hold if `hold`."""
    if not links:
        return
    until = injection.detail("until")
    hosts.links.watch_requests(
        links,
        injection.detail("layer"),
        read_port(injection.detail("port")),
        _filter(injection, injection.detail("api"), _given(injection, "client")) if hold else None,
        None if until == NONE else _filter(injection, until, ""),
    )


def _filter(injection: Injection, api_name: str, client_id: str) -> RequestFilter:
    return RequestFilter(APIS[api_name], client_id, _given(injection, "id"))


def _given(injection: Injection, name: str) -> str:
    text = injection.detail(name)
    return "" if text == ANY else text


def _seen(hosts: Hosts, injection: Injection) -> dict[Link, WatchedRequests]:
    layer = injection.detail("layer")
    found = {link: hosts.links.watched_requests(link, layer) for link in injection.links}
    return {link: each for link, each in found.items() if each is not None}


def _noted(
    link: Link, watched: WatchedRequests, later: Mapping[Link, WatchedRequests]
) -> list[SeenRequest]:
    """The noted requests of all links, to be compared with the request that a link holds.

    Those of the same link are from the same answer. Ages grow until the other links are asked
    (`later`), so one of theirs that is younger has surely arrived later.
    """
    others = (each for other, each in later.items() if other != link)
    return [*watched.noted, *(seen for each in others for seen in each.noted)]


def _held(watched: WatchedRequests) -> SeenRequest:
    """The request that a link holds, or has held."""
    assert watched.held is not None
    return watched.held


def _may_go(held: SeenRequest, noted: Iterable[SeenRequest], injection: Injection) -> bool:
    """Whether the time of the held request has come."""
    delay_ms = float(injection.detail("delay_ms"))
    if injection.detail("until") == NONE:
        return held.age_ms >= delay_ms
    return any(
        delay_ms <= each.age_ms < held.age_ms and each.name in ("", held.name or each.name)
        for each in noted
    )


def _describe(link: Link, watched: WatchedRequests) -> str:
    source, target = ("clients" if machine == CLIENTS else f"node {machine}" for machine in link)
    state = "is held" if watched.held_ms is None else f"was held for {watched.held_ms:.0f} ms"
    return f"{_name(_held(watched))} from {source} to {target} {state}"


def _name(seen: SeenRequest) -> str:
    """For example `EndTxn v4 of tx-1 (correlation id 7, client producer-1, 10.0.0.9:50112)`."""
    of = f" of {seen.name}" if seen.name else ""
    who = f"correlation id {seen.correlation_id}, client {seen.client_id}, {seen.connection}"
    return f"{_NAMES.get(seen.api_key, seen.api_key)} v{seen.api_version}{of} ({who})"


FAULTS: tuple[Fault, ...] = (
    RequestDelayed(
        name="request-delayed",
        about="one request arrives late, after requests of newer connections (not with TLS)",
        options=(
            Option(
                name="api", default="EndTxn", about="the API of the request", read=choice(*APIS)
            ),
            Option(
                name="until",
                default=NONE,
                about=f"an API: it is held until such a request arrives (of the same transactional "
                f"id or group, if both name one); or {NONE}",
                read=choice(NONE, *APIS),
            ),
            Option(
                name="delay_ms",
                default="2000",
                about="how long it is held, ms: since it arrived, or since what it waits for "
                "arrived; the heal lets it go in any case",
                read=number(0, 3_600_000, "ms"),
            ),
            Option(name="client", default=ANY, about="the client id of the request, or any"),
            Option(
                name="id",
                default=ANY,
                about="the transactional id or the group that the request names, or any",
            ),
            peers("clients"),
            PORT,
        ),
    ),
)
