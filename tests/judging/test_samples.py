"""`--samples k`: a judge asked several times about each pair."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from instruct.judging.verdicts import sample_key
from tests.judging.test_retries import judge, run  # noqa: F401


def comparison(folder):
    (judged,) = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))["judges"]
    return judged["comparisons"][0]


@pytest.mark.slow
def test_further_samples_are_asked_once_and_averaged(judge, run, fake_server):  # noqa: F811
    url, requests = fake_server({"Question 3?": ["ok", "two"]})
    assert judge(url)[0] == 0  # a run of one sample
    assert comparison(run.folder)["noise"] is None
    assert judge(url, "--samples", "3")[0] == 0
    assert len(requests()) == 3 * 64
    assert judge(url, "--samples", "3")[0] == 0
    assert len(requests()) == 3 * 64
    with closing(sqlite3.connect(run.store)) as database:
        keys = dict(database.execute("SELECT instruction, key FROM judgments WHERE verdict != 'tie'").fetchall())
        assert len(database.execute("SELECT * FROM judgments").fetchall()) == 64
        changed = [key for name, key in keys.items() if "Question 3?" not in name][:8]
        for key in changed:  # the judge calls a tie when it is asked the third time
            database.execute("UPDATE completions SET text = 'Tie' WHERE key = ?", [sample_key(key, 2)])
        database.commit()
    code, output, _ = judge(url, "--samples", "3", "--reparse")
    assert code == 0
    found = comparison(run.folder)
    noise = found["noise"]
    assert (noise["samples"], noise["n"], noise["changed"], noise["missing"]) == (3, 64, 8, 1)
    prompts, judged = found["error"]["sources"]
    assert (prompts["source"], prompts["n"], judged["source"]) == ("prompts", 64, "judge")
    assert judged["half_width"] > 0
    assert prompts["share"] + judged["share"] == pytest.approx(100)
    assert found["requests"] == 3 * 64
    assert found["policies"]["single"]["kind"] == "weighted"
    assert "Asked 3 times: 8 of 64 pairs changed; the standard deviation of a verdict is" in " ".join(output.split())
    assert f"squared error: prompts, {prompts['share']:.0f} %; more prompts would lower it" in " ".join(output.split())


def test_what_has_nothing_to_measure_is_refused(judge, instruct, run, fake_server):  # noqa: F811
    url, requests = fake_server({})
    for flags, said in (
        (("--stop-when", "decided"), "judging that stops early asks each pair once"),
        (("--retry", "unparsed"), "--retry unparsed: --samples asks again already"),
    ):
        code, _, error = judge(url, "--samples", "2", *flags)
        assert (code, said in error) == (2, True), error
    code, _, error = instruct(
        "judge", str(run.folder), "--judge", "pandalm", "--candidate", "ours", "--baseline", "theirs",
        "--samples", "2", "--engine", "transformers",
    )  # fmt: skip
    assert (code, "decodes at temperature 0, so its reply is the same each time" in error) == (2, True), error
    assert requests() == []


@pytest.mark.slow
def test_alpaca_eval_2_without_log_probabilities_is_the_smoothed_share_of_samples(run, fake_server, instruct):  # noqa: F811
    url, requests = fake_server({"Question 3?": ["ok", "other"], "": "no_logprobs"})
    call = ("judge", run.folder, "--judge", "sampled_alpaca_eval", "--candidate", "ours", "--baseline", "theirs")
    code, output, error = instruct(*call, "--base-url", url)
    assert code == 0, error
    assert len(requests()) == 8 * 64
    found, noise = comparison(run.folder), comparison(run.folder)["noise"]
    assert (noise["samples"], noise["n"], noise["changed"], noise["missing"]) == (8, 64, 1, 0)
    figures = found["policies"]["single"]
    assert figures["kind"] == "weighted"
    # Each pair's score is (wins + 1/2) / 9: all but one have 0 or 8 wins.
    ninths = figures["win_rate"] / 100 * 64 * 9 - 64 / 2
    assert round(ninths, 4) % 8 in (1, 7)
    assert round(figures["discrete_win_rate"] / 100 * 64, 4) == round(ninths / 8)
    assert "Asked 8 times: 1 of 64 pairs changed; the standard deviation" in " ".join(output.split())
    assert instruct(*call, "--base-url", url, "--samples", "2")[0] == 0  # a call's number counts
    assert (len(requests()), comparison(run.folder)["noise"]["samples"]) == (8 * 64, 2)
