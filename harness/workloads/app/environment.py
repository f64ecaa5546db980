"""What a tested program is told: variables of its environment, also inside its command. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from harness.workloads.clients.access import AUTHORITY, MECHANISMS, PASSWORD, PROTOCOL, USER

PREFIX: Final = "HIGHWATER_"
BOOTSTRAP: Final = f"{PREFIX}BOOTSTRAP_SERVERS"
INPUT: Final = f"{PREFIX}INPUT_TOPIC"
OUTPUT: Final = f"{PREFIX}OUTPUT"
GROUP: Final = f"{PREFIX}GROUP"
INSTANCE: Final = f"{PREFIX}INSTANCE"
RUN: Final = f"{PREFIX}RUN"
CREDENTIALS: Final[Mapping[str, Sequence[str]]] = {
    f"{PREFIX}SECURITY_PROTOCOL": (PROTOCOL,),
    f"{PREFIX}SASL_MECHANISM": MECHANISMS,
    f"{PREFIX}SASL_USERNAME": (USER,),
    f"{PREFIX}SASL_PASSWORD": (PASSWORD,),
    f"{PREFIX}SSL_CA_LOCATION": (AUTHORITY,),
}
"""How to connect, with the client properties that say it. A variable is empty without one."""
NAMES: Final = (BOOTSTRAP, INPUT, OUTPUT, GROUP, INSTANCE, RUN, *CREDENTIALS)
"""The addresses of the brokers, the topic to read, where to put the output (the name of a topic, a
path, or a URL), the consumer group, the number of this process, from 1, the run's id, and how to
connect."""

_REFERENCE: Final = re.compile(r"\$\{(" + PREFIX + r"\w+)\}")


def credentials(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say how to connect, of client properties."""
    found = {
        variable: next((properties[name] for name in names if name in properties), "")
        for variable, names in CREDENTIALS.items()
    }
    found[f"{PREFIX}SECURITY_PROTOCOL"] = found[f"{PREFIX}SECURITY_PROTOCOL"].upper() or "PLAINTEXT"
    return found


def replaced(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with the values of `${HIGHWATER_...}`. Raises ValueError for another one."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise ValueError(f"there is no variable {match[1]}; there are {', '.join(NAMES)}")
        return variables[match[1]]

    return _REFERENCE.sub(value, text)


def of_instance(
    base: Mapping[str, str], more: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the whole environment of one instance. Raises ValueError."""
    added = {name: replaced(value, variables) for name, value in more.items()}
    return {**base, "PYTHONUNBUFFERED": "1", **variables, **added}


def check(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Check that only known variables are used. Raises ValueError."""
    known = dict.fromkeys(NAMES, "")
    for text in (*command, *environment.values()):
        replaced(text, known)
