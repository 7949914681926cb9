"""Prices, estimates and budgets."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.base.errors import InputError
from instruct.engines.base import Request, likely_tokens, most_tokens
from instruct.judging.cards import load_judge_card
from instruct.judging.money import Budget, Price, estimate_of, gate, is_free, price_of
from instruct.judging.presentations import PromptTemplate

CENT = Price(10_000, 20_000)  # a cent per prompt token, two per completion token


@pytest.fixture
def local_table(tmp_path, monkeypatch):
    """The user's own ./judges/prices.yaml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judges").mkdir()
    return tmp_path / "judges" / "prices.yaml"


def test_a_price_in_the_installed_table_is_that_of_its_model_and_endpoint_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert price_of("gpt-4o-2024-05-13", "https://api.openai.com/v1/") == Price(5, 15)
    assert price_of("gpt-4o-2024-08-06", "api.openai.com") == Price(2.5, 10)
    assert price_of("gpt-7", "api.openai.com") is None
    assert price_of("gpt-4", "https://api.example.org/v1") is None


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4-1106-preview", "gpt-4o-mini-2024-07-18"])
def test_input_prices_equal_those_of_alpaca_eval(model):
    from alpaca_eval.decoders.openai import _get_price_per_token

    price = price_of(model, "api.openai.com")
    assert price is not None
    assert price.input == pytest.approx(1e6 * _get_price_per_token(model))


def test_a_local_table_extends_and_overrides_the_installed_one(local_table):
    local_table.write_text(
        "prices:\n  - {model: gpt-4, input: 1, output: 2}\n"
        "  - {model: '*', endpoint: 'localhost:4000', input: 3, output: 4}\n"
        "  - {model: mine, endpoint: 'http://10.0.0.7', input: 5, output: 6}\n"
    )
    assert price_of("gpt-4", "api.openai.com") == Price(1, 2)
    assert price_of("gpt-4-1106-preview", "api.openai.com") == Price(10, 30)
    assert price_of("anything", "http://localhost:4000/v1") == Price(3, 4)
    assert price_of("anything", "http://localhost:4001/v1") is None
    assert price_of("mine", "http://10.0.0.7:8000/v1") == Price(5, 6)


@pytest.mark.parametrize("price", ["-1", ".nan"])
def test_an_invalid_table_is_refused(local_table, price):
    local_table.write_text(f"prices:\n  - {{model: gpt-4, input: {price}, output: 2}}\n")
    with pytest.raises(InputError, match=r"^judges/prices\.yaml: .*prices\.0\.input"):
        price_of("gpt-4", "api.openai.com")


@pytest.mark.parametrize(
    ("endpoint", "free"),
    [
        (None, True),
        ("http://127.0.0.1:8000/v1", True),
        ("10.1.2.3:8000", True),
        ("https://8.8.8.8/v1", False),
        ("http://127.0.0.1.example.org/v1", False),
        ("http://user@127.0.0.1:1@example.org/v1", False),
        ("http://[::1", False),
    ],
)
def test_only_the_users_own_addresses_are_free(endpoint, free):
    assert is_free(endpoint) is free


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2)


@settings(deadline=None)
@given(
    st.one_of(
        st.text(st.characters(codec="utf-8"), max_size=200),
        st.lists(
            st.fixed_dictionaries({"role": st.just("user"), "content": st.text(st.characters(codec="utf-8"))}),
            min_size=1,
            max_size=3,
        ),
    )
)
def test_a_prompt_never_has_more_tokens_than_the_bound(tokenizer, prompt):
    if isinstance(prompt, list):
        # With a system message, or the template adds one of its own, which is no part of the prompt.
        prompt = [{"role": "system", "content": ""}, *prompt]
        text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    else:
        text = prompt
    ids = tokenizer(text)["input_ids"]
    assert len(ids) <= most_tokens(prompt)


@pytest.fixture(scope="module")
def published(shared_data):
    """The prompts that GPT-4 was asked for AlpacaEval, and the tokens billed for each."""
    template = PromptTemplate(load_judge_card("alpaca_eval_gpt4"))
    path = shared_data / "alpaca_eval" / "alpaca-7b.alpaca_eval_gpt4.annotations.json"
    rows = [row for row in json.loads(path.read_text()) if row["price_per_example"]]
    prompts = [template.render_all(row, row["output_1"], row["output_2"])[0] for row in rows]
    return prompts, [row["price_per_example"] / 30e-6 for row in rows]  # one price for all tokens, alpaca_eval's


def test_the_estimate_is_close_to_a_tokenizer_and_to_gpt4_bills(published, tokenizer):
    prompts, bills = published
    texts = ["".join(message["content"] for message in prompt) for prompt in prompts]
    counted = sum(len(ids) for ids in tokenizer(texts)["input_ids"])
    reckoned = sum(map(likely_tokens, prompts))
    assert reckoned == pytest.approx(counted, rel=0.25)
    assert reckoned == pytest.approx(sum(bills), rel=0.25)
    assert len(prompts) == 789
    assert all(most_tokens(prompt) + 100 >= bill for prompt, bill in zip(prompts, bills, strict=True))


@pytest.mark.parametrize(
    ("price", "budget", "yes", "line"),
    [
        (CENT, None, False, "this judge costs money; set `budget_usd`"),
        (None, None, False, "the price of m is unknown; add it to ./judges/prices.yaml and set `budget_usd`"),
        (None, 5.0, True, "`budget_usd`: the price of m is unknown"),
        (CENT, 5.0, False, None),
        (None, None, True, None),
    ],
)
def test_a_paid_judge_needs_a_price_and_a_budget_or_yes(price, budget, yes, line):
    estimate = estimate_of([5] * 100, 10, price)
    with pytest.raises(InputError, match=line) if line else contextlib.nullcontext():
        gate(estimate, price, budget, yes, "m")


@given(
    limit=st.floats(0.01, 100),
    spent=st.floats(0, 20),
    requests=st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), max_size=30),
    data=st.data(),
)
def test_a_budget_is_never_exceeded(limit, spent, requests, data):
    """Whatever requests cost in the end, and in whatever order their replies arrive."""
    budget, in_flight = Budget(spent, limit), {}

    def reply_arrives() -> None:
        key = data.draw(st.sampled_from(sorted(in_flight)))
        most, fraction = in_flight.pop(key)
        budget.settle(key, most * fraction)

    for index, (usd, fraction) in enumerate(requests):
        if in_flight and data.draw(st.booleans()):
            reply_arrives()
        request = Request(str(index), "a prompt", usd)
        committed = budget.spent + sum(most for most, _ in in_flight.values())
        if budget.reserve(request):
            in_flight[request.key] = (request.usd, fraction)
            assert committed + request.usd <= limit + 1e-9
        else:
            assert committed + request.usd > limit - 1e-9
    while in_flight:
        reply_arrives()
    assert budget.spent <= max(limit, spent) + 1e-9
