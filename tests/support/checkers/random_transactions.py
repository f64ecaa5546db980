"""Small random histories of transactions that Elle can judge, too.

Every transaction polls first and then sends, so no transaction reads what it wrote itself: in
Elle's model that is allowed, in Kafka's it is not. Some transactions are aborted, and few of them
left their records in the log.
"""

from random import Random

from tests.support.checkers.jepsen_histories import Told

KEYS = (1, 2, 3)


def random_transactions(random: Random) -> Told:
    """Two to eight transactions, some polls beside them, and a poll of all that was written. In
    some histories each transaction is a single send."""
    count = random.randint(2, 8)
    tidy, lone = random.random() < 0.7, random.random() < 0.3
    sends = {
        txn: [random.choice(KEYS)] if lone else _keys(random, once=tidy) for txn in range(count)
    }
    aborted = {txn for txn in range(count) if random.random() < 0.1}
    hidden = {txn for txn in aborted if random.random() < 0.7}
    written = {txn: keys for txn, keys in sends.items() if txn not in hidden}
    logs = _logs(random, written, overlap=not tidy or random.random() < 0.3)
    told = Told()
    for txn in range(count):
        polled = "{}" if lone else _slices(random, logs, txn)
        invoked = " ".join(f"[:send {key} {_value(txn, n)}]" for n, key in enumerate(sends[txn]))
        done = " ".join(
            f"[:send {key} [{logs[key].index(_value(txn, n))} {_value(txn, n)}]]"
            if txn not in aborted
            else f"[:send {key} {_value(txn, n)}]"
            for n, key in enumerate(sends[txn])
        )
        how = "fail" if txn in aborted else "ok"
        told.txn(txn, f"[[:poll] {invoked}]", f"[[:poll {polled}] {done}]", how)
    for process in range(random.randint(0, 4)):
        told.poll(50 + process, _slices(random, logs, None))
    for key, log in logs.items():
        told.poll(90 + key, _polled({key: list(enumerate(log))}))
    return told


def _value(txn: int, number: int) -> int:
    return txn * 10 + number


def _keys(random: Random, *, once: bool) -> list[int]:
    """Where a transaction sends; once: at most one record to each partition."""
    count = random.randint(0, 3)
    return random.sample(KEYS, count) if once else random.choices(KEYS, k=count)


def _logs(random: Random, sends: dict[int, list[int]], *, overlap: bool) -> dict[int, list[int]]:
    """The values of each partition in a random order; those of one transaction in its order.
    overlap: the sends of one transaction may lie between those of another one."""
    left = {txn: list(enumerate(keys)) for txn, keys in sends.items() if keys}
    logs: dict[int, list[int]] = {key: [] for key in KEYS}
    while left:
        txn = random.choice(sorted(left))
        for _ in range(random.randint(1, 3) if overlap else 3):
            if left[txn]:
                number, key = left[txn].pop(0)
                logs[key].append(_value(txn, number))
        if not left[txn]:
            del left[txn]
    return logs


def _slices(random: Random, logs: dict[int, list[int]], reader: int | None) -> str:
    """What a poll may return: of some partitions some part, below what the reader wrote."""
    parts = {}
    for key, log in logs.items():
        own = [n for n, value in enumerate(log) if value // 10 == reader and reader is not None]
        end = min([len(log), *own])
        if end and random.random() < 0.4:
            first = random.randrange(end)
            last = random.randrange(first, end)
            parts[key] = [(n, log[n]) for n in range(first, last + 1)]
    return _polled(parts)


def _polled(parts: dict[int, list[tuple[int, int]]]) -> str:
    told = (
        f"{key} [{' '.join(f'[{offset} {value}]' for offset, value in pairs)}]"
        for key, pairs in parts.items()
        if pairs
    )
    return "{" + ", ".join(told) + "}"
