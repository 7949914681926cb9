"""`instruct compare`: runs side by side, paired differences, and warnings about runs that are not comparable."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from scipy import stats

from instruct.analysis.inference import paired_difference
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.judging.cards import load_judge_card
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.compare_runs import compare_runs, render_table, write_comparison
from instruct.reporting.render.lines import render_markdown
from instruct.run.directory import RunDirectory

WIN, LOSS, TIE = ("first", "second"), ("second", "first"), ("tie", "tie")
UNREAD = ("unparsed", "unparsed")


@pytest.fixture
def two(run, card, write_answers, judge_pairs, add_step):
    """Two runs of the same 20 prompts and baseline: 10 wins, 10 losses; 14 wins, a tie, an unparsed, 4 losses."""
    card("j")
    write_atomically(Path("judges/j/prompt.txt"), "{prompt}")
    for name in ("emo", "mle"):
        write_answers(name, 20)
    add_step("judge/j/emo_vs_mle", inputs={"card": load_judge_card("j").sha256(), "answers": {}})
    second = RunDirectory(shutil.copytree(run.folder, run.folder.parent / "second"))
    judge_pairs([WIN] * 10 + [LOSS] * 10)
    store_verdicts(second, [WIN] * 14 + [TIE, UNREAD] + [LOSS] * 4)
    return run, second


def store_verdicts(run: RunDirectory, verdicts: list[tuple[str, str]], judge: str = "j") -> None:
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment(judge, "emo", "mle", number, f"secret prompt {number}", "d", position, "k", verdict)
            for number, pair in enumerate(verdicts)
            for position, verdict in zip(("first", "second"), pair, strict=True)
        )


def rewrite(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    write_atomically(path, json.dumps(content))


def warnings_of(two) -> list[str]:
    first, second = compare_runs([run.folder for run in two]).rows
    assert first.warnings == []
    return second.warnings


def test_figures_of_a_common_judge_have_a_paired_difference(two):
    first, second = compare_runs([run.folder for run in two]).rows
    assert [row.entry.run for row in (first, second)] == ["small", "second"]
    assert (first.against, first.difference, first.warnings) == (None, None, [])
    assert second.against is first.entry
    assert second.warnings == []
    ours = [1.0] * 14 + [0.5] + [0.0] * 4  # the sixteenth pair has no verdict
    theirs = [1.0] * 10 + [0.0] * 9
    found = second.difference
    assert (found.n, found.difference) == (19, pytest.approx(100 * (14.5 - 10) / 19))
    assert found[:4] == paired_difference(dict(enumerate(ours)), dict(enumerate(theirs)))[:4]
    test = stats.permutation_test(
        ([a - b for a, b in zip(ours, theirs, strict=True)],), sum, permutation_type="samples", n_resamples=10**6
    )
    assert found.p == pytest.approx(test.pvalue)


def test_table_markdown_and_csv_have_the_same_content(two, tmp_path):
    found = compare_runs([run.folder for run in two])
    table, markdown = render_table(found), render_markdown(found.document())
    assert table.split("\n")[3].split()[:7] == ["j", "second", "emo", "mle", "strict", "19", "76.3"]
    assert "| j | second | emo | mle | strict | 19 | 76.3 |" in markdown
    assert "+23.7 (" in table
    assert "+23.7 (" in markdown
    p = found.rows[1].difference.p
    assert 0.001 < p < 0.2
    assert table.split("\n")[3].endswith(f"  {p:.3f}")
    assert "WARNING" not in table
    write_comparison(found, tmp_path / "c.csv")
    first, second = csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text()))
    assert (first["difference"], first["compared_with"]) == ("", "")
    assert float(second["difference"]) == pytest.approx(100 * 4.5 / 19, abs=1e-6)
    assert second["compared_with"] == "small: emo against mle"
    assert [second[key] for key in ("win", "tie", "loss", "unparsed")] == ["14", "1", "4", "1"]
    assert "secret" not in table + markdown + (tmp_path / "c.csv").read_text()


def test_different_prompts_are_reported_and_give_no_paired_difference(two):
    store_verdicts(two[0], [WIN] * 22)  # two more than the other
    _, second = compare_runs([run.folder for run in two]).rows
    assert second.difference is None
    said = "different prompts: 20 and 22, 20 in common; no paired difference without --common-prompts"
    assert said in second.warnings


def test_different_baseline_answers_are_reported(two):
    rewrite(two[1].outputs / "mle.json", lambda rows: rows[3].update(output="another"))
    assert warnings_of(two) == ["different answers of the baseline to 1 of 20 prompts"]


def test_equal_answers_in_different_files_give_no_warning(two):
    rewrite(two[1].outputs / "mle.json", lambda rows: [row.update(generator="x") for row in rows])
    assert warnings_of(two) == []


def test_missing_baseline_answers_are_reported(two):
    (two[1].outputs / "mle.json").unlink()
    assert warnings_of(two) == ["the baseline's answers are missing, so they may differ"]


def test_a_different_version_of_the_judge_card_is_reported(two):
    rewrite(two[1].manifest_path, lambda m: m["steps"]["judge/j/emo_vs_mle"]["inputs"].update(card="f" * 64))
    assert any(
        warning.startswith("different version of the judge's card: ffffffffffff") for warning in warnings_of(two)
    )
    rewrite(two[1].manifest_path, lambda m: m["steps"]["judge/j/emo_vs_mle"]["inputs"].pop("card"))
    assert warnings_of(two) == ["the version of the judge's card is known for only one of the two"]


def test_a_different_policy_and_unfinished_judging_are_reported(two):
    two[1].store.unlink()
    with JudgmentStore(two[1].store) as store:
        store.add_judgments(
            Judgment("j", "emo", "mle", n, f"secret prompt {n}", "d", "first", "k", "first") for n in range(12)
        )
    found = warnings_of(two)
    assert "different policy: single, not strict" in found
    assert "pairs shown in different orders: one, not both" in found
    assert "judging has not finished" in found


def test_a_judge_missing_from_the_first_run_is_shown_and_reported(two, card):
    card("only")
    store_verdicts(two[1], [WIN] * 20, judge="only")
    found = compare_runs([run.folder for run in two])
    (alone,) = [row for row in found.rows if row.entry.judge == "only"]
    assert alone.warnings == ["small has no verdicts by this judge"]
    assert alone.difference is None


def test_hostile_names_are_escaped(two):
    name = "=x|[red]\x1b[31m<b>"
    with JudgmentStore(two[1].store) as store:
        store.add_judgments([Judgment("j", name, "mle", 0, "secret prompt 0", "d", "first", "k", "first")])
    found = compare_runs([run.folder for run in two])
    assert "\x1b" not in render_table(found)
    assert "\x1b" not in render_table(found)
    assert "<b>" not in render_markdown(found.document())


def test_the_command_prints_the_table_and_names_the_files_it_writes(instruct, two, tmp_path):
    files = [tmp_path / "c.md", tmp_path / "c.csv"]
    flags = [flag for file in files for flag in ("--output", file)]
    code, out, stderr = instruct("compare", *(run.folder for run in two), *flags)
    assert (code, stderr) == (0, "")
    assert out.startswith("judge")
    assert [f"written: {file}" in out for file in files] == [True, True]
    assert files[0].read_text().startswith("# Systems side by side")
    assert files[1].read_text().startswith("judge,run,candidate")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs/small"], "no judge has compared two systems there"),
        (["runs/small", "./runs/../runs/small"], "given twice"),
        (["runs/small", "runs/absent"], "runs/absent is not a run directory"),
        (["runs/small", "runs/second", "--output", "c.txt"], "c.txt: the extension must be .md, .csv or .html"),
        (["runs/small", "runs/second", "--train.epochs", "3"], "unexpected argument '--train.epochs'"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(instruct, two, arguments, message):
    code, _, stderr = instruct("compare", *arguments)
    assert (code, stderr.count("\n")) == (2, 1)
    assert message in stderr


def test_runs_without_a_common_judge_are_refused(two):
    two[1].store.unlink()
    store_verdicts(two[1], [WIN], judge="another")
    with pytest.raises(InputError, match=r"no judge has judged in two of these runs \(j, another\)"):
        compare_runs([run.folder for run in two])


def test_a_tiny_p_value_is_not_shown_as_zero(two):
    store_verdicts(two[0], [LOSS] * 20)
    store_verdicts(two[1], [WIN] * 20)
    found = compare_runs([run.folder for run in two])
    assert 0 < found.rows[1].difference.p < 0.001
    assert render_table(found).split("\n")[3].endswith("  < 0.001")
    assert "| &lt; 0.001 |" in render_markdown(found.document())


def three_systems(run: RunDirectory, write_answers, judge: str = "j") -> None:
    """`a`, `b` and `c` against `mle` on 40 prompts: 30, 28 and 10 wins; `a` against `c` too: 33 wins."""
    with JudgmentStore(run.store) as store:
        for candidate, baseline, wins in (("a", "mle", 30), ("b", "mle", 28), ("c", "mle", 10), ("a", "c", 33)):
            write_answers(candidate, 40, output=f"the answer of {candidate}")
            store.add_judgments(
                Judgment(
                    judge, candidate, baseline, number, f"secret prompt {number}", "d", position, "k",
                    "first" if (number < wins) == (position == "first") else "second",
                )
                for number in range(40)
                for position in ("first", "second")
            )  # fmt: skip
    write_answers("mle", 40)


def test_systems_of_one_run_are_ranked_against_their_baseline(run, card, write_answers):
    card("j")
    three_systems(run, write_answers)
    found = compare_runs([run.folder])
    by_baseline = {ranking.baseline: ranking for ranking in found.rankings}
    assert by_baseline.keys() == {"mle", "a", "c"}  # `b` was compared with one system alone
    ranking = by_baseline["mle"]
    assert (ranking.judge, ranking.policy) == ("j", "strict")
    assert [(each.name, each.win_rate) for each in ranking.standings] == [("a", 75.0), ("b", 70.0), ("c", 25.0)]
    assert [each.rank_interval for each in ranking.standings] == [[1, 2], [1, 2], [3, 3]]
    assert ranking.warnings == []
    assert "| c | 3 | 3 | 40 | 25.0 |" in render_markdown(found.document())
    assert "1–2" in render_table(found)


def test_comparisons_that_cross_give_strengths(run, card, write_answers):
    card("j")
    three_systems(run, write_answers)
    (found,) = compare_runs([run.folder]).strengths
    assert [each.name for each in found.systems] == ["a", "b", "mle", "c"]
    assert sum(each.strength for each in found.systems) == pytest.approx(0, abs=1e-5)


def test_systems_of_several_runs_with_one_baseline_are_ranked_together(two):
    found = compare_runs([run.folder for run in two])
    (ranking,) = found.rankings
    assert [each.name for each in ranking.standings] == ["second: emo", "small: emo"]
    assert {each.n for each in ranking.standings} == {19}
    assert ranking.warnings == ["left out: 1 prompt without a verdict on every system"]
    assert found.strengths == []


def test_another_baseline_is_not_ranked_with_this_one(two):
    rewrite(two[1].outputs / "mle.json", lambda rows: rows[0].update(output="a better one"))
    assert compare_runs([run.folder for run in two]).rankings == []


def test_undetermined_strengths_are_said_and_not_shown(run, card, write_answers):
    card("j")
    three_systems(run, write_answers)
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment("j", "d", "e", number, f"secret prompt {number}", "d", position, "k", position)
            for number in range(40)
            for position in ("first", "second")
        )
    found = compare_runs([run.folder])
    assert {system.strength for each in found.strengths for system in each.systems} == {None}
    assert "Not determined" in render_table(found)


def test_page_has_the_figure_and_every_table_and_hides_nothing_from_the_policy(two, tmp_path):
    name = "<script>window.broken = 1</script>"
    with JudgmentStore(two[1].store) as store:
        store.add_judgments([Judgment("j", name, "mle", 0, "secret prompt 0", "d", "first", "k", "first")])
    write_comparison(compare_runs([run.folder for run in two]), tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert page.count("<table>") == 2
    assert "<script" not in page
    assert "default-src 'none'; style-src 'sha256-" in page


def annotated(path: Path, candidate: str, wins: int, prompts: int = 40, **more: object) -> str:
    """AlpacaEval's annotations: the candidate wins the first prompts."""
    rows = [
        {
            "instruction": f"Question {number}?",
            "generator_1": "base",
            "output_1": f"base {number}",
            "generator_2": candidate,
            "output_2": f"{candidate} {number}",
            "annotator": "some_judge",
            "preference": 2 if number < wins else 1,
        }
        | more
        for number in range(prompts)
    ]
    path.write_text(json.dumps(rows))
    return str(path)


