"""Every path of report.json that states uncertainty is simulated: benchmarks/claims.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks import claims as simulation
from benchmarks import worlds
from instruct.reporting.build import build
from instruct.reporting.model import SCHEMA_PATH


def uncertain_paths() -> Iterator[tuple[str, str]]:
    """Path and name of everything in the schema that states uncertainty; lists and names as the walk writes them."""
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))

    def walk(node: dict[str, Any], path: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for name, value in node.get("properties", {}).items():
            if simulation.STATES.fullmatch(name):
                yield path, name
                continue
            text = json.dumps(value)
            mark = "[]" if '"array"' in text else "{}" if name == "human_agreement" else ""
            for kind in schema["$defs"]:
                if f'"#/$defs/{kind}"' in text and kind not in above:
                    place = f"{path}.{name}" if path else name
                    yield from walk(schema["$defs"][kind], place + mark, (*above, kind))

    return walk(schema, "", ())


def test_every_path_of_the_schema_has_a_target():
    paths = set(uncertain_paths())
    assert len(paths) > 20
    missing = []
    for path, name in paths:
        # Claims and measurements are told apart by family and part, which the schema does not have.
        if path.startswith(("claims[", "measurements[")) or f"{path}.{name}" in simulation.ELSEWHERE:
            continue
        if simulation.target(path, name) is None:
            missing.append(f"{path}.{name}")
    assert missing == []


@pytest.mark.parametrize("name", [*worlds.RUNS, *worlds.LOGS])
def test_every_world_has_the_truth_of_what_its_report_states(name):
    rng = np.random.default_rng(0)
    made = (worlds.RUNS | worlds.LOGS)[name][0](rng)
    assert simulation.score(made.report(), made.truths)


def test_a_path_or_a_sentence_without_a_target_is_refused():
    world = worlds.judged_world(np.random.default_rng(0), 20, 0.0, 0.0, 0.0)
    with pytest.raises(LookupError, match=r"^new\.interval: no target$"):
        simulation.score({"new": {"interval": [0.0, 1.0]}}, world.truths)
    with pytest.raises(LookupError, match="a sentence that SENTENCES does not have: new clearly wins"):
        simulation.score({"warnings": [{"text": "new clearly wins"}]}, world.truths)


def test_what_does_not_hold_is_counted():
    node = {"interval": [51.0, 60.0], "p": 0.01, "adjusted_p": 0.01, "finding": "candidate", "better": "higher"}
    report = {"judges": [{"comparisons": [{"claim": node}]}]}
    scored = simulation.score(report, {"verdicts": worlds.constant(50.0)})
    path = "judges[].comparisons[].claim"
    assert scored[f"{path}.interval", "covers"] == [(False, 0.0)]
    assert {key[0].rpartition(".")[2] for key, values in scored.items() if values[0][0] and key[1] == "false"} == {
        "p",
        "adjusted_p",
        "finding",
    }
    cells = {(path, "covers"): simulation.Cell([0.5] * 100, [1.0] * 100)}
    assert simulation.misses(cells, 1) == [(path, "covers")]


def test_a_baseline_that_loses_nearly_every_pair_tells_no_systems_apart():
    def cautions(rates: tuple[float, ...]) -> list[str]:
        world = worlds.systems_world(np.random.default_rng(0), 200, rates, 0.0)
        return [str(caution) for caution in build(world.contents).cautions]

    assert cautions((0.6, 0.97)) == []
    (caution,) = cautions((0.98, 0.99))
    assert caution.endswith("can hardly tell the two apart; judge new0 against new1 directly")


def test_a_seed_far_from_the_others_is_named():
    def cautions(deviations: tuple[float, ...]) -> list[str]:
        rng = np.random.default_rng(0)
        rows = [(rng.random(400) < 0.6 + deviation).astype(float) for deviation in deviations]
        names = [("judge", f"new-seed{seed}", f"base-seed{seed}") for seed in range(len(rows))]
        systems = {name: {"seed": int(name[-1])} for both in names for name in both[1:]}
        judged = [worlds.comparison(scores, each) for scores, each in zip(rows, names, strict=True)]
        return [str(each) for each in build(worlds.contents(judged, config={"systems": systems})).cautions]

    assert cautions((0.0, 0.0, 0.0)) == []
    assert cautions((0.0, -0.4)) == []
    (caution,) = cautions((0.0, 0.0, -0.4))
    assert caution.startswith("new against base: seed 2 has a win rate of ")
