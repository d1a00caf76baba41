"""A checkpoint in the shapes of Qwen3.6-35B-A3B in FP8 (37.5 GB), with random weights.

The lab's tiny model has the same layers; here they get the real sizes. What is written is cut out
of one block of random bytes, so the disk is the limit.
"""

import json
import math
import random
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.lab import tiny_model, tiny_tokenizer, tiny_weights

VOCABULARY = 248_320
SIZES = {
    "HIDDEN": 2048, "LAYERS": 40, "HEADS": 16, "KV_HEADS": 2, "HEAD_DIM": 256,
    "LINEAR_KEY_HEADS": 16, "LINEAR_VALUE_HEADS": 32, "EXPERTS": 256, "EXPERTS_PER_TOKEN": 8,
    "EXPERT_SIZE": 512, "VISION_HIDDEN": 1152, "VISION_DEPTH": 27, "VISION_POSITIONS": 2304,
    "VOCABULARY": VOCABULARY,
}  # fmt: skip
VISION_SIZE, VISION_HEADS = 4304, 16
FULL_ATTENTION_INTERVAL = 4
BLOCK = 128  # rows and columns that share a scale
FILES = 15
PARTS = ("qkv", "z", "q", "k", "v", "o", "out", "gate", "up", "down")
FP8_LAYERS = tuple(f"{part}_proj.weight" for part in PARTS) + tuple(
    f"in_proj_{part}.weight" for part in PARTS[:2]
)

Spec = tuple[str, list[int], str]  # name, shape, type as safetensors has it


def specs() -> Iterator[Spec]:
    """Yield what the checkpoint holds."""
    tensors = tiny_model._model_tensors()
    for index in range(SIZES["LAYERS"]):  # the tiny model has one block of layers
        layer = f"model.language_model.layers.{index}"
        full = index % FULL_ATTENTION_INTERVAL == FULL_ATTENTION_INTERVAL - 1
        tensors = {name: spec for name, spec in tensors.items() if not name.startswith(f"{layer}.")}
        tensors |= tiny_model._layer(layer, full)
    for name, (shape, _) in tensors.items():
        vision = ".visual." in name
        if vision and ".mlp." in name:
            shape = [VISION_SIZE if size == 2 * SIZES["VISION_HIDDEN"] else size for size in shape]
        if vision or not name.endswith(FP8_LAYERS):
            yield name, shape, "BF16"
        else:
            yield name, shape, "F8_E4M3"
            yield f"{name}_scale_inv", [-(-size // BLOCK) for size in shape], "BF16"


def write_file(path: Path, tensors: list[Spec], seed: int) -> None:
    """Write a safetensors file, of weights such that a layer keeps the size of its input."""
    numbers = random.Random(seed)
    pool = numbers.randbytes(1 << 26)
    # BF16 in +-0.035; FP8 without its two values that are no number.
    low, high = zip(
        *(struct.pack("<f", (b / 127.5 - 1) * 0.035)[2:] for b in range(256)), strict=True
    )
    half = bytearray(2 * len(pool))
    half[0::2], half[1::2] = pool.translate(bytes(low)), pool.translate(bytes(high))
    eight = pool.translate(bytes(b if b & 0x7F != 0x7F else b - 1 for b in range(256)))
    header: dict[str, object] = {}
    end = 0
    for name, shape, kind in tensors:
        start, end = end, end + math.prod(shape) * (1 if kind == "F8_E4M3" else 2)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape, kind in tensors:
            if name.endswith("scale_inv"):
                file.write(struct.pack("<f", 2.0**-12)[2:] * math.prod(shape))
                continue
            source = memoryview(eight if kind == "F8_E4M3" else half)
            left = math.prod(shape) * (1 if kind == "F8_E4M3" else 2)
            while left:
                place = numbers.randrange(0, len(source) // 2) & ~1
                part = source[place : place + left]
                file.write(part)
                left -= len(part)


def tokenizer() -> dict[str, object]:
    """Return a byte-level tokenizer of the real one's size, whose words are made up."""
    numbers = random.Random(1)
    content: dict = tiny_tokenizer.tokenizer()
    words, merges = content["model"]["vocab"], content["model"]["merges"]
    short = [word for word in words if word.isascii() and len(word) < 6]
    wanted = VOCABULARY - len(tiny_tokenizer.MARKUP_TOKENS)
    while len(words) < wanted:
        pair = numbers.choice(short), numbers.choice(short)
        if (word := "".join(pair)) not in words:
            words[word] = len(words)
            merges.append(pair)
            short += [word] * (len(word) < 6)
    markup = [token for token in content["added_tokens"] if not token["special"]]
    for index, token in enumerate(markup, len(words)):
        token["id"] = index
    return content


def main(folder: Path) -> None:
    """Write the checkpoint into a folder, which is made."""
    for name, value in SIZES.items():
        setattr(tiny_model, name, value)
    for module in (tiny_model, tiny_weights):  # shapes alone
        module.random = lambda _, *shape: (list(shape), b"")
        module.zeros = module.ones = lambda *shape: (list(shape), b"")
    tiny_model._head = lambda: ([VOCABULARY, SIZES["HIDDEN"]], b"")
    folder.mkdir(parents=True)
    tensors = list(specs())
    config: dict = tiny_model._model_config()
    layers = ["linear_attention"] * (FULL_ATTENTION_INTERVAL - 1) + ["full_attention"]
    config["text_config"] |= {
        "layer_types": layers * (SIZES["LAYERS"] // FULL_ATTENTION_INTERVAL),
        "full_attention_interval": FULL_ATTENTION_INTERVAL,
        "rope_parameters": config["text_config"]["rope_parameters"]
        | {"mrope_section": [11, 11, 10]},
    }
    config["vision_config"] |= {"intermediate_size": VISION_SIZE, "num_heads": VISION_HEADS}
    plain = [name.removesuffix(".weight") for name, _, kind in tensors if kind == "BF16"]
    config["quantization_config"] = {
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
        "weight_block_size": [BLOCK, BLOCK],
        "modules_to_not_convert": [name for name in plain if not name.endswith("scale_inv")],
    }  # fmt: skip
    for name, content in {
        "config.json": config,
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": tiny_tokenizer.config(tiny_model.CONTEXT),
        "generation_config.json": {"eos_token_id": tiny_model.END},
        "preprocessor_config.json": tiny_model._image_config(),
    }.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "chat_template.jinja").write_text(tiny_tokenizer.CHAT_TEMPLATE)
    per_file = -(-len(tensors) // FILES)
    files = {
        f"model-{number + 1:05}-of-{FILES:05}.safetensors": tensors[number * per_file :][:per_file]
        for number in range(FILES)
    }
    index = {tensor[0]: name for name, part in files.items() for tensor in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    with ProcessPoolExecutor() as pool:
        work = [pool.submit(write_file, folder / n, p, i) for i, (n, p) in enumerate(files.items())]
    for done in work:
        done.result()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
