"""What packages with detectors of their own might declare."""

from dataclasses import replace

from checkers.contract.conditions import ANY
from checkers.contract.rules import Judgement, rule
from checkers.detectors.detector import Detector, Words


def detector(name: str, kind: str) -> Detector:
    """A detector that finds nothing of this kind."""
    return Detector(
        name=name,
        find=lambda _: iter(()),
        lacking=lambda _: None,
        rules=(rule(ANY, kind, Judgement.FORBIDDEN, "so we say", "-"),),
        words={kind: Words("It is odd.", "shows {n} oddity", "shows {n} oddities")},
    )


ONE = detector("one", "odd")
SEVERAL = (detector("first", "strange"), detector("second", "weird"))
SAME_KIND = detector("other", "odd")
NO_RULES = replace(ONE, name="lawless", rules=())
NO_WORDS = replace(ONE, name="mute", words={})
NUMBER = 3
