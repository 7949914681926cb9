"""AlpacaEval's annotators: requests, parsers and preferences equal those of the installed package."""

from __future__ import annotations

import json
from pathlib import Path

import alpaca_eval
import pandas as pd
import pytest
from alpaca_eval.annotators import PairwiseAnnotator

from instruct.base.errors import InputError
from instruct.base.replies import Completion
from instruct.engines.server import ServerEngine
from instruct.engines.server_replies import read_reply
from instruct.judging.annotators import EQUAL_RANKS, annotator_names, annotator_preference
from instruct.judging.asking import Judge, engine_options
from instruct.judging.cards import annotator_card, load_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.annotation_files import annotation_rows
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import Answers, PromptTemplate, plan_comparison
from instruct.judging.store import JudgmentStore
from instruct.judging.verdicts import IN_THINKING, read_verdict
from instruct.judging.work import judge_plan

REFUSED = {
    "alpaca_eval_vllm_llama3_70b_fn": "asks through vllm_local_completions",
    "alpaca_farm": "is a pool of 13 judges",
    "alpaca_farm_greedy_gpt4": "puts 5 pairs into one prompt",
    "aviary_gpt4": "always shows the baseline first",
    "bedrock_claude": "asks through bedrock_anthropic_completions",
    "bedrock_claude_2": "asks through bedrock_anthropic_completions",
    "claude": "asks through anthropic_completions",
    "claude_2": "asks through anthropic_completions",
    "claude_3_opus_ranking": "asks through anthropic_completions",
    "claude_ranking": "asks through anthropic_completions",
    "cohere": "asks through cohere_completions",
    "guanaco_33b": "asks through huggingface_api_completions",
    "lmsys_gpt4": "always shows the baseline first",
    "oasst_pythia_12b": "asks through huggingface_local_completions",
}
ASKED = sorted(set(annotator_names()) - REFUSED.keys())


@pytest.fixture(scope="module", autouse=True)
def _package_untouched():
    """Neither instruct nor these tests change a file of the package."""

    def files() -> dict[Path, int]:
        folder = Path(alpaca_eval.__file__).parent
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if "__pycache__" not in path.parts}

    before = files()
    yield
    assert files() == before


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def reply(text: str) -> Completion:
    return Completion(text)


def logprobs(**top: float) -> Completion:
    """A server's choice with these most likely first tokens."""
    entries = [{"token": token, "logprob": value} for token, value in top.items()]
    choice = {
        "message": {"role": "assistant", "content": "m"},
        "logprobs": {"content": [{"token": "m", "logprob": 0.0, "top_logprobs": entries}]},
    }
    return Completion("m", choice=choice)


@pytest.mark.parametrize("name", REFUSED)
def test_an_annotator_that_cannot_be_asked_is_refused_with_the_reason(name):
    with pytest.raises(InputError, match=f"annotator {name}: {REFUSED[name]}"):
        load_judge_card(name)


def test_an_unknown_annotator_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="nearest: gpt4_turbo_clf"):
        load_judge_card("gpt4_turbo_cfl")
    with pytest.raises(InputError, match="unknown annotator"):
        annotator_card("../../evil")


@pytest.mark.parametrize("name", ["alpaca_eval_gpt4", "weighted_alpaca_eval_gpt4_turbo"])
def test_packaged_cards_of_annotators_match_the_package(name):
    ours, package = load_judge_card(name), annotator_card(name)
    for field in ("model", "decoding", "prompt_form", "verdict", "order_policy"):
        assert getattr(ours, field) == getattr(package, field), field


@pytest.fixture(scope="module")
def rows():
    """Pairs with text that may break a prompt, such as placeholders."""
    return pd.DataFrame(
        [
            {"instruction": "Question 1? \n", "output_1": " one answer", "output_2": "another\n\n"},
            {"instruction": "Frage 2: ü 😀 {input}", "output_1": "ja {nein}", "output_2": "\u202eright to left"},
        ]
    )


