"""Comparisons in the manifest: named by three fields."""

from __future__ import annotations

import pytest

from instruct.judging.comparison import ComparisonKey
from instruct.run.directory import RunDirectory

# Written one after the other, the names of both read "a_vs_b_vs_c".
ALIKE = [ComparisonKey("j@org/model", "a_vs_b", "c"), ComparisonKey("j@org/model", "a", "b_vs_c")]


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.start({"name": "run"})
    return run


def inputs(comparison: ComparisonKey) -> dict:
    return {"answers": {comparison.candidate: "1" * 64, f"elsewhere/{comparison.baseline}.json": "2" * 64}}


@pytest.mark.parametrize(("written", "other"), [ALIKE, ALIKE[::-1]])
def test_comparisons_whose_step_names_are_equal_are_told_apart(run, written, other):
    with run.step(written.step(), inputs(written), comparison=written._asdict()):
        pass
    manifest = run.manifest()
    assert written.step() == other.step()
    assert written.record(manifest)["inputs"] == inputs(written)
    assert other.record(manifest) == {}
    assert written.step("judge", manifest) == written.step()
    assert other.step("judge", manifest) == f"{written.step()} (2)"
    with run.step(other.step("judge", manifest), inputs(other), comparison=other._asdict()):
        pass
    manifest = run.manifest()
    assert [each.record(manifest)["inputs"] for each in (written, other)] == [inputs(written), inputs(other)]
    assert other.step("judge", manifest) == f"{written.step()} (2)"
