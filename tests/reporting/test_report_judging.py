"""What the report says about judging: reasons, costs, notes, ratings, weights, other models, missing cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import warned

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.replies import Completion, Failure
from instruct.judging.cards import load_judge_card
from instruct.judging.human_agreement import agreement_warnings, agreement_words
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.comparison import _ratings
from instruct.reporting.model import Unjudged
from instruct.reporting.report import Difficulty, build_report, write_report

WIN = ("first", "second")
PROMPT = "{instruction} {first} {second}"


def only_comparison(run):
    (judge,) = build_report(run.folder).judges
    (comparison,) = judge.comparisons
    return comparison


def texts(run):
    report = build_report(run.folder)
    return write_report(run.folder).path.read_text(encoding="utf-8"), str(report)


def test_missing_verdicts_are_counted_with_their_reasons(run, card, write_answers, judge_showings):
    card("j", order_policy="one", leading_policy="single")
    write_answers("emo", 9)
    judge_showings(
        *[{"verdict": "failed", "reason": "too long: 5000 tokens"}] * 3,
        {"verdict": "failed", "reason": "HTTP 500 <b>x</b>|"},
        {"verdict": "unparsed", "reason": "two verdicts"},
        {"verdict": "unparsed"},
        {"verdict": "tie", "reason": "equal ranks"},
        {"verdict": "first"},
        {"verdict": "second"},
    )
    comparison = only_comparison(run)
    assert [each.model_dump() for each in comparison.reasons] == [
        {"verdict": "failed", "reason": "too long: 5000 tokens", "n": 3},
        {"verdict": "failed", "reason": "HTTP 500 <b>x</b>|", "n": 1},
        {"verdict": "tie", "reason": "equal ranks", "n": 1},
        {"verdict": "unparsed", "reason": "no reason recorded", "n": 1},
        {"verdict": "unparsed", "reason": "two verdicts", "n": 1},
    ]
    markdown, terminal = texts(run)
    assert "| emo | mle | failed | too long: 5000 tokens | 3 |" in markdown
    assert "| emo | mle | tie | equal ranks | 1 |" in markdown
    assert "  3 x failed: too long: 5000 tokens" in terminal
    assert "<b>" not in markdown


def test_every_missing_verdict_is_counted_even_with_many_reasons(run, card, write_answers, judge_showings):
    card("j", order_policy="one", leading_policy="single")
    write_answers("emo", 40)
    judge_showings(*[{"verdict": "failed", "reason": f"reason {number}"} for number in range(40)])
    reasons = only_comparison(run).reasons
    assert len(reasons) == 21
    assert sum(each.n for each in reasons) == 40
    assert reasons[-1].model_dump() == {"verdict": "failed", "reason": "other reasons", "n": 20}
    assert "\n  37 more without a verdict; report.md lists the reasons\n" in texts(run)[1]


def test_trimmed_pairs_are_counted_and_reported(run, card, write_answers, judge_showings):
    card("j", order_policy="one", leading_policy="single")
    write_answers("emo", 3)
    judge_showings({"verdict": "first", "trimmed": True}, {"verdict": "tie", "trimmed": True}, {"verdict": "second"})
    comparison = only_comparison(run)
    assert comparison.trimmed == 2
    assert warned(comparison) == ["the answers of 2 of 3 pairs were trimmed to fit the judge's context"]


def test_the_report_says_what_stopped_the_judging(run, card, write_answers, judge_pairs, add_step):
    card("j")
    write_answers("emo", 10)
    judge_pairs([WIN] * 4)
    stopped = "the budget of 0.5 USD is used up"
    add_step("judge/j/emo_vs_mle", status="stopped", results={"stopped": stopped, "asked": 8, "notes": ["greedy [x]"]})
    comparison = only_comparison(run)
    assert (comparison.partial, comparison.stopped) == (True, stopped)
    markdown, terminal = texts(run)
    sentence = f"PARTIAL: judging has not finished ({stopped}): 4 of 10 pairs judged in both orders; "
    assert sentence in markdown
    assert f"WARNING: {sentence}" in terminal
    assert "- greedy \\[x\\]" in markdown
    assert "  note: greedy [x]" in terminal


def test_judging_stopped_before_its_first_verdict_is_reported(run, card, write_answers, add_step):
    card("j")
    with JudgmentStore(run.store):
        pass
    inputs = {"answers": {"emo": "1", "elsewhere/theirs.json": "2"}, "judge": {"card": "j"}}
    add_step("judge/j@m/x/emo_vs_theirs", status="stopped", inputs=inputs, results={"stopped": "no money"})
    report = build_report(run.folder)
    assert report.judges == []
    (unjudged,) = report.not_judged
    assert unjudged == Unjudged(judge="j@m/x", candidate="emo", baseline="theirs", stopped="no money")
    markdown, terminal = texts(run)
    assert "- j&#64;m/x: emo against theirs (no money)" in markdown
    assert terminal == "NOT JUDGED YET: j@m/x: emo against theirs (no money)\n"


def test_costs_are_reported_by_judge(run, card, write_answers, judge_pairs):
    write_answers("emo", 2)
    for judge in ("dear", "free"):
        card(judge)
        judge_pairs([WIN] * 2, judge=judge)
    assert "Spent" not in texts(run)[1]
    with JudgmentStore(run.store) as store:
        store.add_replies("dear", [("a", Failure("no"), 1.25), ("b", Failure("no"), 0.5)])
        store.add_replies("gone since", [("c", Failure("no"), 0.25)])
    report = build_report(run.folder)
    assert (report.usd, [(judge.name, judge.usd) for judge in report.judges]) == (
        2.0, [("dear", 1.75), ("free", 0.0)]
    )  # fmt: skip
    markdown, terminal = texts(run)
    assert "\nSpent on judging: 2.00 USD (dear 1.75).\n" in markdown
    assert "\nSpent on judging: 2.00 USD (dear 1.75).\n" in terminal


def test_single_ratings_have_means_and_no_position_statistics(run, card, write_answers, judge_showings, tmp_path):
    card(
        "j", protocol="single", order_policy="one", leading_policy="single",
        verdict={"regex": "([0-9]+)", "rating": {"low": 1, "high": 10}},
    )  # fmt: skip
    write_answers("emo", 4)
    judge_showings(
        {"verdict": "first", "ratings": (8.0, 5.0)},
        {"verdict": "second", "ratings": (4.0, 7.0), "position": "second"},
        {"verdict": "tie", "ratings": (6.0, 6.0)},
        {"verdict": "unparsed", "reason": "no rating"},
    )
    comparison = only_comparison(run)
    assert comparison.ratings.model_dump() == {"candidate": 7.0, "baseline": 5.0, "n": 3, "turns": []}
    assert (comparison.orders, comparison.consistency, comparison.first_position_rate) == ("alone", None, None)
    assert (comparison.consistency_n, comparison.first_position_n, warned(comparison)) == (0, 0, [])
    figures = comparison.policies["single"]
    assert [getattr(figures, key) for key in ("win", "tie", "loss", "unparsed")] == [2, 1, 0, 1]
    markdown = texts(run)[0]
    assert "| emo | mle | 7.00 | 5.00 | 3 |" in markdown
    assert "| candidate | against | pairs judged | requests |" in markdown
    assert "first position" not in markdown


def test_a_weighted_judge_has_weighted_and_discrete_rates(run, card, write_answers, judge_showings):
    card("j", order_policy="one", leading_policy="single")
    for name in ("emo", "mle"):
        write_answers(name, 8)
    judge_showings(
        *[{"verdict": "second", "preference": 1.75, "position": "second"}] * 6,
        {"verdict": "first", "preference": 1.2, "position": "second"},
        {"verdict": "failed", "reason": "no log-probabilities"},
    )
    comparison = only_comparison(run)
    figures = comparison.policies["single"]
    assert (figures.kind, figures.win_rate, figures.discrete_win_rate) == ("weighted", 67.142857, 85.714286)
    assert figures.bounds == [58.75, 71.25]
    assert comparison.length_control.win_rate is None
    none = "no length-controlled rate: no instruction-difficulty file was given"
    assert comparison.length_control.note == none
    markdown, terminal = texts(run)
    headline = "too few pairs to compare emo with mle: weighted win rate 67.1 % (n = 7)"
    for text in (markdown, terminal):
        assert headline in text
        assert none in text
    assert "| emo | mle | single (leads) | 8 | 6 | 0 | 1 | 1 | 67.1 | 7.9 | 85.7 | 58.8–71.2 |" in markdown
    assert "Weighted judges grade their preference: the win rate is the mean grade" in markdown


def test_a_headline_says_who_is_preferred_on_more_prompts(run, card, write_answers, judge_showings):
    card("j", order_policy="random", leading_policy="single")
    write_answers("emo", 21)
    write_answers("mle", 21)
    shown = [("first", 1.01)] * 9 + [("second", 1.6)] * 12  # nine clear wins, twelve narrow losses
    judge_showings(*({"verdict": verdict, "preference": graded} for verdict, graded in shown))
    report, path = write_report(run.folder)
    line = "Preferred on more prompts: no difference shown (12 of 21; p = 0.664, corrected for 2 claims)"
    for text in (*report.headlines(), *(path.with_suffix(end).read_text() for end in (".html", ".json"))):
        assert text.count(line) == 1
    for text in (str(report), path.read_text()):
        assert text.count("Preferred on more prompts: no difference shown") == 1
    assert "preferred on more prompts" in (run.report / "exports" / "claims.csv").read_text()


def test_an_unweighted_judge_has_no_text_on_weights_or_length_control(run, card, write_answers, judge_pairs):
    card("j")
    write_answers("emo", 2)
    judge_pairs([WIN] * 2)
    assert only_comparison(run).length_control is None
    for text in texts(run):
        assert "eighted" not in text
        assert "length-controlled" not in text
        assert "discrete" not in text


def test_length_control_needs_the_answers_of_both_sides(run, card, write_answers, judge_showings, tmp_path):
    card("j", order_policy="one", leading_policy="single")
    write_answers("emo", 1)
    judge_showings({"verdict": "first", "preference": 1.2})
    (judge,) = build_report(run.folder).judges
    note = judge.comparisons[0].length_control.note
    assert note == "no length-controlled rate: the answers of mle are missing; give them as reference"
    with pytest.raises(InputError, match=r"d.csv: has no use here: no length-controlled rate: the answers of mle are"):
        build_report(run.folder, Difficulty("d.csv"))


def test_difficulties_that_no_judge_uses_are_refused(run, card, write_answers, judge_pairs):
    card("j")
    write_answers("emo", 2)
    judge_pairs([WIN] * 2)
    with pytest.raises(InputError, match=r"d.csv: has no use here: no judge of this run grades its preferences"):
        build_report(run.folder, Difficulty("d.csv"))


def test_a_difficulty_file_gives_a_length_controlled_rate(run, card, judge_showings, tmp_path):
    card("j", order_policy="one", leading_policy="single")
    rows = [(f"secret prompt {number}", 1.1 if number % 3 else 1.95, number % 3 + number % 5) for number in range(60)]
    for name, length in (("emo", 3), ("mle", 5)):
        answers = [
            {"dataset": "d", "instruction": prompt, "output": "x" * (length * number % 31 + 1), "generator": name}
            for number, (prompt, _, _) in enumerate(rows)
        ]
        write_atomically(run.outputs / f"{name}.json", json.dumps(answers))
    judge_showings(
        *[
            {"verdict": "tie" if value == 1.5 else "first" if value < 1.5 else "second", "preference": value}
            for _, value, _ in rows
        ]
    )
    lines = ["instruction,instruction_difficulty", *(f"{prompt},{difficulty}" for prompt, _, difficulty in rows)]
    write_atomically(tmp_path / "difficulty.csv", "\n".join(lines) + "\n")
    (judge,) = build_report(run.folder, Difficulty(tmp_path / "difficulty.csv")).judges
    found = judge.comparisons[0].length_control
    assert 0 < found.win_rate < 100
    assert 0 < found.standard_error < 10
    assert "difficulties from difficulty.csv, joined on the instruction" in found.note


def test_a_different_model_with_the_same_prompt_is_a_separate_judge(
    run, card, write_answers, judge_pairs, add_step, tmp_path
):
    card("j", human_agreement={"pandalm": {"pairs": 999, "accuracy": 66.8}})
    write_answers("emo", 2)
    judge_pairs([WIN] * 2, judge="j@org/other-model")
    add_step("judge/j@org/other-model/emo_vs_mle", inputs={"judge": {"card": "j", "model": "org/other-model"}})
    report = build_report(run.folder)
    (judge,) = report.judges
    assert (judge.name, judge.model, judge.other_model) == ("j@org/other-model", "org/other-model", True)
    assert (judge.human_agreement, judge.agreement) == (None, "not measured")
    for text in texts(run):
        assert "do not compare these figures with published ones" in text
    assert (run.report / "figures" / "j-org-other-model.svg").is_file()


def test_a_judge_that_contradicts_itself_is_said_to(run, card, write_answers, judge_pairs):
    card("j")
    write_answers("emo", 32)
    judge_pairs([("first", "second")] * 3 + [("first", "first")] * 28 + [("tie", "tie")])
    comparison = only_comparison(run)
    figures = comparison.leading_figures
    assert (figures.win, figures.tie, figures.contradicted, figures.identical, figures.loss) == (3, 29, 28, 0, 0)
    assert (figures.claim.finding, [round(end, 1) for end in figures.claim.interval]) == ("too few", [48.2, 61.0])
    markdown, terminal = texts(run)
    for text in (markdown, terminal):
        assert "too few pairs to compare emo with mle: win rate 54.7 % (95 % CI 48.2–61.0, n = 32)" in text
        assert "28 of 32 pairs: the judge contradicted itself" in text
    page = (run.report / "report.html").read_text(encoding="utf-8")
    assert "Too few: 3 pairs with a winner of 32 judged; a finding needs at least 6 decided pairs" in page
    assert '<i class="tie"></i>tie called by the judge <b>1</b>' in page
    assert '<i class="split"></i>judge contradicted itself <b>28</b>' in page
    assert "judge contradicted itself" in (run.report / "figures" / "j.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (
            {"accuracy": 42.24, "kappa": -0.001, "kappa_interval": [-0.04, 0.04], "yardstick": "the longer answer",
             "yardstick_accuracy": 61.06},
            "s: no better than chance (κ 0.00; accuracy 42.2 % of 999; always the longer answer: 61.1 %)",
        ),
        (
            {"accuracy": 66.77, "kappa": 0.4354, "kappa_interval": [0.39, 0.48], "both_orders": 54.95},
            "s: κ 0.44 (accuracy 66.8 % of 999; 55.0 % right in both orders)",
        ),
        (
            {"pairs": 40, "accuracy": 75.0, "accuracy_interval": [59.8, 85.8], "kappa": 0.5},
            "s: κ 0.50 (accuracy 75.0 % of 40, 95 % CI 59.8–85.8), too few pairs to rely on",
        ),
    ],
)  # fmt: skip
def test_trust_names_kappa_first(card, figures, words):
    card("j", human_agreement={"s": {"pairs": 999} | figures})
    found = load_judge_card("j")
    assert agreement_words(found) == words
    small = figures.get("pairs") == 40
    assert any("was validated on 40 pairs of s only" in text for text in agreement_warnings(found)) == small


def test_agreement_with_human_labels_is_reported_as_measured(run, card, write_answers, judge_pairs, tmp_path):
    write_atomically(tmp_path / "judges" / "j" / "prompt.txt", PROMPT)
    card("j")
    digest = load_judge_card("j").sha256()
    measured = {"pairs": 999, "accuracy": 37.24, "kappa": 0.041, "judge": digest[:12], "measured": "2026-11-21"}
    card("j", human_agreement={"pandalm": measured, "autoj": {"pairs": 1392}})
    write_answers("emo", 2)
    judge_pairs([WIN] * 2)
    report = build_report(run.folder)
    assert report.judges[0].human_agreement["pandalm"] == measured
    words = "agreement with people: autoj: 1392 pairs; pandalm: κ 0.04 (accuracy 37.2 % of 999)."
    for text in texts(run):
        assert words in text


def test_a_judge_that_does_not_beat_the_best_yardstick_is_warned_about_in_every_report(
    run, card, write_answers, judge_pairs
):
    worse = {"pairs": 999, "accuracy": 42.24, "yardstick": "the longer answer", "yardstick_accuracy": 61.06}
    card("j", human_agreement={"pandalm": worse})
    write_answers("emo", 2)
    judge_pairs([WIN] * 2)
    warning = "judge agrees with people no better than the longer answer does: 42.2 % against 61.1 % of 999 pairs"
    for text in texts(run):
        assert warning in text
        assert "pandalm: accuracy 42.2 % of 999 (always the longer answer: 61.1 %)" in text


def test_log_odds_of_both_orders_are_averaged_next_to_strict(run, card, write_answers):
    labels = {"first": "A", "second": "B"}
    card("j", verdict={"labels": labels, "tie_margin": 0.1}, leading_policy="averaged")
    write_answers("emo", 2)
    write_answers("mle", 2)
    # always the answer shown first, but by more if that is the candidate's; then the same the other way round
    odds = {(0, "first"): 2.0, (0, "second"): 0.5, (1, "first"): 0.2, (1, "second"): 1.0}
    with JudgmentStore(run.store) as store:
        store.add_replies(
            "j", [(f"{key[0]}{key[1]}", Completion("A", {"A": value, "B": 0.0}), 0.0) for key, value in odds.items()]
        )
        store.add_judgments(
            Judgment(
                "j", "emo", "mle", number, f"secret prompt {number}", "d", position, f"{number}{position}", "first"
            )
            for number, position in odds
        )
    comparison = build_report(run.folder).judges[0].comparisons[0]
    assert list(comparison.policies) == ["averaged", "strict"]
    leading, strict = comparison.leading_figures, comparison.policies["strict"]
    assert (leading.win, leading.tie, leading.loss) == (1, 0, 1)
    assert (strict.win, strict.tie, strict.loss) == (0, 2, 0)
    assert "averaged (leads)" in texts(run)[0]


@pytest.mark.parametrize("damage", ["judge.yaml", "prompt.txt"])
def test_an_invalid_judge_card_does_not_stop_the_report(run, card, write_answers, judge_pairs, tmp_path, damage):
    write_atomically(tmp_path / "judges" / "j" / "prompt.txt", PROMPT)
    card("j", human_agreement={"s": {"pairs": 9, "judge": "0" * 12}})
    write_answers("emo", 2)
    judge_pairs([WIN] * 2)
    path = tmp_path / "judges" / "j" / damage
    if damage == "judge.yaml":
        path.write_text("nothing: that a card has\n")
    else:
        path.unlink()
    (judge,) = build_report(run.folder).judges
    assert judge.comparisons[0].policies["strict"].win == 2
    assert damage in judge.warnings[0]


def test_identical_answers_are_counted_apart(run, card, write_answers, judge_showings):
    card("j", order_policy="one", leading_policy="single")
    write_answers("emo", 10)
    same = {"verdict": "tie", "reason": "identical outputs", "key": ""}
    judge_showings(*[{"verdict": "first"}] * 5, {"verdict": "second"}, {"verdict": "tie"}, *[same] * 3)
    figures = only_comparison(run).leading_figures
    assert (figures.win, figures.tie, figures.identical, figures.loss, figures.win_rate) == (5, 4, 3, 1, 70.0)
    markdown, terminal = texts(run)
    assert "win rate 70 %" in terminal
    excluded = "differences beyond ±38 points are excluded (90 % CI)"
    assert f"n = 10, 3 identical); {excluded}. 1 of 10 pairs: the judge called a tie" in terminal
    assert "| policy | n | win | tie | identical | loss |" in markdown.replace("candidate | against | ", "")
    assert "the judge was not asked about" in markdown
    page = (run.report / "report.html").read_text(encoding="utf-8")
    assert '<i class="tie"></i>tie called by the judge <b>1</b>' in page
    assert '<i class="same"></i>identical answers <b>3</b>' in page
    assert "identical answers" in (run.report / "figures" / "j.svg").read_text(encoding="utf-8")


def test_stored_winners_of_identical_answers_are_warned_about(run, card, write_answers, judge_showings):
    card("j", order_policy="one", leading_policy="single")
    write_answers("emo", 3, "the same")
    write_answers("mle", 3, "the same")
    judge_showings({"verdict": "first"}, {"verdict": "second"}, {"verdict": "tie"})
    assert warned(only_comparison(run)) == [
        "2 verdicts for one of two identical answers; `instruct judge --reparse` makes them ties"
    ]


def test_a_run_keeps_the_difficulties_that_a_report_was_given(instruct, run, card, write_answers, judge_showings):
    card("j", order_policy="one", leading_policy="single")
    for name in ("emo", "mle"):
        rows = [
            {"instruction": f"secret prompt {number}", "output": name * (number % 5 * (name == "emo") + 1)}
            for number in range(8)
        ]
        write_atomically(run.outputs / f"{name}.json", json.dumps(rows))
    judge_showings(*[{"verdict": "first", "preference": 1 + number / 20} for number in range(8)])
    table = "".join(f"{number},{number / 9}\n" for number in range(8))
    Path("difficulty.csv").write_text("index,instruction_difficulty\n" + table)
    Path("prompts.json").write_text(json.dumps([{"instruction": f"secret prompt {number}"} for number in range(8)]))
    flags = ("--instruction-difficulty", "difficulty.csv", "--difficulty-prompts", "prompts.json")
    assert instruct("report", run.folder, *flags)[0] == 0
    written = {path: path.read_bytes() for path in run.report.rglob("*") if path.is_file()}
    assert json.loads(written[run.report / "report.json"])["judges"][0]["comparisons"][0]["length_control"]["win_rate"]
    for name in ("difficulty.csv", "prompts.json"):
        Path(name).unlink()
    assert instruct("report", run.folder)[0] == 0
    assert {path: path.read_bytes() for path in written} == written

    # Files that do not fit are refused if they are given, and noted if they are kept.
    Path("difficulty.csv").write_text("instruction,instruction_difficulty\nanother,1\n")
    code, _, error = instruct("report", run.folder, "--instruction-difficulty", "difficulty.csv")
    assert code == 2
    assert "has no difficulty for 8 of 8 prompts" in error
    assert error.endswith(
        "the difficulties of the prompts that were judged (--instruction-difficulty), and the prompts of that file in "
        "its order (--difficulty-prompts)\n"
    )
    judge_showings(*[{"verdict": "first", "preference": 1.2, "instruction": f"q{n}"} for n in range(9)], judge="k")
    assert instruct("report", run.folder)[0] == 0
    report = build_report(run.folder)
    rates = {judge.name: judge.comparisons[0].length_control for judge in report.judges}
    assert rates["j"].win_rate is not None
    assert "has no difficulty for 9 of 9 prompts" in rates["k"].note


def test_ratings_of_turns_have_the_means_of_the_official_script(tmp_path):
    """FastChat's show_result.py (single): the mean score of a model by turn, and over both turns."""
    import pandas

    scores = {("81", 1): (8.0, 6.0), ("81", 2): (5.0, 7.0), ("82", 1): (9.0, 6.5), ("82", 2): (4.0, 4.0)}
    judgments = [
        Judgment(
            "j", "emo", "mle", number, f"{id}, turn {turn}", "math", "first", f"k{number}", "first", ratings=ratings
        )
        for number, ((id, turn), ratings) in enumerate(scores.items())
    ]
    frame = pandas.DataFrame(
        [
            {"model": model, "turn": turn, "score": ratings[side]}
            for (_, turn), ratings in scores.items()
            for side, model in enumerate(("emo", "mle"))
        ]
    )
    by_turn = frame.groupby(["model", "turn"])["score"].mean()
    overall = frame.groupby("model")["score"].mean()
    found = _ratings(judgments)
    assert (found.candidate, found.baseline, found.n) == (overall["emo"], overall["mle"], 4)
    for number, turn in enumerate(found.turns, start=1):
        assert (turn.candidate, turn.baseline, turn.n) == (by_turn["emo", number], by_turn["mle", number], 2)


def test_too_few_conversations_are_named_where_there_are_enough_pairs(run, card, write_answers):
    card("j", order_policy="one", leading_policy="single")
    turns = [
        {"dataset": "d", "instruction": f"q{number}", "id": f"{number // 2}, turn {1 + number % 2}"}
        for number in range(8)
    ]
    run.outputs.mkdir(exist_ok=True)
    for name in ("emo", "mle"):
        rows = [turn | {"generator": name, "output": f"{name} {turn['id']}"} for turn in turns]
        (run.outputs / f"{name}.json").write_text(json.dumps(rows))
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment("j", "emo", "mle", number, turn["id"], "d", "first", f"k{number}", "first")
            for number, turn in enumerate(turns)
        )
    (warning,) = [text for text in texts(run)[1].splitlines() if "too few: " in text]
    decided = "8 pairs with a winner of 8 judged, all of them in 4 clusters"
    assert f"{decided}; a finding needs at least 6 clusters" in warning