@pytest.mark.parametrize("name", ASKED)
def test_requests_equal_those_of_the_package(name, fake_server, rows):
    base_url, requests = fake_server()
    annotator = PairwiseAnnotator(annotators_config=name, caching_path=None).annotators[name]
    prompts, _ = annotator._make_prompts(rows)
    kwargs = annotator.completions_kwargs | {"client_kwargs": {"base_url": base_url}}
    for prompt in prompts:  # one a call: to the legacy endpoint the package sends ten at a time
        annotator.fn_completions(prompts=[prompt], openai_api_keys=["sk-test"], num_procs=1, **kwargs)
    theirs = requests()

    card = load_judge_card(name)
    template = PromptTemplate(card)
    asked = [template.render_all(row, row["output_1"], row["output_2"])[0] for row in rows.to_dict("records")]
    from instruct.engines.base import Request

    engine = ServerEngine(engine_options(card), base_url, concurrency=1)
    replies = list(engine.complete([Request(str(key), prompt) for key, prompt in enumerate(asked)]))
    engine.close()
    assert sum(map(len, replies)) == len(theirs) == len(rows)
    ours = requests()[len(theirs) :]
    for body in (one["body"] for one in theirs):
        if "prompt" in body:
            (body["prompt"],) = body["prompt"]
    assert [one["path"] for one in ours] == [one["path"] for one in theirs]
    assert [one["body"] for one in ours] == [one["body"] for one in theirs]


@pytest.mark.parametrize(
    "name",
    ["alpaca_eval_gpt4", "weighted_alpaca_eval_gpt4_turbo", "alpaca_eval_cot_gpt4_turbo_fn", "gpt4_turbo_clf"],
)
def test_preferences_equal_those_of_the_package_row_by_row(name, fake_server, tmp_path):
    faults = {
        "alpaca_eval_gpt4": {"Question 3?": "truncated", "Question 4?": "blank"},
        "weighted_alpaca_eval_gpt4_turbo": {"Question 5?": "nan"},
    }.get(name, {})
    base_url, requests = fake_server(faults, delay=0)
    instructions = [f"Question {number}?" for number in range(40)]
    candidate = [f"our answer to {text}" for text in instructions]
    baseline = [f"their answer to {text}" for text in instructions]
    baseline[7] = candidate[7]

    def outputs(generator: str, answers: list[str]) -> list[dict[str, str]]:
        return [
            {"instruction": instruction, "output": answer, "generator": generator, "dataset": "test"}
            for instruction, answer in zip(instructions, answers, strict=True)
        ]

    ours, theirs = outputs("ours", candidate), outputs("theirs", baseline)
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
    asked_by_package = requests()

    card = load_judge_card(name)
    with JudgmentStore(tmp_path / "judgments.sqlite") as store:
        engine = ServerEngine(engine_options(card), base_url)
        sides = Answers("ours", ours), Answers("theirs", theirs)
        judge = Judge(JudgeOptions(card=name))
        counts = judge_plan(judge, plan_comparison(judge, *sides, engine), store, engine)
        engine.close()
        judgments = store.judgments(ComparisonKey(name, "ours", "theirs"))
        found = annotation_rows(store, name, *sides)
    assert counts.without_request == 1
    asked_by_us = requests()[len(asked_by_package) :]
    bodies = [
        sorted((one["body"] for one in asked), key=lambda body: json.dumps(body["messages"], sort_keys=True))
        for asked in (asked_by_package, asked_by_us)
    ]
    assert bodies[0] == bodies[1]

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
    assert bool(equal) == (name in ("alpaca_eval_gpt4", "alpaca_eval_cot_gpt4_turbo_fn"))
    assert bool(weighted) == name.startswith("weighted")
    assert sum(row["preference"] is None for row in found) == len(faults)
    assert {"first", "second", "tie"} <= {judgment.verdict for judgment in judgments}


RANKING = load_judge_card("alpaca_eval_gpt4")
WEIGHTED = load_judge_card("weighted_alpaca_eval_gpt4_turbo")


