"""The figures: valid SVG and PDF, the report's numbers in them, and hostile names as plain text."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import pytest
from counted import counted
from pages import TIE, WIN
from pypdf import PdfReader

from instruct.analysis.results import WIN_RATE
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.reporting.figures import draw_figures, drawings, figures
from instruct.reporting.model import (
    ComparisonReport,
    EvaluationLog,
    JudgeReport,
    ReportData,
    Training,
    TrainingLog,
)
from instruct.reporting.report import Report, write_report
from instruct.scores.claims import claim_of, settle
from instruct.scores.samples import match

HOSTILE = [
    "$x^2$ \\frac{1}{0}",
    "--><script>alert(1)</script>",
    "\u202e\x00\n模型 😀",
    "",
]


def comparison_of(policies, candidate="emo", baseline="mle", **changes):
    """The first of the policies leads."""
    names = {"judge": "j", "candidate": candidate, "baseline": baseline, "measure": WIN_RATE}
    claims = [claim_of(match(counts), policy=policy, **names) for policy, counts in policies.items()]
    settle(claims)
    return ComparisonReport.model_construct(
        candidate=candidate,
        baseline=baseline,
        claim=claims[0],
        strict=claims[1] if claims[1:] else None,
        with_labels=None,
        length=None,
        partial=False,
    ).model_copy(update=changes)


def judge_of(*comparisons, **changes):
    judge = JudgeReport.model_construct(name="j", model="m", warning=None, comparisons=list(comparisons))
    return judge.model_copy(update=changes)


def training_of(name, steps, **curves):
    log = {key: curves.get(key, [None] * len(steps)) for key in ("ce", "cost", "ratio", "grad_norm")}
    return Training.model_construct(system=name, objective="emo, official", log=TrainingLog(step=steps, **log))


def report_of(*judges, trainings=()):
    about = {"judges": list(judges), "trainings": list(trainings)}
    return ReportData.model_construct(**about, measurements=[], bench=None)


def texts_of(path):
    """The texts of a figure: matplotlib writes each as a comment next to its outlines."""
    ElementTree.parse(path)
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"), re.DOTALL)


def test_hostile_names_appear_as_plain_text(tmp_path):
    verdicts = {"single": counted(41, 13, 27, 4), "strict": counted(40, 20, 25)}
    report = report_of(
        *(judge_of(comparison_of(verdicts, name), name=name, model=name, warning=name) for name in HOSTILE),
        trainings=[training_of(name, [5, 10], ce=[2.5, 2.0]) for name in HOSTILE],
    )
    draw_figures(report, tmp_path)
    assert len(figures(report)) == len(HOSTILE) + 2
    for figure in figures(report):
        root = ElementTree.parse(tmp_path / figure.svg).getroot()
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not tags & {"script", "image", "foreignObject", "a"}


def test_a_judge_name_cannot_overwrite_another_figure():
    judges = [judge_of(comparison_of({"strict": counted(1)}), name=name) for name in ("Training", "../x", "..X")]
    assert [drawing.name for drawing in drawings(report_of(*judges))] == ["Training-2", "x", "X-2", "win_rates"]


def test_bars_and_the_forest_plot_have_the_counts_the_policies_and_a_warning(tmp_path):
    policies = {"single": counted(50, 20, 30), "strict": counted(2, 0, 0, 9)}
    partial = comparison_of({"single": counted(20, 0, 80)}, "a" * 40, "base", partial=True)
    judges = [judge_of(comparison_of(policies), partial), judge_of(partial, name="two", warning="proves the plumbing")]
    draw_figures(report_of(*judges), tmp_path)
    bars = texts_of(tmp_path / "figures" / "j.svg")
    assert {"50", "20", "30", "80", "Verdicts of j", "emo vs mle", "n = 100", "n = 100, PARTIAL"} <= {*bars}
    assert "proves the plumbing" in texts_of(tmp_path / "figures" / "two.svg")
    forest = texts_of(tmp_path / "figures" / "win_rates.svg")
    assert {
        "j", "two (WARNING: see its verdicts)", "emo vs mle, single", "strict (exploratory, not corrected)",
        "100, too few, n = 2", f"{'a' * 15}… vs base, single",
        "20.0 (12.7–29.2), n = 100, PARTIAL",  # Clopper and Pearson's
    } <= {*forest}  # fmt: skip


@pytest.mark.parametrize("counts", [counted(), counted(failed=9), counted(1, 1, 800, 2)])
def test_lopsided_counts_are_drawn(tmp_path, counts):
    draw_figures(report_of(judge_of(comparison_of({"strict": counts}))), tmp_path)
    judged = any(pair.score is not None for pair in counts)
    assert ("no verdict" in texts_of(tmp_path / "figures" / "win_rates.svg")) == (not judged)


def test_a_training_that_diverged_is_not_drawn():
    lost = training_of("emo", [1, 2], ce=[None] * 2)
    lost.evaluations = EvaluationLog(step=[1, 2], perplexity=[None] * 2)
    assert not drawings(report_of(trainings=[lost]))


def test_the_report_lists_draws_and_embeds_the_figures(judge_run, tmp_path):
    run = judge_run([WIN] * 30 + [TIE] * 10)
    log = [{"loss": 1.0, "step": step, "ce": 2.0 / step, "grad_norm": 0.5} for step in (1, 2, 3)]
    write_atomically(run.adapters / "mle" / "training_log.json", json.dumps(log))
    before = dict(mpl.rcParams)
    write_report(run.folder)
    page = (run.report / "report.html").read_text(encoding="utf-8")
    report = Report.read(run.folder)
    assert [figure.name for figure in report.figures] == ["j", "win_rates", "training"]
    for figure in report.figures:
        assert page.count(f'alt="{figure.title}; ') == 1
        assert len(texts_of(run.report / figure.svg)) > 10
        (drawn,) = PdfReader(run.report / figure.pdf).pages
        assert "emo" in drawn.extract_text() or figure.name == "training"
    assert dict(mpl.rcParams) == before  # the caller's
    picture = report.figures["win_rates"]
    picture.save(tmp_path / "here.pdf")
    assert (tmp_path / "here.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"here.gif: the extension must be .svg or .pdf"):
        picture.save(tmp_path / "here.gif")
    with pytest.raises(KeyError, match="no figure 'none' in this report; it has j, win_rates"):
        report.figures["none"]
    assert report == Report.read(run.folder)
