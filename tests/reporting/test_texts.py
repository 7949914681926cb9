"""The report's part about texts: a run with metrics and without verdicts, the control, tests, and foreign text."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from instruct.base.errors import InstructError
from instruct.generation.continuations import Continuation
from instruct.measuring.mauve import mauve
from instruct.measuring.sampled import diversity_of, mauve_measured, rouge_of
from instruct.reporting.report import Report, build_report
from instruct.reporting.texts import METRICS, text_systems
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path, numbers, read_metrics, write_numbers, write_values

pytestmark = pytest.mark.usefixtures("without_figures")

PREFIXES = 200


def rows(words: str, seed: int = 0) -> list[Continuation]:
    """Continuations in words of which the human ones use `abcd`."""
    own, human = random.Random(seed), random.Random(99)
    return [
        Continuation(
            f"t:{n:03}", "One", " " + " ".join(own.choices(words, k=8)), " " + " ".join(human.choices("abcd", k=8)),
            0, 1, 8, "length",
        )
        for n in range(PREFIXES)
    ]  # fmt: skip


def measure(run: RunDirectory, name: str, words: str, shift: float, seed: int = 0) -> None:
    """Write metrics of a system as `instruct evaluate` does; its features are `shift` away from the human ones."""
    texts = rows(words, seed)
    keys = {key: [getattr(row, key) for row in texts] for key in ("id", "seed", "sample")}
    rng = np.random.default_rng(seed)
    human = np.random.default_rng(99).normal(size=(PREFIXES, 8))
    found = mauve(human, human * 0.5 + rng.normal(size=human.shape) + shift, [0, 1])
    for part, measured in (
        ("rouge", rouge_of(texts)),
        ("diversity", diversity_of(texts)),
        ("mauve", mauve_measured({"1/0": found}, "tiny", 16)),
    ):
        write_values(run, part, name, {**keys, **measured.values}, measured.without)
        write_numbers(run, part, name, measured.numbers)
    nats = np.random.default_rng(5).gamma(4, 5, size=PREFIXES) + shift + rng.normal(size=PREFIXES) * 0.1
    write_values(
        run, "perplexity", name, {"id": [f"h:{n}" for n in range(PREFIXES)], "nats": nats, "tokens": [8] * 200}
    )
    value = float(np.exp(nats.sum() / 1600))
    write_numbers(run, "perplexity", name, numbers({"perplexity": value}, 200, tokens=1600, words=0, bytes=1))


def started(folder: Path, *systems: str) -> RunDirectory:
    """A run of these systems, of which nothing was measured."""
    run = RunDirectory(folder)
    run.start({"name": "x", "systems": {name: {"objective": name} for name in systems}})
    return run


def cautions(report: Report) -> list[str]:
    return list(map(str, report.cautions))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunDirectory:
    found = started(tmp_path_factory.mktemp("runs") / "mine", "none", "mle", "emo")
    measure(found, "mle", "abcdefgh", 0.9, seed=1)
    measure(found, "emo", "abcd", 0.2, seed=2)
    measure(found, "mle-matched-emo", "abcd", 0.2, seed=3)
    control = {"mle": "mle", "system": "emo", "system_temperature": 1, "system_entropy": 2, "entropy": 2}
    write_numbers(found, "matched", "mle-matched-emo", numbers({"matched_temperature": 0.87}, None, **control))
    return found


@pytest.fixture(scope="module")
def report(run):
    return build_report(run.folder)


def test_a_run_without_verdicts_has_a_report_of_its_metrics(run, instruct):
    code, out, err = instruct("report", run.folder)
    assert code == 0, err
    assert "ROUGE-L" in out
    text = (run.report / "report.md").read_text()
    assert "| metric | read as | mle | emo | mle-matched-emo (T 0.870) | human |" in text
    page = (run.report / "report.html").read_text()
    assert "MAUVE of 200 texts is noisy" in page


def test_figures_have_the_values_of_metrics_json_and_an_interval_around_them(report, run):
    metrics = read_metrics(run).texts
    emo = text_systems(report.measurements)["emo"]
    for metric in ("mauve", "rougeL", "perplexity"):
        assert emo[metric].value == metrics["emo"][metric].value
    assert emo.keys() <= METRICS.keys()
    for figure in emo.values():
        if figure.interval is None:  # the same few words, whichever texts are left out
            assert figure.metric in ("distinct_1", "distinct_2", "words")
        else:
            assert 0 <= figure.interval[0] < figure.value < figure.interval[1], figure.metric


def test_systems_are_tested_against_mle_and_against_their_control(report):
    tests = {(claim.measure, claim.candidate, claim.baseline): claim for claim in report.claims}
    assert {pair[1:] for pair in tests} == {("emo", "mle"), ("emo", "mle-matched-emo")}
    better = tests["mauve", "emo", "mle"]
    assert better.value > 0.1
    assert better.adjusted_p < 0.01
    assert tests["mauve", "emo", "mle-matched-emo"].adjusted_p > 0.05
    assert tests["rouge1", "emo", "mle"].test == "mean"
    assert tests["rouge1", "emo", "mle"].adjusted_p < 0.05
    assert tests["rouge1", "emo", "mle-matched-emo"].p > 0.01
    assert tests["perplexity", "emo", "mle"].p < 1e-6
    assert all(test.adjusted_p >= test.p for test in tests.values() if test.p is not None)


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
