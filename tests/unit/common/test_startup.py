"""How long the phases of a start took, by logs of real ones, and what follows from it."""

import json
from pathlib import Path
from typing import Any

import pytest

from host.common import starts
from host.engine import startup
from sparkwright.common.startup import PHASES, Start, slow_phases
from tests.makers.shell import program
from tests.makers.starts import start
from tests.makers.status import RELEASE

LOGS = Path(__file__).parents[1] / "logs"
# As vLLM words it for the checkpoint of docai.hu, with its figures; from its kinds of line in logs
# of others (vllm-project/vllm, 41834) and in healthy.h200.log.
COLD = """\
starting the engine
(Worker pid=9) INFO 04-25 10:00:20 [gpu_model_runner.py:5061] Starting to load model /models/x...
(Worker pid=9) INFO 04-25 10:08:41 [default_loader.py:397] Loading weights took 501.20 seconds
(Worker pid=9) INFO 04-25 10:08:42 [gpu_model_runner.py:5061] Loading drafter model...
(Worker pid=9) INFO 04-25 10:09:55 [default_loader.py:397] Loading weights took 73.00 seconds
(Worker pid=9) INFO 04-25 10:10:20 [backends.py:393] Compiling a graph for compile range (1, 8192) takes 21 s
(Worker pid=9) INFO 04-25 10:10:32 [monitor.py:53] torch.compile took 36.50 s in total
(Worker pid=9) INFO 04-25 10:10:39 [monitor.py:53] torch.compile takes 6.60 s in total
(Worker pid=9) INFO 04-25 10:11:39 [monitor.py:81] Initial profiling/warmup run took 50.53 s
(Worker pid=9) 2026-04-25 10:11:40,200 - INFO - autotuner.py:446 - flashinfer.jit: [Autotuner]: Autotuning process starts ...
(Worker pid=9) 2026-04-25 10:11:50,300 - INFO - autotuner.py:455 - flashinfer.jit: [Autotuner]: Autotuning process ends
(Worker pid=9) INFO 04-25 10:12:05 [gpu_model_runner.py:6844] Graph capturing finished in 15 secs, took 0.27 GiB
(EngineCore pid=9) INFO 04-25 10:12:05 [core.py:340] init engine (profile, create kv cache, warmup model) took 97.00 s
(APIServer pid=7) INFO:     Application startup complete.
""".splitlines()  # noqa: E501
COLD_KEPT = [(1000.0 + 10 * place, line) for place, line in enumerate(COLD)]
TIMED = {
    "weights": 501.2,
    "drafter": 73,
    "compile": 43.1,
    "warmup": 50.53,
    "graphs": 15,
}


def test_the_phases_of_seed_004() -> None:
    # Times of the journal tell what no line does.
    found = startup.phases(COLD_KEPT, 140)
    assert found == pytest.approx(TIMED | {"init": 10, "autotune": 10, "server": 10, "token": 10})
    assert {f"{name}_seconds" for name in (*found, "ready")} == {*PHASES}
    assert startup.phases([], 1) == {}


def test_the_v2_model_runner_names_no_drafter() -> None:
    """gpu/model_runner.py of 0.28.0: it says of both what the loader says of each."""
    lines = ["Loading model from scratch...", *[line for line in COLD if "Loading weights" in line]]
    kept = [(1.0, COLD[0]), (22.5, lines[0]), (80.0, lines[1]), (90.0, lines[2])]
    assert startup.phases(kept, 95) == {"weights": 501.2, "drafter": 73, "init": 21.5}


def test_a_real_start_on_a_gpu(root: Path) -> None:
    """vLLM 0.26.0 with MTP-2 on an H200; its weights were dummies."""
    lines = (LOGS / "healthy.h200.log").read_text().splitlines()
    startup.keep(root, RELEASE, 200, "serving", [(0, line) for line in lines])
    (found,) = starts.read(root)
    assert found["kind"] == "cold"
    assert found["kv_gib"] == 50.4
    assert found["phases"] == pytest.approx(
        {"compile": 27.43, "warmup": 50.67, "autotune": 0, "graphs": 5, "server": 0}
    )


