"""The judge: last minutes drawn with a seed, as each end leaves them, and the cause of each."""

import random
from collections.abc import Callable, Mapping

import pytest

from host.insight.recorder.judge import KERNEL, NOTED, judge
from host.insight.recorder.ring import Line, line, parse

# MiB of a Spark of 128 GB.
TOTAL = 122_500
SECONDS = 180
Shape = Callable[[int], float | None]
KILLED = "Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:204800kB, anon-rss:9kB"
OFF_THE_BUS = "NVRM: Xid (PCI:000f:01:00): 79, pid='<unknown>', GPU has fallen off the bus."
PROGRAM = "NVRM: Xid (PCI:000f:01:00): 31, pid=9115, MMU Fault: Fault is of type FAULT_PTE"
FATAL = "pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0"
CORRECTED = "pcieport 0000:00:00.0: AER: Correctable error message received from 0000:01:00.0"
NO_MEMORY = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"
SOFT = "watchdog: BUG: soft lockup - CPU#7 stuck for 26s! [kworker/7:1:431]"
PANIC = "Kernel panic - not syncing: hung_task: blocked tasks"
CRITICAL = "thermal thermal_zone0: acpitz: critical temperature reached (105 C), shutting down"
BAD_DISK = "I/O error, dev nvme0n1, sector 123456 op 0x1:(WRITE) flags 0x800 phys_seg 1"


def life(
    seed: int,
    words: Mapping[int, str] | None = None,
    seconds: int = SECONDS,
    lacks: Callable[[int], bool] = lambda _: False,
    jump: float = 0,
    **shapes: Shape,
) -> list[Line]:
    """Return the lines of an engine at work, but for what is given by seconds before the end."""
    draw = random.Random(seed)
    texts = []
    for left in range(seconds - 1, -1, -1):
        up = 90_000 + seconds - left
        time = 1_795_000_000 + up + (jump if left < seconds / 2 else 0)
        if not lacks(left):
            sound = {
                "watts": draw.uniform(40, 95),
                "celsius": draw.uniform(62, 79),
                "megahertz": draw.uniform(2300, 2418),
                "available": draw.uniform(0.17, 0.18) * TOTAL,
                "memory": draw.choice((0, 0, 0.2, 1.5)),
                "io": draw.uniform(0, 30),
                "cpu": draw.uniform(0, 99),
                "swap": 0,
                "disk": 800_000 - draw.random() * 100,
                "steps": 10_000 + 30 * (seconds - left),
            }
            sound |= {name: shape(left) for name, shape in shapes.items()}
            rounded = (None if each is None else round(each, 2) for each in sound.values())
            texts.append(line((time, up, *rounded)))
        if words and left in words:
            texts.append(line((time, up), words[left]))
    found = parse(texts)
    assert len(found) == len(texts)
    return found


def share(per_cent: float) -> float:
    return per_cent * TOTAL / 100


def falling(to: float) -> Shape:
    """Return memory that falls from 20 per cent to another share within the last 15 seconds."""
    return lambda left: share(to + max(0, min(20 - to, left * 1.4)))


