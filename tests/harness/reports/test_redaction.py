"""Secrets do not get into a page; what is none stays."""

import pytest

from harness.reports.redaction import HIDDEN, redacted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sasl.password=hunter2 and more", f"sasl.password={HIDDEN} and more"),
        ('PlainLoginModule required username="a" password="b c" user_eve="d";',
         f'PlainLoginModule required username="a" password={HIDDEN} user_eve={HIDDEN};'),
        ("kafka://me:hunter2@host:9092/", f"kafka://me:{HIDDEN}@host:9092/"),
        ("Authorization: Bearer abcdefgh.1234", f"Authorization: Bearer {HIDDEN}"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- y", f"{HIDDEN} y"),
        ("node 2 lost the password file", "node 2 lost the password file"),
        ("leader epoch 5, offset 371", "leader epoch 5, offset 371"),
    ],
)  # fmt: skip
def test_texts(text: str, expected: str) -> None:
    """What is assigned to a secret's name, passwords in addresses, tokens, keys."""
    assert redacted(text) == expected


def test_what_a_name_says_is_secret() -> None:
    """Whatever it holds, however deep; what is empty tells nothing."""
    found = redacted(
        {"broker": {"ssl.key.password": "x", "sasl.jaas.config": ["y"], "seed": 7, "token": ""},
         "rows": [{"API_KEY": 5}, "password: z"]}
    )  # fmt: skip
    assert found == {
        "broker": {"ssl.key.password": HIDDEN, "sasl.jaas.config": HIDDEN, "seed": 7, "token": ""},
        "rows": [{"API_KEY": HIDDEN}, f"password: {HIDDEN}"],
    }
