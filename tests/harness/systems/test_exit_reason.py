"""What a process's log tells of its end."""

from pathlib import Path

from harness.systems.exit_reason import last_words


def said(tmp_path: Path, text: str) -> str:
    """What is found in a log of that text."""
    (tmp_path / "node.log").write_text(text)
    return last_words(tmp_path / "node.log")


def test_an_exception_is_the_reason(tmp_path: Path) -> None:
    """Whatever a JVM says about its shutdown after it."""
    text = (
        "INFO starting\n"
        "org.apache.kafka.common.KafkaException: Socket server failed to bind to 1.2.3.4:9092\n"
        "\tat kafka.network.Acceptor.open(SocketServer.scala:1)\n"
        "Caused by: java.net.BindException: Address already in use\n"
        "\t... 3 more\n"
        "INFO shut down completed\n"
    )
    assert said(tmp_path, text) == (
        "org.apache.kafka.common.KafkaException: Socket server failed to bind to 1.2.3.4:9092; "
        "Caused by: java.net.BindException: Address already in use"
    )


def test_without_one_it_is_the_last_line(tmp_path: Path) -> None:
    """Empty ones are none."""
    assert said(tmp_path, "INFO starting\nno such file\n\n") == "no such file"


def test_nothing_said_is_nothing(tmp_path: Path) -> None:
    """Nor is it an error not to have begun."""
    assert said(tmp_path, "") == ""
    assert last_words(tmp_path / "none") == ""
