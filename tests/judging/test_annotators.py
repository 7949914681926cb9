"""AlpacaEval's annotators: requests, parsers and preferences equal those of the installed package."""

from __future__ import annotations

import json

import alpaca_eval
import pandas as pd
import pytest
from alpaca_eval.annotators import PairwiseAnnotator

from instruct.base.errors import InputError
from instruct.base.replies import Completion
from instruct.engines.base import Request
from instruct.engines.server import ServerEngine
from instruct.engines.server_replies import read_reply
from instruct.judging.annotators import EQUAL_RANKS, annotator_names, annotator_preference
from instruct.judging.asking import Judge, engine_options
from instruct.judging.cards import annotator_card, load_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.annotation_files import annotation_rows
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import PromptTemplate, plan_comparison
from instruct.judging.store import JudgmentStore
from instruct.judging.verdicts import read_verdict
from instruct.judging.work import judge_plan

REFUSED = {
    "alpaca_eval_vllm_llama3_70b_fn", "alpaca_farm", "alpaca_farm_greedy_gpt4", "aviary_gpt4", "bedrock_claude",
    "bedrock_claude_2", "claude", "claude_2", "claude_3_opus_ranking", "claude_ranking", "cohere", "guanaco_33b",
    "lmsys_gpt4", "oasst_pythia_12b",
}  # fmt: skip
ASKED = sorted({*annotator_names()} - REFUSED)


def logprobs(**top: float) -> Completion:
    """A server's choice with these most likely first tokens."""
    entries = [{"token": token, "logprob": value} for token, value in top.items()]
    choice = {
        "message": {"role": "assistant", "content": "m"},
        "logprobs": {"content": [{"token": "m", "logprob": 0.0, "top_logprobs": entries}]},
    }
    return Completion("m", choice=choice)


def test_annotators_that_cannot_be_asked_are_refused_by_name():
    for name in REFUSED:
        with pytest.raises(InputError, match=f"annotator {name}: "):
            load_judge_card(name)
    with pytest.raises(InputError, match="unknown annotator"):
        annotator_card("../../evil")


@pytest.fixture(scope="module")
def rows():
    """Pairs with text that may break a prompt, such as placeholders."""
    return pd.DataFrame(
        [
            {"instruction": "Question 1? \n", "output_1": " one answer", "output_2": "another\n\n"},
            {"instruction": "Frage 2: ü 😀 {input}", "output_1": "ja {nein}", "output_2": "\u202eright to left"},
        ]
    )


@pytest.fixture(scope="module")
def server(shared_fake_server):
    return shared_fake_server()


@pytest.mark.parametrize("name", ASKED)
def test_requests_equal_those_of_the_package(name, server, rows):
    base_url, requests = server
    before = len(requests())
    annotator = PairwiseAnnotator(annotators_config=name, caching_path=None).annotators[name]
    prompts, _ = annotator._make_prompts(rows)
    kwargs = annotator.completions_kwargs | {"client_kwargs": {"base_url": base_url}}
    for prompt in prompts:  # one a call: to the legacy endpoint the package sends ten at a time
        annotator.fn_completions(prompts=[prompt], openai_api_keys=["sk-test"], num_procs=1, **kwargs)
    theirs = requests()[before:]

    card = load_judge_card(name)
    template = PromptTemplate(card)
    asked = [template.render_all(row, row["output_1"], row["output_2"])[0] for row in rows.to_dict("records")]
    engine = ServerEngine(engine_options(card), base_url, concurrency=1)
    replies = list(engine.complete([Request(str(key), prompt) for key, prompt in enumerate(asked)]))
    engine.close()
    assert sum(map(len, replies)) == len(theirs) == len(rows)
    ours = requests()[before + len(theirs) :]
    for body in (one["body"] for one in theirs):
        if "prompt" in body:
            (body["prompt"],) = body["prompt"]
    assert [one["path"] for one in ours] == [one["path"] for one in theirs]
    assert [one["body"] for one in ours] == [one["body"] for one in theirs]


