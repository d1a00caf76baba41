"""What pages state, such as a number, is what the code has: on every page that states it."""

import math
import re
import tempfile
import tomllib
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path

import pytest
import yaml

from host.common import probe
from host.door.door import HOLD
from host.engine import crash_guard
from host.engine.switch.candidate import MARGIN
from sparkwright.cli.main import cli
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.common.ports import EXPORTER_PORT, METRICS_PORT
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Gateway, Replica
from sparkwright.declared.fleet.settings import LONGEST_HOLD, Settings
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.door.authority import LIFE, RENEWAL
from sparkwright.machine.preflight.preflight import IMAGE_DISK_FACTOR, UNPACKED
from sparkwright.plan.causes.thresholds import EARLYOOM, FAULT_MHZ, FAULT_WATTS, MEMORY_LOW
from sparkwright.plan.memory.check import LEAST, WANTED
from sparkwright.run.lease import SILENCE
from tests.docs.runs import IMAGE, weights
from tests.lab.engine_image import VLLM
from tests.unit.docs.pages import DOCS, PAGES, PROJECT, fences

SETTINGS = Settings()
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load((PROJECT / "files/host/insight/monitoring/alerts.yml").read_text())[
        "groups"
    ]
    for rule in group["rules"]
}
NAMED = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NAMED += ["eleven", "twelve", "thirteen", "fourteen", "fifteen"]

RELEASES = yaml.safe_load((PROJECT / "sparkwright/declared/recipe/vllm_names.yaml").read_text())[
    "releases"
]

# The changelog has former values; a recorded run is what it was.
TEXTS = {
    str(path.relative_to(PROJECT)): " ".join(path.read_text().split())
    for path in [*PAGES, *(PROJECT / "deploys").glob("*.py")]
    if path.name not in ("CHANGELOG.md", "first-run.md")
}


def _stated(page: str, pattern: str) -> str:
    """Return what one place says that others repeat."""
    found = re.search(pattern, TEXTS[page])
    return found[1] if found else f"what {page} does not say: {pattern}"


def _serves_two() -> str:
    """Answer whether an inventory may put a Spark into two replicas."""
    (example, *_) = fences((DOCS / "two-models.md").read_text(), "yaml")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sparks.yaml"
        path.write_text(example)
        try:
            return "Yes" if load_fleet(path) else "No"
        except PlanError:
            return "No"


def _starts() -> int:
    """Return after how many starts within an hour systemd gives up."""
    unit = (PROJECT / "files/host/engine/vllm@.service").read_text()
    assert "StartLimitIntervalSec=1h" in unit
    return int(unit.partition("StartLimitBurst=")[2].split()[0])


def _disk(recipe: str) -> int:
    needed = weights(recipe) + IMAGE * IMAGE_DISK_FACTOR + SETTINGS.disk_headroom_gib * GIB
    return 5 * math.ceil(needed / 1e9 / 5)


def _figure(recipe: str, workload: str, metric: str) -> str:
    return f"{load_recipe(recipe).expected[workload][metric]:.0f}"


def _longest_start() -> str:
    recipes = [load_recipe(name) for name in recipe_names()]
    seconds = max(each.for_sparks(count).start_timeout for each in recipes for count in each.sparks)
    return f"{seconds / 60:.0f}"


