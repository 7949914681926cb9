"""The figures: valid SVG and PDF, the report's numbers in them, and hostile names as plain text."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import pytest
from bench_runs import bench_run, judge_seeds
from counted import counted
from pages import TIE, WIN
from pypdf import PdfReader

from instruct.analysis.results import WIN_RATE
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.reporting.digits import number
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
    "&<>\"'",
    "_hidden",
    "\u202e\x00\n模型 😀",
    "W" * 500,
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


def judge_of_tallies(*tallies, **changes):
    return judge_of(*(comparison_of({"strict": counts}) for counts in tallies), **changes)


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


def whole_report(name="emo"):
    """A report with something in every figure."""
    policies = {"single": counted(41, 13, 27, 4), "strict": counted(40, 20, 25)}
    judge = judge_of(comparison_of(policies, name), name=name, model=name)
    curve = [2.5, 2.25, None, 2.0]
    training = training_of(name, [5, 10, 15, 20], ce=curve, cost=curve, ratio=curve, grad_norm=curve)
    judge.warning, training.objective = name, name
    return report_of(judge, trainings=[training])


def test_every_listed_figure_is_drawn_as_svg_and_pdf(tmp_path):
    report = whole_report()
    draw_figures(report, tmp_path)
    listed = figures(report)
    assert [figure.name for figure in listed] == ["emo", "win_rates", "training"]
    for figure in listed:
        assert len(texts_of(tmp_path / figure.svg)) > 10
        (page,) = PdfReader(tmp_path / figure.pdf).pages
        assert "emo" in page.extract_text()
    assert len({figure.title for figure in listed}) == 3
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert {str(path.relative_to(tmp_path)) for path in files} == {
        getattr(figure, form) for figure in listed for form in ("svg", "pdf")
    }
    draw_figures(whole_report(), tmp_path)
    assert {path: path.read_bytes() for path in files} == files


def test_hostile_names_appear_as_plain_text(tmp_path):
    each = [whole_report(name) for name in HOSTILE]
    report = report_of(
        *(judge for one in each for judge in one.judges),
        trainings=[training for one in each for training in one.trainings],
    )
    draw_figures(report, tmp_path)
    assert len(figures(report)) == len(HOSTILE) + 2
    for figure in figures(report):
        root = ElementTree.parse(tmp_path / figure.svg).getroot()
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not tags & {"script", "image", "foreignObject", "a"}


def test_a_judge_name_cannot_overwrite_another_figure():
    report = report_of(*(judge_of_tallies(counted(1), name=name) for name in ("Training", "win_rates", "../x", "..x")))
    assert [drawing.name for drawing in drawings(report)] == ["Training-1", "win_rates-2", "x", "x-4", "win_rates"]


def test_bars_contain_their_counts_and_a_warning(tmp_path):
    partial = comparison_of({"strict": counted(8, 0, 92)}, partial=True)
    judge = judge_of(comparison_of({"strict": counted(41, 13, 27, 4)}), partial, warning="proves the plumbing")
    draw_figures(report_of(judge), tmp_path)
    colors = {*re.findall("#[0-9a-f]{6}", (tmp_path / "figures" / "j.svg").read_text())}
    assert {"#0072b2", "#e69f00", "#d5d3cd", "#3d4248"} <= colors
    texts = texts_of(tmp_path / "figures" / "j.svg")
    assert {"41", "13", "27", "4", "8", "92", "Verdicts of j", "emo vs mle", "n = 81", "n = 100, PARTIAL"} <= {*texts}
    assert "proves the plumbing" in texts


@pytest.mark.parametrize("counts", [counted(), counted(failed=9), counted(win=1), counted(1, 1, 800, 2)])
def test_lopsided_counts_are_drawn(tmp_path, counts):
    draw_figures(report_of(judge_of_tallies(counts)), tmp_path)
    texts = texts_of(tmp_path / "figures" / "j.svg")
    # in the legend, and in place of the win rate
    judged = sum(pair.score is not None for pair in counts)
    assert texts.count("no verdict") == (judged < len(counts)) + (not judged)
    forest = texts_of(tmp_path / "figures" / "win_rates.svg")
    assert ("no verdict" in forest) == (not judged)


def test_the_forest_plot_names_every_judge_comparison_and_policy(tmp_path):
    policies = {"single": counted(50, 20, 30), "strict": counted(2, 0, 0, 9)}
    one = [comparison_of(policies), comparison_of({"single": counted(20, 0, 80)}, "a" * 40, "base", partial=True)]
    judges = [judge_of(*one, name="one"), judge_of(*one, name="two", warning="proves the plumbing")]
    draw_figures(report_of(*judges), tmp_path)
    texts = texts_of(tmp_path / "figures" / "win_rates.svg")
    assert {"one", "two (WARNING: see its verdicts)"} <= {*texts}
    for said in (
        "emo vs mle, single",
        "strict (exploratory, not corrected)",
        "100, too few, n = 2",
        f"{'a' * 15}… vs base, single",
        "20.0 (12.7–29.2), n = 100, PARTIAL",  # Clopper and Pearson's
    ):
        assert texts.count(said) == 2, said


def test_gradient_norm_spikes_give_a_logarithmic_axis(tmp_path):
    curve = [1.0 + step / 100 for step in range(60)]
    log = training_of("emo", list(range(60)), ce=curve, grad_norm=[*curve[:-1], 900.0])
    draw_figures(report_of(trainings=[log]), tmp_path)
    texts = texts_of(tmp_path / "figures" / "training.svg")
    assert {"1", "10", "100"} <= {*texts}


def test_a_large_forest_plot_shows_only_the_leading_policies():
    policies = {"upstream": counted(6, 1, 3), "strict": counted(5, 2, 3)}
    judges = [judge_of(*[comparison_of(policies)] * 11, name=str(number)) for number in range(3)]
    (forest,) = (drawing for drawing in drawings(report_of(*judges)) if drawing.name == "win_rates")
    rows = [row for _, own in forest.data.panels for row in own]
    assert len(rows) == 33
    assert all(row.leads for row in rows)


def test_training_curves_are_drawn_for_logged_values(tmp_path):
    steps = list(range(1, 60))
    mle = training_of("mle", steps, ce=[2.0] * 59, grad_norm=[0.5] * 59)
    broken = training_of("emo", steps, ce=[None] * 59)
    draw_figures(report_of(trainings=[mle, broken.model_copy(update={"objective": "emo, paper"})]), tmp_path)
    texts = texts_of(tmp_path / "figures" / "training.svg")
    assert {"mle (emo, official)", "cross-entropy (nats per token)", "gradient norm"} <= {*texts}
    assert not {"transport cost", "ratio of cross-entropy to cost", "emo (emo, paper)"} & {*texts}
    diverged = mle.model_copy(
        update={"log": broken.log, "evaluations": EvaluationLog(step=steps, perplexity=[None] * 59)}
    )
    assert not drawings(report_of(trainings=[diverged]))


def test_the_seeds_of_a_system_share_an_entry_of_the_legend(tmp_path):
    seeds = [training_of(f"mle-seed{seed}", [1, 2], ce=[2.0, 1.0]).model_copy(update={"seed": seed}) for seed in (1, 2)]
    evaluated = EvaluationLog(step=[1, 2], perplexity=[9.0, 8.0])
    report = report_of(trainings=[*seeds, training_of("emo", [1, 2], ce=[2.0, 1.5])])
    for each in report.trainings:
        each.evaluations = evaluated
    draw_figures(report, tmp_path)
    texts = texts_of(tmp_path / "figures" / "training.svg")
    assert [text for text in texts if "official" in text] == ["mle (emo, official), 2 seeds", "emo (emo, official)"]
    assert "perplexity on held-out rows" in texts


def test_matplotlib_settings_of_the_caller_are_unchanged(tmp_path):
    before = dict(mpl.rcParams)
    draw_figures(whole_report(), tmp_path)
    assert dict(mpl.rcParams) == before


def test_the_report_lists_draws_and_embeds_the_figures(judge_run, tmp_path):
    run = judge_run([WIN] * 30 + [TIE] * 10)
    log = [{"loss": 1.0, "step": step, "ce": 2.0 / step, "grad_norm": 0.5} for step in (1, 2, 3)]
    write_atomically(run.adapters / "mle" / "training_log.json", json.dumps(log))
    write_report(run.folder)
    page = (run.report / "report.html").read_text(encoding="utf-8")
    report = Report.read(run.folder)
    assert [figure.name for figure in report.figures] == ["j", "win_rates", "training"]
    for figure in report.figures:
        assert page.count(f'alt="{figure.title}; ') == 1
        assert (run.report / figure.pdf).is_file()
    picture = report.figures["win_rates"]
    assert (picture.title, picture.svg) == (report.figures[1].title, picture._repr_svg_())
    picture.save(tmp_path / "here.pdf")
    assert (tmp_path / "here.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"here.gif: the extension must be .svg or .pdf"):
        picture.save(tmp_path / "here.gif")
    with pytest.raises(KeyError, match="no figure 'none' in this report; it has j, win_rates"):
        report.figures["none"]
    assert report == Report.read(run.folder)
    assert report._repr_markdown_() == report.to_markdown()
    assert json.loads(report.to_json())["figures"][1]["name"] == "win_rates"


def test_a_bench_has_a_forest_plot_and_a_table_of_its_differences(tmp_path):
    run = bench_run(tmp_path / "bench", {"mle": 3, "dft": 3})
    judge_seeds(run, 3)
    report = write_report(run.folder).report
    assert "differences" in [figure.name for figure in report.figures]
    texts = texts_of(run.report / "figures" / "differences.svg")
    about = ["ROUGE-L of greedy answers", "cross-entropy", "win rate − ½ (j)"]
    assert sorted(text for text in texts if text in about) == about
    made = {claim.measure: claim for claim in report.claims if claim.family == "objectives"}
    assert [text for text in texts if text == "dft − mle"] == ["dft − mle"] * 3
    greedy = made["ROUGE-L of greedy answers"]
    assert f"{number(greedy.value, greedy.interval, sign=True)}, no difference shown" in texts
    with (run.report / "exports" / "claims.csv").open() as file:
        rows = {(row["family"], row["measure"]): row for row in csv.DictReader(file)}
    assert {float(rows["objectives", measure]["value"]) for measure in made} == {claim.value for claim in made.values()}
