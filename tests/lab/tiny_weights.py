"""Random BF16 tensors that are the same everywhere, and the safetensors files that hold them."""

import hashlib
import json
import math
import struct
from pathlib import Path

Tensor = tuple[list[int], bytes]  # shape, and content as the file holds it
Tensors = dict[str, Tensor]


def random(name: str, *shape: int) -> Tensor:
    """Return a BF16 tensor, uniform in +-0.035: standard deviation 0.02, as models are initialised.

    A SHAKE-256 stream of the name gives one byte a value; a table of 256 BF16 values turns it into
    the two bytes of that value.
    """
    values = [struct.pack("<f", (byte / 127.5 - 1) * 0.035)[2:] for byte in range(256)]
    stream = hashlib.shake_256(name.encode()).digest(math.prod(shape))
    content = bytearray(2 * len(stream))
    content[0::2] = stream.translate(bytes(value[0] for value in values))
    content[1::2] = stream.translate(bytes(value[1] for value in values))
    return list(shape), bytes(content)


def zeros(*shape: int) -> Tensor:
    """Return a BF16 tensor of zeros."""
    return list(shape), b"\x00\x00" * math.prod(shape)


def ones(*shape: int) -> Tensor:
    """Return a BF16 tensor of ones."""
    return list(shape), b"\x80\x3f" * math.prod(shape)


def linear(name: str, outputs: int, inputs: int, bias: bool = False) -> Tensors:
    """Return the weight of a linear layer, and a bias of zeros if it has one."""
    tensors = {f"{name}.weight": random(name, outputs, inputs)}
    return tensors | ({f"{name}.bias": zeros(outputs)} if bias else {})


def write_safetensors(path: Path, tensors: Tensors) -> None:
    """Write a safetensors file: length of the header (8 bytes), header (JSON), then all data."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (shape, content) in tensors.items():
        start, end = end, end + len(content)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(content for _, content in tensors.values())


def write_shards(folder: Path, tensors: Tensors, shard_size: int) -> None:
    """Write tensors into several files of about shard_size bytes, and the index that names them."""
    shards: list[Tensors] = [{}]
    for name, tensor in tensors.items():
        if sum(len(content) for _, content in shards[-1].values()) >= shard_size:
            shards.append({})
        shards[-1][name] = tensor
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_safetensors(folder / file, shard)
        weight_map |= dict.fromkeys(shard, file)
    size = sum(len(content) for _, content in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
