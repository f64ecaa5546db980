"""Plays the schedules on the unmodified broker, which must pass, and on their mutants."""

import argparse
import logging
import time

from harness.zoo import mutants
from harness.zoo.schedules import SCHEDULES


def outcome(name: str, seed: int) -> str:
    """Return the failure of a schedule; an empty text if nothing failed."""
    try:
        SCHEDULES[name].run(seed)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """See the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0..4")
    parser.add_argument("names", nargs="*", default=[])
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    first, _, last = arguments.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    for name in arguments.names or SCHEDULES:
        began = time.process_time()
        failed = {seed: text for seed in seeds if (text := outcome(name, seed))}
        undo = mutants.load(name).apply()
        try:
            broken = {seed: outcome(name, seed) for seed in seeds}
        finally:
            undo()
        caught = {seed: text for seed, text in broken.items() if text}
        print(
            f"{name}: unmodified broker passed {len(seeds) - len(failed)} of {len(seeds)}, mutant "
            f"caught in {len(caught)} of {len(seeds)}; {time.process_time() - began:.1f} s"
        )
        for seed, why in [*list(failed.items())[:2], *list(caught.items())[:1]]:
            print(f"    seed {seed}: {why}", flush=True)


if __name__ == "__main__":
    main()