@pytest.mark.parametrize(
    ("card", "completion", "preference", "verdict"),
    [
        (RANKING, reply("[{'model': 'model_1', 'rank': 1}, {'model': 'model_2', 'rank': 2}]"), 1.0, "first"),
        (RANKING, reply("[{'model': 'model_2', 'rank': 1}, {'model': 'model_1', 'rank': 2}]"), 2.0, "second"),
        (RANKING, reply("[{'model': 'model_1', 'rank': 2}, {'model': 'model_2', 'rank': 2}]"), 1.5, "tie"),
        (RANKING, reply("[{'model': 'model_1', 'rank': 1}, {'mod"), None, "unparsed"),
        (RANKING, reply("__import__('os').abort()"), None, "unparsed"),
        (RANKING, reply("[" * 100_000), None, "unparsed"),
        (WEIGHTED, logprobs(m=0.0, M=float("-inf")), 1.0, "first"),
        (WEIGHTED, logprobs(M=-0.1, The=-9.0), 2.0, "second"),
        (WEIGHTED, logprobs(m=-0.7, M=-0.7), 1.5, "tie"),
        (WEIGHTED, logprobs(The=-0.1), None, "unparsed"),
        (WEIGHTED, logprobs(m=float("nan"), M=-0.1), None, "unparsed"),
        (WEIGHTED, Completion("m", choice={"message": {"tool_calls": [7]}}), None, "unparsed"),
        (annotator_card("improved_lmsys_gpt4"), reply("7 7\nBoth are fine."), 1.5, "tie"),
        (annotator_card("chatgpt"), reply("Output (b)"), 2.0, "second"),
        (annotator_card("gpt4_turbo_clf"), logprobs(A=-2.0, B=-0.2), 2.0, "second"),
    ],
)  # fmt: skip
def test_preference_and_verdict_of_a_reply(card, completion, preference, verdict, capfd):
    assert annotator_preference(card.annotator, completion) == preference
    reading = read_verdict(card, completion)
    assert reading.verdict == verdict
    assert reading.preference == (preference if card is WEIGHTED else None)
    assert (reading.reason == EQUAL_RANKS) == (card is RANKING and verdict == "tie")
    assert "".join(capfd.readouterr()) == ""  # the package logs such replies whole


@pytest.mark.parametrize("form", ["text", "logprobs", "cut off"])
def test_the_verdict_of_a_judge_that_thinks_is_looked_for_after_its_thinking(form: str):
    """A server returns the thinking apart, and may return log-probabilities of all tokens."""
    card = WEIGHTED if form == "logprobs" else RANKING
    thought = "Is m better? [{'model': 'model_2', 'rank': 1}, {'model': 'model_1', 'rank': 2}]"
    ranks = "[{'model': 'model_1', 'rank': 1}, {'model': 'model_2', 'rank': 2}]"
    text = {"text": ranks, "logprobs": "M", "cut off": ""}[form]
    message = {"content": text or None, "reasoning_content": thought}
    top = [{"m": -0.1, "M": -5.0}, {"m": -5.0, "M": -0.1}, {"m": -0.1}]
    entries = [
        {"token": token, "logprob": 0.0, "top_logprobs": [{"token": t, "logprob": p} for t, p in each.items()]}
        for token, each in zip([f"<think>{thought}</think>\n\n", "M", "<|im_end|>"], top, strict=True)
    ]
    choice = {"index": 0, "message": {"role": "assistant", **message}, "logprobs": {"content": entries}}
    choice["finish_reason"] = "length" if form == "cut off" else "stop"
    reply = read_reply(engine_options(card), json.dumps({"choices": [choice]}).encode())
    assert reply.reasoning == thought
    reading = read_verdict(card, reply)
    assert reading.verdict == {"text": "first", "logprobs": "second", "cut off": "unparsed"}[form]
    assert (reading.reason == IN_THINKING) == (form == "cut off")