@pytest.mark.parametrize("name", ["alpaca_eval_gpt4", "weighted_alpaca_eval_gpt4_turbo"])
def test_preferences_equal_those_of_the_package_row_by_row(name, fake_server, make_answers, tmp_path):
    unread = {"Question 5?": "nan"} if name.startswith("weighted") else {"Question 3?": "truncated"}
    base_url, _ = fake_server(unread, delay=0)
    sides = make_answers("ours", 40, "our answer to"), make_answers("theirs", 40, "their answer to")
    ours, theirs = (side.rows for side in sides)
    theirs[7]["output"] = ours[7]["output"]
    _, annotations = alpaca_eval.evaluate(
        model_outputs=pd.DataFrame(ours),
        reference_outputs=pd.DataFrame(theirs),
        annotators_config=name,
        precomputed_leaderboard=None,
        fn_metric="get_winrate",
        sort_by="win_rate",
        output_path=None,
        is_return_instead_of_print=True,
        annotation_kwargs={"client_kwargs": {"base_url": base_url}, "openai_api_keys": ["sk-test"]},
        caching_path=None,
    )
    package = {row["instruction"]: row["preference"] for row in annotations}

    card = load_judge_card(name)
    with JudgmentStore(tmp_path / "judgments.sqlite") as store:
        engine = ServerEngine(engine_options(card), base_url)
        judge = Judge(JudgeOptions(card=name))
        counts = judge_plan(judge, plan_comparison(judge, *sides, engine), store, engine)
        engine.close()
        judgments = store.judgments(ComparisonKey(name, "ours", "theirs"))
        found = annotation_rows(store, name, *sides)
    assert counts.without_request == 1

    equal = {judgment.instruction for judgment in judgments if judgment.reason == EQUAL_RANKS}
    weighted = [judgment.preference for judgment in judgments if judgment.preference is not None]
    for row in found:
        if row["instruction"] in equal:  # the package reads them as a win for the answer shown first
            assert row["preference"] == 1.5
            assert package[row["instruction"]] in (1, 2)
        elif row["preference"] is None:
            assert pd.isna(package[row["instruction"]])
        else:
            assert row["preference"] == package[row["instruction"]]
    assert bool(weighted) == name.startswith("weighted") != bool(equal)
    assert sum(row["preference"] is None for row in found) == len(unread)
    assert {"first", "second", "tie"} <= {judgment.verdict for judgment in judgments}


RANKING = load_judge_card("alpaca_eval_gpt4")
WEIGHTED = load_judge_card("weighted_alpaca_eval_gpt4_turbo")


@pytest.mark.parametrize(
    ("card", "completion", "preference", "verdict"),
    [
        (RANKING, Completion("[{'model': 'model_1', 'rank': 2}, {'model': 'model_2', 'rank': 2}]"), 1.5, "tie"),
        (RANKING, Completion("[{'model': 'model_1', 'rank': 1}, {'mod"), None, "unparsed"),
        (RANKING, Completion("__import__('os').abort()"), None, "unparsed"),
        (RANKING, Completion("[" * 100_000), None, "unparsed"),
        (WEIGHTED, logprobs(m=0.0, M=float("-inf")), 1.0, "first"),
        (WEIGHTED, logprobs(The=-0.1), None, "unparsed"),
        (WEIGHTED, logprobs(m=float("nan"), M=-0.1), None, "unparsed"),
        (WEIGHTED, Completion("m", choice={"message": {"tool_calls": [7]}}), None, "unparsed"),
    ],
)  # fmt: skip
def test_preference_and_verdict_of_a_reply(card, completion, preference, verdict, capfd):
    assert annotator_preference(card.annotator, completion) == preference
    reading = read_verdict(card, completion)
    assert reading.verdict == verdict
    assert reading.preference == (preference if card is WEIGHTED else None)
    assert (reading.reason == EQUAL_RANKS) == (card is RANKING and verdict == "tie")
    assert "".join(capfd.readouterr()) == ""  # the package logs such replies whole


def test_the_log_probabilities_of_a_judge_that_thinks_are_looked_for_after_its_thinking():
    """A server returns the thinking apart, and may return log-probabilities of all tokens."""
    message = {"content": "M", "reasoning_content": "Is m better?"}
    top = [{"m": -0.1, "M": -5.0}, {"m": -5.0, "M": -0.1}, {"m": -0.1}]
    entries = [
        {"token": token, "logprob": 0.0, "top_logprobs": [{"token": t, "logprob": p} for t, p in each.items()]}
        for token, each in zip(["<think>Is m better?</think>\n\n", "M", "<|im_end|>"], top, strict=True)
    ]
    choice = {"index": 0, "message": message, "logprobs": {"content": entries}, "finish_reason": "stop"}
    reply = read_reply(engine_options(WEIGHTED), json.dumps({"choices": [choice]}).encode())
    assert read_verdict(WEIGHTED, reply).verdict == "second"
