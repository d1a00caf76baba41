"""Lines in pages and scripts that start a server: what of them can be read."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.recipe.loader import load_published, load_recipe
from sparkwright.recipe.published.draft import NotForUs, Origin
from sparkwright.recipe.published.formats import parts

PAGE = """\
# Serve

Run `vllm serve` so:

```bash
# why
export HF_TOKEN="x"

docker run -it --gpus all -p 8000:8000 \\
  -e HF_TOKEN="$HF_TOKEN" -e VLLM_USE_V2_MODEL_RUNNER=1 \\
  -v ~/.cache/huggingface:/root/.cache/huggingface \\
  vllm/vllm-openai:v0.28.0 \\
  owner/Model-30B \\
  --port 8000 \\
  --max-model-len 4096
```

1. Or, in a list:

   ```bash
   docker run --rm example.org/vllm:26.04 \\
     vllm serve owner/Model-30B --seed 1
   ```

```python
"vllm serve owner/None"
```

```
docker exec -it x bash -c '
  vllm serve owner/Model-200B \\
    --tensor-parallel-size 4'
docker exec -it x bash -c 'vllm serve owner/Model-3B'
docker run a/b vllm serve ${MODEL}
docker run a/vllm:${VERSION} vllm serve owner/Model-4B
docker run -v $(pwd)/x.py:/app/x.py a/b vllm serve owner/Model-5B
docker run --entrypoint /bin/bash a/b:1 -c "exec vllm serve owner/Model-6B --seed 2"
docker run a/b bash
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "vllm/README.md"
    path.parent.mkdir()
    path.write_text(PAGE)
    return path


def test_the_lines_of_a_page(page):
    assert parts(page) == [
        *("model-30b", "model-30b-2", "model-200b", "model-3b", "serve", "model-4b", "model-5b"),
        "model-6b",
    ]


def test_the_entrypoint_of_vllms_images(page):
    recipe = load_published(page, "model-30b", Origin(page))
    assert (recipe.name, recipe.image, recipe.vllm) == (
        *("model-30b", "vllm/vllm-openai:v0.28.0"),
        "0.28.0",
    )
    assert recipe.args == {"max-model-len": 4096}
    assert recipe.env == {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert recipe.sparks == [1]
    assert load_published(page, "model-30b-2", Origin(page)).args == {"seed": 1}
    assert load_published(page, "model-6b", Origin(page)).args == {"seed": 2}


@pytest.mark.parametrize(
    ("part", "line", "told"),
    [
        ("model-3b", 33, "found no docker run that names its image"),
        ("serve", 34, "found ${MODEL}, which a shell expands"),
        ("model-4b", 35, "found the image a/vllm:${VERSION}, which a shell expands"),
        ("model-5b", 36, "found -v $(pwd)/x.py:/app/x.py; expected a container without folders"),
        ("x", None, "found no command x; expected one of"),
    ],
)
def test_what_a_reader_has_to_put_in(page, part, line, told):
    with pytest.raises(PlanError) as error:
        load_published(page, part, Origin(page))
    assert str(error.value).startswith(f"{page}:{line}: " if line else f"{page}: ")
    assert told in str(error.value)


def test_what_is_for_others(page):
    with pytest.raises(NotForUs) as error:
        load_published(page, "model-200b", Origin(page))
    assert error.value.reason == "more than two Sparks"
    assert str(error.value).startswith(f"{page}:32: ")
    station = page.parent.parent / "station-vllm/README.md"
    station.parent.mkdir()
    station.write_text(PAGE)
    with pytest.raises(NotForUs, match="found a playbook for a DGX Station"):
        load_published(station, "model-30b", Origin(station))


def test_a_script_by_its_path(tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/sh\ndocker run vllm/vllm-openai:v0.28.0 owner/Model-7B --uds /x\n")
    with pytest.raises(PlanError, match=f"{script}:2: args.uds: found it set"):
        load_recipe(str(script))
    script.write_text("docker run a/b vllm serve m/a\ndocker run a/b vllm serve m/b\n")
    with pytest.raises(PlanError, match="found 2 commands; expected one by name: a, b"):
        load_recipe(str(script))
