"""What a process's log tells of its end."""

from pathlib import Path

from harness.recording.exit_reason import read_exit_reason


def said(tmp_path: Path, text: str) -> str:
    """What is found in a log of that text."""
    (tmp_path / "node.log").write_text(text)
    return read_exit_reason(tmp_path / "node.log")


def test_last_exception_is_the_reason(tmp_path: Path) -> None:
    """Lines that a JVM logs about its shutdown do not count."""
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


def test_without_an_exception_the_last_line_is_the_reason(tmp_path: Path) -> None:
    """Empty lines do not count."""
    assert said(tmp_path, "INFO starting\nno such file\n\n") == "no such file"


def test_empty_or_missing_log_gives_no_reason(tmp_path: Path) -> None:
    """A missing log is no error."""
    assert said(tmp_path, "") == ""
    assert read_exit_reason(tmp_path / "none") == ""
