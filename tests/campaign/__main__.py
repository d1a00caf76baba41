"""make campaign: rounds of faults drawn from a seed, until the time is over.

What breaks a promise is shown with the command that plays its round again; the journals of its
Sparks, and a record of each scene, are in test-results.
Exit status: 0 every promise was kept, 1 one was broken.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from pydantic import TypeAdapter

from tests.campaign.plan import Round, Scene, draw
from tests.campaign.rounds import Player, Record
from tests.lab.lab import Lab
from tests.lab.shard import RESULTS, enter
from tests.lab.state import Engine

_ROUND = TypeAdapter(Round)


class Campaign:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._faults: Counter[str] = Counter()
        self._moments: Counter[str] = Counter()
        self._violations: list[str] = []
        self._rounds = 0

    def play(self, plan: Round, deadline: float = float("inf")) -> None:
        self._rounds += 1
        print(f"\n{plan}", flush=True)
        _written(plan).write_bytes(_ROUND.dump_json(plan))
        for index, (scene, record) in enumerate(Player(plan, self._engine).play(), 1):
            self._faults.update(record.struck)
            self._moments[f"{scene.act} {scene.moment}".rstrip(" |")] += not record.early
            print(f"  {index}. {record}", flush=True)
            self._keep(plan, index, scene, record)
            if time.monotonic() > deadline:
                return

    def summary(self) -> int:
        print(f"\n{self._rounds} rounds")
        for title, counts in (("faults", self._faults), ("moments", self._moments)):
            print(f"{title}:", *(f"{n} {what}," for what, n in counts.most_common()))
        print(f"violations: {len(self._violations)}", *self._violations, sep="\n  ", flush=True)
        return 1 if self._violations else 0

    def _keep(self, plan: Round, index: int, scene: Scene, record: Record) -> None:
        """Write down a scene; of one that broke a promise also all that was said."""
        where = {"seed": plan.seed, "round": plan.number, "index": index}
        kept = where | {"topology": plan.topology, "engine": self._engine} | asdict(record)
        output = kept.pop("output")
        with (RESULTS / f"campaign-{plan.seed}.jsonl").open("a") as file:
            file.write(json.dumps(kept | {"scene": asdict(scene)}) + "\n")
        if not record.problems:
            return
        path = RESULTS / f"campaign-{plan.seed}-{plan.number}-{index}"
        path.with_suffix(".log").write_text("\n".join([*record.problems, *output]))
        for spark in Lab().sparks():
            path.with_name(f"{path.name}-{spark.name}.journal").write_text(spark.journal())
        again = f"--engine {self._engine} --replay {_written(plan)}"
        self._violations.append(f"scene {index} of python -m tests.campaign {again}")
        print(*record.problems, self._violations[-1], f"{path}*", sep="\n     ", flush=True)


def _written(plan: Round) -> Path:
    return RESULTS / f"campaign-{plan.seed}-{plan.number}.json"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--engine", choices=get_args(Engine), default="stand-in")
    parser.add_argument(
        "--replay", metavar="SEED:ROUND|FILE", help="only this round, to its end; or as written"
    )
    options = parser.parse_args(argv)
    enter(f"campaign-{options.seed}", "tests.campaign", "--seed", str(options.seed), *argv)
    campaign = Campaign(options.engine)
    if options.replay:
        file = Path(options.replay)
        seed = options.replay.split(":")
        plan = _ROUND.validate_json(file.read_bytes()) if file.exists() else draw(*map(int, seed))
        campaign.play(plan)
        return campaign.summary()
    deadline, number = time.monotonic() + 60 * options.minutes, 0
    while time.monotonic() < deadline:
        number += 1
        campaign.play(draw(options.seed, number), deadline)
    return campaign.summary()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
