"""A program that does nothing: the first process of a container that only holds a network.

The image of the user need not have such a program. It is an ELF file of a few machine instructions
that wait for ever, and needs no library. Pure.
"""

import struct
from collections.abc import Mapping
from typing import Final

_ADDRESS: Final = 0x400000
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_IDENT: Final = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")  # 64 bits, little-endian
_EXECUTABLE: Final = 2
_LOAD: Final = 1
_READ_AND_EXECUTE: Final = 5
_ALIGNMENT: Final = 0x10000  # the largest page size of these machines

_MACHINES: Final[Mapping[str, tuple[int, str]]] = {
    # mov eax, 34 (pause); syscall; jump to the start
    "x86_64": (62, "b822000000 0f05 ebf7"),
    # mov x0 to x4, 0; mov x8, 73 (ppoll without descriptors and time limit); svc 0; to the start
    "aarch64": (
        183,
        "000080d2 010080d2 020080d2 030080d2 040080d2 280980d2 010000d4 f9ffff17",
    ),
}
"""By the name of `platform.machine()`: ELF's number of the machine, and the instructions."""


def idle_program(machine: str) -> bytes | None:
    """Return the ELF file for a machine; None for a machine that has none."""
    if machine not in _MACHINES:
        return None
    number, text = _MACHINES[machine]
    code = bytes.fromhex(text)
    start = _HEADER.size + _SEGMENT.size
    size = start + len(code)
    header = _HEADER.pack(
        *(_IDENT, _EXECUTABLE, number, 1, _ADDRESS + start),
        *(_HEADER.size, 0, 0, _HEADER.size, _SEGMENT.size, 1, 0, 0, 0),
    )
    segment = _SEGMENT.pack(_LOAD, _READ_AND_EXECUTE, 0, _ADDRESS, _ADDRESS, size, size, _ALIGNMENT)
    return header + segment + code
