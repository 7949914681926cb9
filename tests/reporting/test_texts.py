"""What a report warns of in figures of texts, and numbers that are not finite."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruct.base.errors import InstructError
from instruct.reporting.report import Report, build_report
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path, numbers, write_numbers

pytestmark = pytest.mark.usefixtures("without_figures")


def started(folder: Path, *systems: str) -> RunDirectory:
    """A run of these systems, of which nothing was measured."""
    run = RunDirectory(folder)
    run.start({"name": "x", "systems": {name: {"objective": name} for name in systems}})
    return run


def cautions(report: Report) -> list[str]:
    return list(map(str, report.cautions))


def test_a_comparison_of_sampled_texts_without_the_control_is_a_warning(tmp_path):
    run = started(tmp_path / "other", "mle", "emo")
    for name in ("mle", "emo"):
        write_numbers(run, "rouge", name, numbers({"rouge1": 0.1}, 200))
    reason = "there is <b>no</b> human text [x]"
    write_numbers(run, "matched", "emo", numbers({"matched_temperature": None}, None, reason=reason))
    found = build_report(run.folder)
    (warning,) = cautions(found)
    assert "emo has no matched-temperature control (there is <b>no</b> human text [x]): its difference" in warning
    assert "<b>" not in found.to_markdown()
    assert "<b>no" not in found.to_html()


def test_systems_that_were_measured_on_different_texts_are_a_warning(tmp_path):
    run = started(tmp_path / "other", "mle", "base")

    def measured(name: str, texts: str) -> list[str]:
        with run.step(f"evaluate/perplexity/{name}", {"weights": name, "texts": texts}):
            write_numbers(run, "perplexity", name, numbers({"perplexity": 9.0}, 2))
        return cautions(build_report(run.folder))

    assert measured("mle", "a") == measured("base", "a") == []
    (warning,) = measured("mle", "b")  # what an interrupted evaluation of other texts leaves
    assert warning.startswith("perplexity was measured on different texts, or with different settings")
    assert measured("base", "b") == []


def test_a_number_that_is_not_finite_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    write_numbers(run, "entropy", "mle", numbers({"entropy": 2.0}, 3, tokens=9))
    before = metrics_path(run).read_bytes()
    with pytest.raises(InstructError, match=r"run: a number about entropy of emo is not finite; its training may have"):
        write_numbers(run, "entropy", "emo", numbers({"entropy": float("nan")}, 3))
    assert metrics_path(run).read_bytes() == before
