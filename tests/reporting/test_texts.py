"""The report's part about texts: a run with metrics and without verdicts, the control, tests, and foreign text."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from instruct.base.errors import InstructError
from instruct.generation.continuations import Continuation
from instruct.measuring.mauve import mauve
from instruct.measuring.predictions import DISTANCES
from instruct.measuring.sampled import diversity_of, mauve_measured, rouge_of
from instruct.reporting.report import Report, build_report, write_report
from instruct.reporting.texts import METRICS, text_systems
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path, numbers, read_metrics, write_numbers, write_values

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


def test_the_control_follows_its_system_and_silences_the_warning(report):
    systems = text_systems(report.measurements)
    assert list(systems) == ["mle", "emo", "mle-matched-emo"]
    assert systems["mle-matched-emo"]["matched_temperature"].value == 0.87
    assert not any("control" in warning for warning in cautions(report))


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


def test_empty_continuations_and_texts_that_rouge_cannot_read_are_warnings(tmp_path):
    run = started(tmp_path / "other", "emo")
    write_numbers(run, "diversity", "emo", numbers({"repetition": 0.1}, 200, empty=30, continuations=200))
    write_numbers(run, "rouge", "emo", numbers({"rouge1": 0.1}, 200, without_tokens=40))
    assert cautions(build_report(run.folder)) == [
        "30 of 200 continuations of emo are empty",
        "ROUGE sees no token in 40 of 200 pairs of emo: it reads the letters a to z and digits only",
    ]


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


def test_values_that_are_missing_leave_the_value_alone(run, tmp_path):
    other = RunDirectory(shutil.copytree(run.folder, tmp_path / "other"))
    shutil.rmtree(other.folder / "metrics")
    system = text_systems(build_report(other.folder).measurements)["emo"]
    assert system["rougeL"].value == read_metrics(run).texts["emo"]["rougeL"].value
    assert system["rougeL"].interval is system["mauve"].interval is None


def test_training_seeds_are_one_system_with_an_interval_over_trainings(tmp_path):
    other = RunDirectory(tmp_path / "seeds")
    names = [f"{objective}-seed{seed}" for objective in ("mle", "emo") for seed in (1, 2)]
    other.start({"name": "x", "systems": {n: {"objective": n[:3], "seed": int(n[-1])} for n in names}})
    for place, name in enumerate(names):
        measure(other, name, "abcdefgh" if name.startswith("mle") else "abcd", 0.5, seed=place)
    report = build_report(other.folder)
    test = next(claim for claim in report.claims if claim.measure == "rouge1")
    assert (test.candidate, test.baseline, test.trainings, test.test) == ("emo", "mle", 2, "two-way")
    assert test.p < 0.2
    values = [read_metrics(other).texts[name]["rouge1"].value for name in names]
    assert test.value == pytest.approx(np.mean(values[2:]) - np.mean(values[:2]))


def test_distances_at_other_temperatures_are_a_curve(tmp_path):
    run = started(tmp_path / "plane", "mle", "emo")
    for name, value, curve in (("mle", 3.0, (0.8, 1.2)), ("emo", 2.5, ())):
        points = [[t, value + t - 1] for t in curve]
        found = numbers(dict.fromkeys(DISTANCES, value), 200, temperature=1.0, curve=points)
        write_numbers(run, "distances", name, found)
    systems = text_systems(write_report(run.folder).report.measurements)
    mle, emo = (systems[name]["forward_cross_entropy"].details.by_temperature for name in ("mle", "emo"))
    assert (mle, emo) == ([[0.8, 2.8, 2.8], [1.0, 3.0, 3.0], [1.2, 3.2, 3.2]], [])
    assert (run.report / "figures" / "precision_recall.svg").is_file()


def test_a_number_that_is_not_finite_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    write_numbers(run, "entropy", "mle", numbers({"entropy": 2.0}, 3, tokens=9))
    before = metrics_path(run).read_bytes()
    with pytest.raises(InstructError, match=r"run: a number about entropy of emo is not finite; its training may have"):
        write_numbers(run, "entropy", "emo", numbers({"entropy": float("nan")}, 3))
    assert metrics_path(run).read_bytes() == before
