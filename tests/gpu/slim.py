"""A CUDA wheel without the code of other GPUs, small enough to be carried to a machine.

In its libraries, an entry of a fat binary for another compute capability is overwritten by zeros:
every offset stays, and the zeros take no room in an archive.
"""

import struct
import sys
import zipfile
from pathlib import Path

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # version 1, header of 16 bytes
# Of FlashAttention the third stays: vLLM 0.26 is not imported without either.
LEFT_OUT = ("/vllm-rs", "_vllm_fa2_C.abi3.so", "/cutlass/", "/include/")


def slim(library: bytearray, capability: int) -> None:
    """Zero what is not machine code for a capability (90: 9.0) in the fat binaries of a library."""
    place = library.find(MAGIC)
    while place >= 0:
        entry = place + 16
        end = entry + struct.unpack_from("<Q", library, place + 8)[0]
        while entry < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", library, entry)
            if (kind, struct.unpack_from("<I", library, entry + 28)[0]) != (2, capability):
                library[entry + header : entry + header + size] = bytes(size)
            entry += header + size
        place = library.find(MAGIC, end)


def main(wheel: Path, capability: int, folder: Path) -> None:
    """Unpack a wheel into a folder, slimmed."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/") or any(part in name for part in LEFT_OUT):
                continue
            content = bytearray(archive.read(name))
            if name.endswith(".so"):
                slim(content, capability)
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