ENDS: dict[str, tuple[str, Callable[[int], list[Line]]]] = {
    "the plug, under load": ("power", lambda s: life(s)),
    "the plug, idle": ("power", lambda s: life(s, watts=lambda _: 4, celsius=lambda _: 38)),
    "the plug, three seconds after the start": ("power", lambda s: life(s, seconds=3)),
    "the plug, without a GPU": (
        "power",
        lambda s: life(s, watts=lambda _: None, celsius=lambda _: None, megahertz=lambda _: None),
    ),
    "the plug, an engine that leaves 3.5 per cent all day": (
        "unknown",
        lambda s: life(s, available=lambda _: share(3.5)),
    ),
    "the plug, a minute after a program was killed": ("power", lambda s: life(s, {60: KILLED})),
    "the plug, 20 s after one was, and memory came back": (
        "power",
        lambda s: life(s, {20: KILLED}),
    ),
    "the plug, after a program's own Xid": ("power", lambda s: life(s, {5: PROGRAM})),
    "the plug, while a bus corrects errors": ("power", lambda s: life(s, {2: CORRECTED})),
    "the plug, after the clock was set back a day": ("power", lambda s: life(s, jump=-86_400)),
    "the plug, after the clock was set on a day": ("power", lambda s: life(s, jump=86_400)),
    "the plug, at 84 degrees": ("power", lambda s: life(s, celsius=lambda _: 84)),
    "the plug, a busy disk": ("power", lambda s: life(s, io=lambda _: 97, cpu=lambda _: 99)),
    "memory falls to nothing": ("memory", lambda s: life(s, available=falling(0.4))),
    "memory is short and everything waits": (
        "memory",
        lambda s: life(s, available=falling(6), memory=lambda left: max(0, 70 - 4 * left)),
    ),
    "killed at the very end": ("memory", lambda s: life(s, {1: KILLED})),
    "the driver has no memory": ("memory", lambda s: life(s, {2: NO_MEMORY})),
    "no line for 20 s, short of memory": (
        "memory",
        lambda s: life(s, lacks=lambda left: 3 < left < 24, available=falling(3)),
    ),
    "memory, and hot as well": (
        "memory",
        lambda s: life(s, available=falling(0.3), celsius=lambda _: 91),
    ),
    "91 degrees": ("heat", lambda s: life(s, celsius=lambda left: 91 - left / 10)),
    "the kernel calls it critical": ("heat", lambda s: life(s, {1: CRITICAL})),
    "the GPU fell off the bus": ("driver", lambda s: life(s, {9: OFF_THE_BUS})),
    "it fell off, and the CPUs hung": (
        "driver",
        lambda s: life(s, {70: OFF_THE_BUS, 30: SOFT}),
    ),
    "a minute and a half before": ("driver", lambda s: life(s, {90: OFF_THE_BUS})),
    "a fatal error of the bus": ("driver", lambda s: life(s, {3: FATAL})),
    "nvidia-smi fell silent": (
        "driver",
        lambda s: life(s, celsius=lambda left: None if left < 15 else 70),
    ),
    "a soft lockup": ("lock-up", lambda s: life(s, {12: SOFT, 2: SOFT})),
    "a panic": ("lock-up", lambda s: life(s, {0: PANIC})),
    "a watchdog": ("lock-up", lambda s: life(s, {0: "watchdog reset, by watchdog0"})),
    "no line for half a minute": ("lock-up", lambda s: life(s, lacks=lambda n: 5 < n < 36)),
    "a disk that fails": ("disk", lambda s: life(s, {4: BAD_DISK})),
    "a full disk": ("disk", lambda s: life(s, disk=lambda left: left / 10)),
    "memory went down to 3 per cent": ("unknown", lambda s: life(s, available=falling(3))),
    "everything waits for memory, of which there is enough": (
        "unknown",
        lambda s: life(s, memory=lambda _: 30),
    ),
    "88 degrees": ("unknown", lambda s: life(s, celsius=lambda _: 88)),
    "a life of a second": ("unknown", lambda s: life(s, seconds=1)),
    "no line at all": ("unknown", lambda _: []),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_has_its_cause(end: str) -> None:
    cause, drawn = ENDS[end]
    for seed in range(20):
        found = judge(drawn(seed), TOTAL)
        assert found[0] == cause, (seed, found)
        assert len(found[1]) < 200


def test_the_evidence_is_what_the_kernel_said_or_what_was_read() -> None:
    assert judge(life(1, {9: OFF_THE_BUS}), TOTAL)[1] == OFF_THE_BUS
    assert judge(life(1, available=falling(0.4)), TOTAL)[1].startswith("0.4 % of the memory")
    assert judge(life(1, celsius=lambda _: 92), TOTAL)[1].endswith("92 °C")
    power = judge(life(1, watts=lambda _: 90, celsius=lambda _: 70), TOTAL)[1]
    assert power.startswith("all was in order to the last line: 17.")


@pytest.mark.parametrize(
    "word", [KILLED, OFF_THE_BUS, PROGRAM, FATAL, CORRECTED, NO_MEMORY, SOFT, PANIC, CRITICAL]
)
def test_what_may_matter_gets_a_line(word: str) -> None:
    assert NOTED.search(word)


@pytest.mark.parametrize(
    "word", ["usb 1-1: new high-speed USB device", "docker0: port 1 entered forwarding state", ""]
)
def test_what_does_not_gets_none(word: str) -> None:
    assert not NOTED.search(word)


def test_words_alone_are_judged() -> None:
    assert judge(parse([line((1, 1), PANIC)]), TOTAL)[0] == "lock-up"
    assert set(KERNEL) == {"memory", "heat", "driver", "lock-up", "disk"}