def test_annotations_are_ranked_and_neighbors_told_apart(instruct, tmp_path):
    files = []
    for name, wins in (("a", 38), ("b", 20), ("c", 19)):
        (tmp_path / name).mkdir()
        files.append(annotated(tmp_path / name / "annotations.json", name, wins))
    (tmp_path / "c" / "annotations.json").write_text(json.dumps(json.loads(Path(files[2]).read_text())[::-1]))
    code, out, error = instruct("compare", *files)
    assert (code, error) == (0, "")
    said = "1 of 2 pairs of neighboring ranks can be told apart (paired tests, Holm's correction over all 3 pairs of"
    assert said in " ".join(out.split())
    (ranking,) = json.loads(instruct("compare", *files, "--json")[1])["rankings"]
    assert [each["name"] for each in ranking["standings"]] == ["a", "b", "c"]
    # 18 prompts are won by a alone: 2 ** -17, times three; one prompt tells b and c apart.
    assert [each["next_p"] for each in ranking["standings"]] == [pytest.approx(3 * 2**-13, abs=3e-4), 1.0, None]
    assert ranking["told_apart"] == 1
    assert not list(tmp_path.rglob("judgments.sqlite"))  # nothing is left behind


def test_annotations_on_different_prompts_are_ranked_on_those_that_all_have(tmp_path):
    (tmp_path / "c").mkdir()
    files = [annotated(tmp_path / "a.json", "a", 30), annotated(tmp_path / "b.json", "b", 20, 39)]
    other = annotated(tmp_path / "c" / "a.json", "c", 10, output_1="another answer")
    (ranking,) = compare_runs([*files, other]).rankings
    assert [(each.name, each.n) for each in ranking.standings] == [("a", 39), ("b", 39)]
    assert ranking.warnings == ["left out: 1 prompt without a verdict on every system"]


def test_common_prompts_have_a_paired_difference_on_demand(two, instruct):
    store_verdicts(two[0], [WIN] * 22)
    _, second = compare_runs([run.folder for run in two], common_prompts=True).rows
    assert second.difference is not None
    assert second.difference.n == 19  # one has no verdict
    said = "the difference is over 20 common prompts, which leaves out 0 of 20 and 2 of 22"
    assert said in second.warnings
    out = instruct("compare", *(run.folder for run in two), "--common-prompts", "--output", "c.md", "--quiet")[1]
    for text in (out, Path("c.md").read_text()):
        assert said in " ".join(text.split())
