"""How long the phases of a start took, by logs of real ones."""

from pathlib import Path

import pytest

from sparkwright.common.startup import COLD_START, WARM_START, start_figures, start_line, timings

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
(Worker pid=9) 2026-04-25 10:11:40,200 - INFO - autotuner.py:446 - flashinfer.jit: [Autotuner]: Autotuning process starts ...
(Worker pid=9) 2026-04-25 10:11:50,300 - INFO - autotuner.py:455 - flashinfer.jit: [Autotuner]: Autotuning process ends
(Worker pid=9) INFO 04-25 10:12:05 [gpu_model_runner.py:6844] Graph capturing finished in 15 secs, took 0.27 GiB
serving
""".splitlines()  # noqa: E501


def test_the_phases_of_seed_004() -> None:
    assert timings(COLD) == pytest.approx(
        {
            "weights_seconds": 501.2,
            "drafter_seconds": 73,
            "compile_seconds": 43.1,
            "autotune_seconds": 10.1,
            "graphs_seconds": 15,
        }
    )
    # A start is warm where nothing is compiled anew.
    warm = [line for line in COLD if "Compiling" not in line]
    (name,) = start_figures([(0, line) for line in warm])
    assert name == WARM_START
    # Times of the journal tell the rest.
    kept = [(1000.0 + 10 * place, line) for place, line in enumerate(COLD)]
    (found,) = start_figures(kept).values()
    assert (found["init_seconds"], found["ready_seconds"]) == (10, 110)
    assert start_figures([]) == {}


def test_the_v2_model_runner_names_no_drafter() -> None:
    """gpu/model_runner.py of 0.28.0: it says of both what the loader says of each."""
    lines = ["Loading model from scratch...", *[line for line in COLD if "Loading weights" in line]]
    assert timings(lines) == {"weights_seconds": 501.2, "drafter_seconds": 73}
    kept = [(1.0, "starting the engine"), (22.5, lines[0]), (80.0, lines[1])]
    assert start_figures(kept) == {WARM_START: {"weights_seconds": 501.2, "init_seconds": 21.5}}


def test_a_real_start_on_a_gpu() -> None:
    """vLLM 0.26.0 with MTP-2 on an H200; its weights were dummies."""
    lines = (LOGS / "healthy.h200.log").read_text().splitlines()
    assert timings(lines) == pytest.approx(
        {"compile_seconds": 22.45 + 4.98, "autotune_seconds": 0.043, "graphs_seconds": 5}
    )
    (name,) = start_figures([(0, line) for line in lines])
    assert name == COLD_START


def test_a_person_is_told_the_recipes_figures_beside() -> None:
    expected = {COLD_START: {"weights_seconds": 501.0, "compile_seconds": 43.1}, WARM_START: {}}
    assert start_line(COLD, expected) == (
        "weights 501 s (501), drafter 73 s, compile 43 s (43), autotune 10 s, graphs 15 s"
    )
    assert start_line(["noise"], {}) == ""
