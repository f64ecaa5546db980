"""The program of a container that only holds a network."""

import platform
import struct
import subprocess
from pathlib import Path

import pytest

from harness.targets.docker.idle_program import idle_program
from harness.targets.linux import kernel, processes


def test_program_waits_until_it_is_killed(tmp_path: Path) -> None:
    """It needs no library and no time of the processor."""
    program = idle_program(platform.machine())
    if program is None:
        pytest.skip("there is none for this machine")
    path = tmp_path / "idle"
    path.write_bytes(program)
    path.chmod(0o755)
    process = subprocess.Popen([path], env={})
    try:
        assert kernel.wait_until(lambda: processes.state_of(process) == "S", 20.0)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
    finally:
        process.kill()
    assert process.wait(20.0) == -9


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_file_is_complete_and_for_the_machine(machine: str, number: int) -> None:
    """The whole file is loaded, and begins after the two headers."""
    program = idle_program(machine)
    assert program is not None
    assert struct.unpack_from("<H", program, 18) == (number,)
    entry, address, size = struct.unpack_from("<24xQ", program) + struct.unpack_from(
        "<80xQ8xQ", program
    )
    assert (entry - address, size) == (64 + 56, len(program))


def test_unknown_machine_has_none() -> None:
    """The caller says so."""
    assert idle_program("s390x") is None
