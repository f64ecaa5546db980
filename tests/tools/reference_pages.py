"""Writes the pages of the documentation that come from the code.

    python -m tests.tools.reference_pages [--check]

Without `--check` the pages are written; with it, exit code 1 says that one of them is out of date.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.plans.plan import Plan
from tests.tools.api_reference import api_page
from tests.tools.command_reference import commands_page
from tests.tools.contract_reference import contract_page
from tests.tools.fault_reference import faults_page
from tests.tools.notebooks import notebook_page, notebooks

DOCS: Final = Path(__file__).parents[2] / "docs"

Schema = Mapping[str, Any]

TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "Plan": ("Top level", ""),
    "Topic": ("Topics", "[[topics]]"),
    "Workload": ("Workload", "[workload]"),
    "GroupWorkload": ("Further workload: a consumer group", "[[workload]]"),
    "CopyWorkload": ("Further workload: copies", "[[workload]]"),
    "TransactionWorkload": ("Further workload: transactions", "[[workload]]"),
    "CompactedWorkload": ("Further workload: compacted topics", "[[workload]]"),
    "AppWorkload": ("Further workload: a tested program", "[[workload]]"),
    "Output": ("The output of a tested program", "[workload.sink]"),
    "WorkloadKind": ("Further workload: a kind of another package", "[[workload]]"),
    "Nemesis": ("Faults", "[nemesis]"),
    "Event": ("Scripted faults", "[[nemesis.events]]"),
    "FaultMix": ("One fault of a random mix", '[nemesis.mix."kill"]'),
    "QuietPeriods": ("Periods without faults", "[nemesis.quiet]"),
    "Simulated": ("Simulated networks and disks", "[simulated]"),
    "External": ("A cluster that somebody else runs", "[external]"),
}
"""Model -> (heading, how the table is written in TOML)."""

INTRODUCTIONS: Final[Mapping[str, Sequence[str]]] = {
    "WorkloadKind": (
        "[Another package](../guides/add-a-workload-kind.md) declares the kind and its own keys,",
        "which `highwater plugins` prints. All such kinds have these keys:",
    ),
}
"""Model -> what stands above its table."""

EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "Plan": {
        "name": "my-plan",
        "seed": 7,
        "target": "docker",
        "inventory": "lab.toml",
        "system": "kafka",
        "kafka_home": "/opt/kafka",
        "nodes": 5,
        "control_plane": "zookeeper",
        "zookeepers": 5,
        "racks": ["a", "b"],
        "broker_module": "nodes",
        "broker": {"replica.lag.time.max.ms": 5000},
        "warmup_s": 10,
        "duration_s": 300,
        "start_timeout_s": 60,
        "settle_timeout_s": 60,
        "rotate_s": 600,
        "expect": {"lost.acks-all": "= 0"},
    },
    "Topic": {
        "name": "orders",
        "acks": "all",
        "partitions": 6,
        "replication_factor": 3,
        "min_insync_replicas": 2,
        "idempotence": True,
        "configs": {"segment.bytes": "1048576"},
    },
    "Workload": {
        "client": "aiokafka",
        "client_command": ["./my-client"],
        "topics": ["orders"],
        "producers": 2,
        "consumers": 1,
        "rate_per_s": 200,
        "value_bytes": 128,
        "max_in_flight": 1000,
        "linger_ms": 2,
        "message_timeout_ms": 10_000,
        "sends_per_producer": 100,
        "payload": "text",
        "insists": True,
        "zombie_batches": True,
    },
    "GroupWorkload": {
        "kind": "group",
        "topic": "orders",
        "topics": ["orders", "payments"],
        "processing": "at-most-once",
        "isolation": "read_uncommitted",
        "client": "own",
        "client_command": ["./my-client"],
        "group": "readers",
        "members": 3,
        "protocol": "consumer",
        "static": True,
        "session_timeout_ms": 10_000,
        "member_life_s": 30,
    },
    "CopyWorkload": {
        "kind": "copy",
        "input": "orders",
        "inputs": ["orders", "payments"],
        "output": "copies",
        "processing": "at-least-once",
        "group_metadata": False,
        "value_bytes": 128,
        "transaction_timeout_ms": 20_000,
        "client": "own",
        "client_command": ["./my-client"],
        "group": "readers",
        "members": 3,
        "protocol": "consumer",
        "static": True,
        "session_timeout_ms": 10_000,
        "member_life_s": 30,
    },
    "TransactionWorkload": {
        "kind": "transactions",
        "client": "own",
        "client_command": ["./my-client"],
        "topics": ["orders"],
        "producers": 3,
        "consumers": 2,
        "rate_per_s": 50,
        "records": 10,
        "partitions": 3,
        "topics_each": 2,
        "abort_share": 0.5,
        "open_share": 0.1,
        "value_bytes": 128,
        "transaction_timeout_ms": 20_000,
    },
    "CompactedWorkload": {
        "kind": "compacted",
        "client": "own",
        "topics": ["accounts"],
        "producers": 3,
        "rate_per_s": 500,
        "keys": 4,
        "sends_per_key": 100,
        "delete_share": 0.5,
        "value_bytes": 256,
        "passes_every_s": 2.0,
    },
    "AppWorkload": {
        "kind": "app",
        "client": "librdkafka",
        "group": "billing",
        "command": ["python", "app.py"],
        "image": "bills:1",
        "directory": "/home/me/billing",
        "environment": {"SERVERS": "${HIGHWATER_BOOTSTRAP_SERVERS}"},
        "instances": 2,
        "input": "orders",
        "processing": "exactly-once",
        "ordered_by": "key",
        "lag_s": 60,
        "stop_s": 20,
    },
    "Output": {
        "topic": "bills",
        "partitions": 8,
        "replication_factor": 1,
        "file": "bills.txt",
        "sql": "sqlite:///bills.db",
        "query": "SELECT * FROM bills",
        "http": True,
        "value": "number",
        "pattern": "order=(\\S+)",
        "ignore": "^#",
    },
    "WorkloadKind": {
        "kind": "ping-pong",
        "client": "librdkafka",
        "value_bytes": 1000,
    },
    "Nemesis": {
        "faults": ["kill", "partition.*"],
        "targets": ["leader", "one"],
        "interval_ms": [2000, 6000],
        "rate_per_min": 6,
        "duration_ms": [2000, 8000],
        "overlap": 2,
        "burst": [1, 3],
        "majority": True,
        "mode": "auto",
    },
    "Event": {
        "name": "cut",
        "at_ms": 2000,
        "fault": "partition.isolate-leader",
        "targets": "leader:orders/0",
        "duration_ms": 8000,
        "params": {"direction": "in"},
        "until": "isr:orders/0 size 2",
        "until_timeout_ms": 10_000,
        "nodes": [1, 3],
    },
    "FaultMix": {
        "weight": 3,
        "targets": ["leader"],
        "duration_ms": [1000, 4000],
        "params": {"delay_ms": [20, 200]},
    },
    "QuietPeriods": {"every_ms": 60_000, "for_ms": 20_000},
    "Simulated": {
        "latency_ms": [0.1, 0.6],
        "jitter_ms": [0.02, 0.4],
        "sync_ms": [0.2, 2.0],
        "lookups_per_s": 2.0,
        "group_members": 2,
        "transactional_producers": 3,
        "impatient_producers": 2,
        "compacting_producers": 2,
        "offset_keepers": 3,
        "unusual_producers": 2,
        "repeats": True,
        "pauses": True,
        "broker_keys": True,
        "failover_at_end": True,
        "administration_at_end": True,
    },
    "External": {
        "bootstrap_servers": "kafka-1:9092,kafka-2:9092",
        "properties": {"security.protocol": "SSL"},
    },
}
"""Model -> key -> a value that is not the default."""

NOT_WRITTEN: Final = {
    ("Event", "id"),
    ("Plan", "more_workloads"),
    ("WorkloadKind", "topics"),
    ("CompactedWorkload", "client_command"),
}
"""Keys that the harness sets."""


def pages() -> dict[Path, str]:
    """Path -> text of every page that comes from the code."""
    return {
        DOCS / "reference" / "plan.md": plan_page(),
        DOCS / "reference" / "commands.md": commands_page(),
        DOCS / "reference" / "contract.md": contract_page(),
        DOCS / "reference" / "api.md": api_page(),
        DOCS / "faults.md": faults_page(),
        **{path.with_suffix(".md"): notebook_page(path) for path in notebooks()},
    }


def plan_page() -> str:
    """Every key of a plan: its type, its default, what it means, an example."""
    whole = Plan.model_json_schema()
    models = {"Plan": whole, **whole["$defs"]}
    lines = [
        "# Plan reference",
        "",
        "A plan is a TOML file. `highwater run PLAN` runs it, `highwater run PLAN --dry-run` shows",
        "what it would do, and `highwater simulate PLAN` runs it in a simulated cluster. Every key",
        "has a default unless it is marked as required. Flags of the command line replace what the",
        "plan says. An unknown key or an impossible value is refused before anything starts.",
        "",
        "This page is made from the code by `python -m tests.tools.reference_pages`.",
    ]
    for name, (heading, toml) in TABLES.items():
        lines += ["", f"## {heading}" + (f": `{toml}`" if toml else ""), ""]
        if name in INTRODUCTIONS:
            lines += [*INTRODUCTIONS[name], ""]
        lines += ["| key | type | default | meaning | example |", "|---|---|---|---|---|"]
        lines += rows(name, models[name], models)
    return "\n".join(lines) + "\n"


def rows(name: str, model: Schema, models: Mapping[str, Schema]) -> Iterator[str]:
    """A table row for each key of one model."""
    required = model.get("required", [])
    for key, schema in model["properties"].items():
        if (name, key) in NOT_WRITTEN:
            continue
        default = "required" if key in required else _value(schema.get("default"))
        if key == "seed":
            default = "random"
        section = _section(schema)
        example = "" if section else f"`{key} = {_toml(EXAMPLES[name][key])}`"
        kind = f"see [{TABLES[section][0]}](#{_anchor(section)})" if section else _type(schema)
        if section:
            default = ""
        meaning = " ".join(schema.get("description", "").split()).replace("|", "\\|")
        yield f"| `{key}` | {kind} | {default} | {meaning} | {example} |"


def _section(schema: Schema) -> str | None:
    """The model whose table this key is, if it is one."""
    found = json.dumps(schema)
    return next((name for name in TABLES if f'"#/$defs/{name}"' in found), None)


def _anchor(name: str) -> str:
    heading, toml = TABLES[name]
    text = f"{heading}: {toml}" if toml else heading
    return "".join(c for c in text.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _type(schema: Schema) -> str:
    match schema:
        case {"anyOf": [first, {"type": "null"}]}:
            return _type(first)
        case {"anyOf": several}:
            return " or ".join(dict.fromkeys(map(_type, several)))
        case {"const": value}:
            return f"`{_written(value)}`"
        case {"enum": values}:
            return "one of " + ", ".join(f"`{_written(value)}`" for value in values)
        case {"type": "array", "prefixItems": [first, _]}:
            return f"[least, greatest]: {_type(first)}"
        case {"type": "array", "items": items}:
            return f"list: {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"table: {_type(values)}"
        case {"type": "string", "pattern": pattern}:
            escaped = pattern.replace("|", "\\|")
            return f"text, as `{escaped}`"
        case {"type": "boolean"}:
            return "`true` or `false`"
        case {"type": ("integer" | "number") as kind}:
            return ("whole number" if kind == "integer" else "number") + _bounds(schema)
        case {"type": "string"}:
            return "text"
    return "any"


def _written(value: object) -> str:
    return "all" if value == -1 else str(value)


def _bounds(schema: Schema) -> str:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum")
    if least is None and most is None:
        return ""
    above = "more than " if "exclusiveMinimum" in schema else ""
    return f", {above}{least:,} to {most:,}" if most is not None else f", {above}{least:,} or more"


def _value(value: object) -> str:
    if value is None or value in ([], {}, ""):
        return "none"
    return f"`{_toml(value)}`"


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case dict():
            inner = ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items())
            return f"{{ {inner} }}"
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return json.dumps(value)
    return str(value)


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    stale = [
        path for path, text in pages().items() if not path.exists() or path.read_text() != text
    ]
    for path in stale:
        print(f"{path.relative_to(DOCS.parent)} {'is out of date' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages()[path])
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