def test_of_a_journal_only_what_tells_a_phase_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that serves logs without end: what comes after is not waited for."""
    program(
        tmp_path / "journalctl",
        f"""echo "$@" > {tmp_path}/called
echo '1764.5 spark1 engine[7]: starting the engine'
echo '1770.25 spark1 engine[7]: (Worker pid=9) INFO [x.py:1] Loading weights took 5.50 seconds'
echo '1771.0 spark1 engine[7]: noise'
echo '1790.0 spark1 engine[7]: serving'
while echo '1791.0 spark1 engine[7]: INFO: "POST /v1/chat/completions" 200 OK'; do :; done""",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert [at for at, _ in startup.journal("0123")] == [1764.5, 1770.25]
    assert "_SYSTEMD_INVOCATION_ID=0123" in (tmp_path / "called").read_text()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    laid_down(tmp_path, RELEASE)
    return tmp_path


def laid_down(root: Path, release: str, **changes: str) -> None:
    folder = root / "releases" / release
    folder.mkdir(parents=True)
    content = {"recipe": "lab-tiny", "image": "lab/vllm@sha256:0", "served_names": ["tiny"]}
    (folder / "release.json").write_text(json.dumps(content | changes))


def test_what_is_kept_is_bounded_and_survives_garbage(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, file = "other-1", root / "state/starts"
    laid_down(root, other, recipe="other")
    startup.keep(root, other, 7, "late", [])
    for seconds in range(startup.KEPT + 5):
        startup.keep(root, RELEASE, seconds, "serving" if seconds % 2 else "standby", COLD_KEPT)
    found = starts.alike(root, RELEASE)
    assert [each["seconds"] for each in found] == [*range(5, startup.KEPT + 5)]
    assert [each["kind"] for each in found[:2]] == ["cold", "standby"]
    (failed,) = starts.alike(root, other)
    assert (failed["failed"], failed["kind"]) == ("late", "warm")
    good = file.read_text()
    garbage = ["", "x", "[]", "{}", '{"at": 1}', "9" * 5000, "[" * 10_000, "\0\0"]
    garbage += [good.splitlines()[0].replace("7.0", bad) for bad in ('"x"', "-1", "NaN", "1e7")]
    file.write_bytes(f"{good}{chr(10).join(garbage)}\n".encode() + b"\xff\xfe\n")
    assert starts.alike(root, RELEASE) == found
    assert len(starts.read(root)) == len(found) + 1
    # In all as well.
    monkeypatch.setattr(startup, "MOST", 3)
    startup.keep(root, RELEASE, 1, "serving", [])
    assert len(file.read_text().splitlines()) == 3
    file.unlink()
    assert starts.read(root) == []


def kept(root: Path, *seconds: float, end: str = "serving", release: str = RELEASE) -> None:
    for each in seconds:
        startup.keep(root, release, each, end, [])


def test_what_a_start_may_take_follows_from_its_own_ones(root: Path) -> None:
    """Never more than the recipe allows, nor less than is safe."""

    def bound(least: int = 100, most: int = 900) -> int:
        return starts.bound(root, RELEASE, least, most)

    kept(root, 50, 60)
    # Others with its recipe and image tell nothing: they may have found other caches.
    laid_down(root, "lab-tiny-1")
    kept(root, 55, release="lab-tiny-1")
    assert bound() == 900
    kept(root, 70.2)
    assert bound() == 211
    assert (bound(least=300), bound(most=200)) == (300, 200)
    kept(root, 4, end="ended")
    assert bound() == 211
    # The next one after it has all the time.
    kept(root, 211, end=starts.LATE)
    assert bound() == 900
    kept(root, 400)
    assert bound(most=2000) == 1200


def test_what_nine_of_ten_starts_took(root: Path) -> None:
    assert starts.usual(starts.alike(root, RELEASE)) == 0
    kept(root, 900, *range(31, 40))
    kept(root, 2000, end="late")
    assert starts.usual(starts.alike(root, RELEASE)) == 39


def test_the_kv_cache_that_was_measured_is_known_until_a_start_fails(root: Path) -> None:
    def told(most: int = 4 << 30) -> int:
        return int(starts.kv_cache(root, RELEASE, most).get(starts.KV_CACHE, 0))

    def measured(size: str, end: str = "serving", release: str = RELEASE) -> None:
        line = f"(EngineCore pid=1) INFO [gpu_worker.py:1] Available KV cache memory: {size} GiB"
        startup.keep(root, release, 60, end, [(1.0, line)])

    laid_down(root, "lab-tiny-1")
    measured("1.5", release="lab-tiny-1")
    assert told() == 0
    measured("3.07")
    # Rounded as 3.065 to 3.075 is.
    assert told() == int(3.065 * 2**30)
    kept(root, 30, end="standby")
    assert told() == int(3.065 * 2**30)
    assert (told(most=told()), told(most=told() - 1), told(most=0)) == (told(), 0, 0)
    kept(root, 9, end="ended")
    assert told() == 0
    # What a start logs that then fails is not known to be right.
    measured("3.9", end=starts.LATE)
    assert told() == 0
    kept(root, 60)
    assert told() == 0
    measured("3.0")
    assert told() == int(2.995 * 2**30)
    for lie in ("0.0", "-3.0", "1e300", "inf", "99999999.0"):
        measured("3.0")
        measured(lie)
        assert told() in (0, int(2.995 * 2**30))


def test_a_start_that_an_earlier_sparkwright_has_kept_tells_of_no_kv_cache(root: Path) -> None:
    kept(root, 60)
    file = root / "state/starts"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        del line["kv_gib"]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert starts.bound(root, RELEASE, 1, 9) == 9
    assert [each["seconds"] for each in starts.read(root)] == [60]
    assert starts.kv_cache(root, RELEASE, 1 << 40) == {}


def test_a_person_is_told_the_recipes_figures_beside() -> None:
    found = start(600, "cold", weights=501.2, drafter=73, unknown=1)
    expected = {"start-cold": {"weights_seconds": 501.0}, "start-warm": {"drafter_seconds": 1.0}}
    assert found.line(expected) == "600 s (cold): weights 501 s (501), drafter 73 s"
    figures = {"weights_seconds": 501.2, "drafter_seconds": 73, "ready_seconds": 600}
    assert found.figures == {"start-cold": figures}
    assert start(1, failed="late").line({}) == "1 s (late)"
    # No recipe expects figures of it.
    assert start(1, "standby").figures == {}


USUAL = [start(weights=each) for each in (16.5, 20.7, 26.8)]


@pytest.mark.parametrize(
    ("before", "last", "said"),
    [
        (
            USUAL,
            start(95, weights=52),
            "Loading weights: 52 s; the median of 3 warm starts is 21",
        ),
        # Within what the page cache of one machine has shown.
        (USUAL, start(weights=39), ""),
        # Nobody notices that.
        ([start(token=1)] * 3, start(token=9), ""),
        (USUAL, start(200, weights=20), "What no phase explains: 180 s; the median of 3 warm"),
        (USUAL[:2], start(95, weights=52), ""),
        (USUAL, start(95, "cold", weights=52), ""),
        ([*USUAL[:2], start(failed="late")], start(95, weights=52), ""),
        (USUAL, start(95, failed="late", weights=52), ""),
        ([], start(), ""),
    ],
)
def test_a_phase_that_takes_longer_than_usual_is_named(
    before: list[Start], last: Start, said: str
) -> None:
    found = [*slow_phases([*before, last])]
    assert [each[: len(said)] for each in found] == ([said] if said else [])


def test_a_spark_says_only_what_is_known_here() -> None:
    said: dict[str, Any] = {**start().model_dump(), "phases": {"weights": 1.0, "x": 2.0}, "new": 1}
    assert Start.model_validate(said).metrics == {"weights_seconds": 1.0}