FASTEST, MIXED = "qwen3.6-35b-nvfp4-dflash", "qwen3.5-122b-nvfp4-mtp"
FIRST, SECOND = "qwen3.6-35b-nvidia", "qwen3.5-122b-nvidia"
# What is stated: its value in the code (or on the one page that the others repeat), and the words
# around it, of which each group is the value as a page has it.
FACTS: list[tuple[object, str]] = [
    (_serves_two(), r"Can one Spark serve two models\?\*\* (\w+)"),
    (
        _stated("docs/benchmark.md", r"it takes (\d+) minutes at the speeds of AEON-7"),
        r"deliver[;?] [Tt]akes (\d+) to \d+ minutes",
    ),
    (
        _stated("docs/benchmark.md", r"AEON-7, (\d+) at those of docai\.hu"),
        r"deliver[;?] [Tt]akes \d+ to (\d+) minutes",
    ),
    (
        SETTINGS.keep_releases,
        r"Previous releases that stay \((?:default: the setting keep_releases, )?(\d+)",
    ),
    (
        next(each.default for each in cli.commands["rollout"].params if each.name == "soak"),
        r"for `--soak` seconds \((\d+)\)|wave must hold \((\d+)\)",
    ),
    (
        Replica.model_fields["port"].default,
        r"reach port (\d+), the door|the head's port (\d+)|only the door\*\*: port (\d+)"
        r"|replica's `port` \((\d+)\)",
    ),
    (
        Gateway.model_fields["port"].default,
        r"gateway: \{spark: spark-a, port: (\d+)\}|:(\d+)/v1/models -H",
    ),
    (METRICS_PORT, r"of the fabric \(TCP (\d+)\)"),
    (EXPORTER_PORT, r"127\.0\.0\.1:(9\d\d\d)"),
    (SETTINGS.max_connections // 4, r"(\d+) \(a quarter of `max_connections`\)"),
    (SETTINGS.max_connections // 4, r"half of `max_connections`, and half of these \((\d+)\)"),
    (
        ", ".join(f"`{name}`" for name in HARDWARE if name not in ("gb10", "lab")),
        r"`gb10` \(a Spark of 128 GB\), (`.+?`),? (?:or )?`lab`",
    ),
    ("{} to {}".format(*itemgetter(0, -1)(RELEASES)), r"option and variable of vLLM (\S+ to \S+),"),
    (HOLD[0], r"at least (\d+) s\. `Retry-After`"),
    (
        min(LONGEST_HOLD, HOLD[1]),
        r"at most (\d+)(?: s\.|, as clients)|Why (\d+) s|503 after (\d+) s|waited for (\d+) s gets",
    ),
    (
        NAMED[_starts()],
        r"(?i)(?:at most|after|the) (\w+) (?:such )?(?:starts|times) (?:within|in) an hour"
        r"|at most (\w+) times an hour",
    ),
    (
        NAMED[crash_guard.TOO_MANY],
        r"After (\w+) (?:hard crashes of the Spark|power losses) within an hour",
    ),
    (NAMED[int(probe.INTERVAL)], r"every (\w+) seconds the supervisor"),
    (f"{MARGIN // 60}", r"`?start_timeout`? plus (\d+) minutes"),
    (FAULT_MHZ, r"(\d+) MHz, (?:and power at most )?\d+ W\b"),
    (FAULT_WATTS, r"\d+ MHz, (?:and power at most )?(\d+) W\b"),
    (MEMORY_LOW, r"less than (\d+) % of the memory"),
    (
        EARLYOOM,
        r"at (\d+) % earlyoom|earlyoom ends the engine when (\d+) %|by SIGTERM at (\d+) % free",
    ),
    (LEAST[2], r"GiB stay free \(two: (\d+)\) \| error"),
    (LEAST[1], r"one Spark: less than (\d+) GiB stay free \(two: 8\)"),
    (
        WANTED[1],
        r"one Spark: less than (\d+) GiB stay free \(two: 10\)|GiB of them free when it serves; "
        r"expected (\d+)\.0 GiB",
    ),
    (WANTED[2], r"stay free \(two: (\d+)\) \| warning|At least (\d+) should stay free"),
    (SILENCE, r"not heard for (\d+) s"),
    (LIFE.days, r"certificate is valid for (\d+) days"),
    (RENEWAL.days, r"less than (\d+) days left"),
    (_figure(FASTEST, "concurrent-4", "tok_s"), r"chat \((\d+) to \d+ tokens/s each"),
    (_figure(FASTEST, "concurrent-16", "tok_s"), r"chat \(\d+ to (\d+) tokens/s each"),
    (_figure(FASTEST, "concurrent-16", "total_tok_s"), r"tokens/s each, (\d+) together"),
    (
        _figure(FASTEST, "concurrent-128", "total_tok_s"),
        r"throughput \((\d+) tokens/s together; more",
    ),
    (_figure(MIXED, "mix-short", "total_tok_s"), r"short prompts \((\d+) together"),
    (_figure(MIXED, "mix-typical", "total_tok_s"), r"7,500 tokens \((\d+)\)"),
    (_figure(MIXED, "mix-long", "tok_s"), r"108,000 tokens each \((\d+) each"),
    (load_recipe(FASTEST).args["max-num-seqs"], r"`max-num-seqs` requests at once \((\d+) there"),
    (load_recipe(FIRST).args["max-num-seqs"], r"requests at once \(\d+ there; (\d+) in"),
    (SETTINGS.driver_minimum, r"driver (\d+) or later|require driver (\d+)"),
    (SETTINGS.docker_minimum, r"playbooks require driver \d+ and Docker (\d+)"),
    (
        tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["requires-python"][2:],
        r"Python (3\.\d+)(?: or later|, SSH)|older than (3\.\d+)",
    ),
    (SETTINGS.disk_headroom_gib, r"and (\d+) GB that stay free"),
    (
        f"{weights(FIRST) / 1e9:.0f}",
        r"\(weights (\d+), image|\((\d+) GB for `qwen3.6-35b-nvidia`"
        r"|\| `qwen3.6-35b-nvidia` \| (\d+) GB",
    ),
    (
        f"{weights(SECOND) / 1e9:.0f}",
        r"about (\d+) GB for `qwen3.5-122b-nvidia`|\| `qwen3.5-122b-nvidia` \| (\d+) GB",
    ),
    (f"{IMAGE / 1e9:.0f}", r"weights \d+, image (\d+)\)|\(about (\d+) GB compressed"),
    (f"{UNPACKED * IMAGE / 1e9:.0f}", r"GB compressed, (\d+) unpacked"),
    (
        f"{(weights(FIRST) + IMAGE) / 1e9:.0f}",
        r"about (\d+) GB \(weights|the download: about (\d+) GB",
    ),
    (f"{(weights(SECOND) + IMAGE) / 1e9:.0f}", r"`qwen3.5-122b-nvidia`: (\d+) GB"),
    (_disk(FIRST), r"(\d+) GB free on the Spark"),
    (_disk(SECOND), r"`qwen3.5-122b-nvidia`: \d+ GB, (\d+) GB free"),
    (version("pyinfra"), r"against pyinfra ([\d.]+) and|\* pyinfra: ([\d.]+)"),
    (NAMED[len(ALERTS)], r"`alerts.yml` \| (\w+) alert rules"),
    (ALERTS["EngineDown"]["for"][:-1], r"behind a door for (\d+) min"),
    (_longest_start(), r"longest start of a recipe may take (\d+)"),
    (VLLM, r"vLLM (\S+) \(its CPU build\)|made by the real vLLM (0\.\d+\.\d+)"),
    (
        _stated("docs/memory.md", r"releases (0\S+ to 0\S+), on the CPU"),
        r"releases (0\S+ to 0\S+), on the CPU",
    ),
    (
        _stated("CONTRIBUTING.md", r"`make test` takes (\d+) minutes"),
        r"you propose it \| `make test` \| (\d+)|virtual Spark with real vLLM: (\d+) min",
    ),
    (
        _stated("CONTRIBUTING.md", r"`make test-all` (\d+)\."),
        r"`make test-all`, which CI runs as well \| (\d+)",
    ),
]


@pytest.mark.parametrize(("value", "pattern"), FACTS, ids=str)
def test_pages_state_what_the_code_has(value: object, pattern: str) -> None:
    stated = [
        (page, next(group for group in found.groups() if group))
        for page, text in TEXTS.items()
        for found in re.finditer(pattern, text)
    ]
    assert stated, "no page has these words any more"
    assert [(page, found) for page, found in stated if found != str(value)] == []


def test_each_alert_has_a_row_with_its_minutes() -> None:
    page = (DOCS / "monitoring.md").read_text()
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert list(rows) == list(ALERTS)
    for name, text in rows.items():
        stated = re.search(r"\bfor (\d+) min", text)
        if stated and "for" in ALERTS[name]:
            assert ALERTS[name]["for"] == f"{stated[1]}m"


@pytest.mark.parametrize("name", Settings.model_fields)
def test_pages_state_the_default_of_a_setting(name: str) -> None:
    default = str(getattr(SETTINGS, name)).removesuffix("G")
    # A status of HTTP, such as (413), is none.
    said = rf"`{name}`(?: =|:| \((?!4\d\d\))) ?(\d[\d.]*\b)|\b(\d+) \(`{name}`"
    stated = [
        (page, found[1] or found[2])
        for page, text in TEXTS.items()
        for found in re.finditer(said, text)
    ]
    assert [(page, found) for page, found in stated if found != default] == []
