"""The figures: valid SVG and PDF, the report's numbers in them, and hostile names as plain text."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import pytest
from bench_runs import bench_run, judge_seeds
from pypdf import PdfReader

from instruct.analysis.results import WIN_RATE
from instruct.analysis.statistics import Tally
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
from instruct.reporting.report import Report, build_report, write_report
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
    policies = {"single": Tally(41, 13, 27, 3, 1), "strict": Tally(40, 20, 25)}
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
    report = report_of(*(judge_of_tallies(Tally(1), name=name) for name in ("Training", "win_rates", "../x", "..x")))
    assert [drawing.name for drawing in drawings(report)] == ["Training-1", "win_rates-2", "x", "x-4", "win_rates"]


def test_figures_without_data_are_not_drawn():
    judge = judge_of_tallies(Tally(1))
    without_log = Training.model_construct(system="emo", objective="mle", log=None)
    report = report_of(judge, trainings=[without_log])
    assert [drawing.name for drawing in drawings(report)] == ["j", "win_rates"]


def test_outcome_bars_contain_their_counts(tmp_path):
    draw_figures(report_of(judge_of_tallies(Tally(41, 13, 27, 3, 1), Tally(8, 0, 92))), tmp_path)
    colors = {*re.findall("#[0-9a-f]{6}", (tmp_path / "figures" / "j.svg").read_text())}
    assert {"#0072b2", "#e69f00", "#d5d3cd", "#3d4248"} <= colors
    texts = texts_of(tmp_path / "figures" / "j.svg")
    assert {"41", "13", "27", "4", "8", "92", "Verdicts of j", "emo vs mle", "n = 81", "n = 100"} <= {*texts}
    assert texts.count("0") == 1  # on the axis only: empty parts of a bar have no label


def test_the_outcomes_figure_shows_the_warning_and_partial_comparisons(tmp_path):
    judge = judge_of(comparison_of({"strict": Tally(3, 2, 1)}, partial=True), warning="proves the plumbing")
    draw_figures(report_of(judge), tmp_path)
    texts = texts_of(tmp_path / "figures" / "j.svg")
    assert "proves the plumbing" in texts
    assert "n = 6, PARTIAL" in texts


@pytest.mark.parametrize("counts", [Tally(), Tally(failed=9), Tally(win=1), Tally(1, 1, 800, 1, 1)])
def test_lopsided_counts_are_drawn(tmp_path, counts):
    draw_figures(report_of(judge_of_tallies(counts)), tmp_path)
    texts = texts_of(tmp_path / "figures" / "j.svg")
    parts = [counts.win, counts.tie, counts.loss, counts.unread]
    assert {str(part) for part in parts if part} <= {*texts}
    # in the legend, and in place of the win rate
    assert texts.count("no verdict") == bool(counts.unread) + (not counts.n_judged)
    forest = texts_of(tmp_path / "figures" / "win_rates.svg")
    assert ("no verdict" in forest) == (not counts.n_judged)


def test_the_forest_plot_names_every_judge_comparison_and_policy(tmp_path):
    policies = {"single": Tally(50, 20, 30), "strict": Tally(60, 0, 40)}
    judges = [
        judge_of(comparison_of(policies), comparison_of({"single": Tally(20, 0, 80)}, "mle", "base"), name=name)
        for name in ("one", "two")
    ]
    draw_figures(report_of(*judges), tmp_path)
    texts = texts_of(tmp_path / "figures" / "win_rates.svg")
    assert [text for text in texts if text in ("one", "two")] == ["one", "two"]
    assert texts.count("emo vs mle") == texts.count("mle vs base") == 2
    assert (texts.count("strict"), texts.count("single")) == (2, 4)
    assert texts.count("20.0 (13.3–28.9), n = 100") == 2  # Wilson's


def test_the_forest_plot_marks_warnings_small_samples_and_partial_comparisons(tmp_path):
    comparison = comparison_of({"single": Tally(2), "strict": Tally(2, 0, 0, 0, 9)}, partial=True)
    draw_figures(report_of(judge_of(comparison, warning="proves the plumbing")), tmp_path)
    texts = texts_of(tmp_path / "figures" / "win_rates.svg")
    assert "j (WARNING: see the figure of its verdicts)" in texts
    assert texts.count("100, too few, n = 2, PARTIAL") == 2


def test_gradient_norm_spikes_give_a_logarithmic_axis(tmp_path):
    curve = [1.0 + step / 100 for step in range(60)]
    log = training_of("emo", list(range(60)), ce=curve, grad_norm=[*curve[:-1], 900.0])
    draw_figures(report_of(trainings=[log]), tmp_path)
    texts = texts_of(tmp_path / "figures" / "training.svg")
    assert {"1", "10", "100"} <= {*texts}


def test_names_are_shortened_only_if_both_are_too_long(tmp_path):
    names = [("a", "b" * 29), ("c" * 9, "d" * 99)]
    draw_figures(report_of(judge_of(*(comparison_of({"single": Tally(7, 0, 3)}, *each) for each in names))), tmp_path)
    texts = texts_of(tmp_path / "figures" / "win_rates.svg")
    assert {f"a vs {'b' * 29}", f"{'c' * 9} vs {'d' * 15}…"} <= {*texts}


def test_a_large_forest_plot_shows_only_the_leading_policies():
    policies = {"upstream": Tally(6, 1, 3), "strict": Tally(5, 2, 3)}
    judges = [judge_of(*[comparison_of(policies)] * 11, name=str(number)) for number in range(3)]
    (forest,) = (drawing for drawing in drawings(report_of(*judges)) if drawing.name == "win_rates")
    assert len(forest.data) == 33
    assert {row.claim.policy for row in forest.data} == {"upstream"}


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


def test_the_report_lists_draws_and_embeds_the_figures(run, card, judge_pairs, write_answers):
    card("j")
    for name in ("emo", "mle"):
        write_answers(name, 40)
        log = [{"loss": 1.0, "step": step, "ce": 2.0 / step, "grad_norm": 0.5} for step in (1, 2, 3)]
        write_atomically(run.adapters / name / "training_log.json", json.dumps(log))
    judge_pairs([("first", "second")] * 30 + [("tie", "tie")] * 10)
    path = write_report(run.folder).path
    report = json.loads((run.report / "report.json").read_text(encoding="utf-8"))
    assert report["figures"] == build_report(run.folder).model_dump()["figures"]
    assert [figure["name"] for figure in report["figures"]] == [
        "j",
        "win_rates",
        "training",
    ]
    markdown = path.read_text(encoding="utf-8")
    for figure in report["figures"]:
        assert markdown.count(f"]({figure['svg']})") == 1
        assert (run.report / figure["svg"]).is_file()
        assert (run.report / figure["pdf"]).is_file()


def test_a_bench_has_a_forest_plot_and_a_table_of_its_differences(tmp_path):
    run = bench_run(tmp_path / "bench", {"mle": 3, "dft": 3})
    judge_seeds(run, 3)
    report = write_report(run.folder).report
    assert "differences" in [figure.name for figure in report.figures]
    assert "(figures/differences.svg)" in (run.report / "report.md").read_text()
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


def test_a_report_in_python_draws_its_figures(run, card, write_answers, judge_pairs, tmp_path):
    card("j")
    for name in ("emo", "mle"):
        write_answers(name, 8)
    judge_pairs([("first", "second")] * 8)
    write_report(run.folder)
    report = Report.read(run.folder)
    assert [figure.name for figure in report.figures] == ["j", "win_rates"]
    assert report.figures[1].pdf == "figures/win_rates.pdf"
    picture = report.figures["win_rates"]
    assert picture.title == report.figures[1].title
    assert picture.svg == picture._repr_svg_()
    picture.save(tmp_path / "here.svg")
    assert {"emo vs mle", "n = 8"} & {*texts_of(tmp_path / "here.svg")}
    picture.save(tmp_path / "here.pdf")
    assert (tmp_path / "here.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"here.gif: the extension must be .svg or .pdf"):
        picture.save(tmp_path / "here.gif")
    with pytest.raises(KeyError, match="no figure 'none' in this report; it has j, win_rates"):
        report.figures["none"]
    assert report == Report.read(run.folder)
    assert json.loads(report.to_json())["figures"][1]["name"] == "win_rates"
    assert report._repr_markdown_() == report.to_comment()
