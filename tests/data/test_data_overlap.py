"""How many evaluation prompts are in the training data: the normalization, the search, and what it counts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from row_sets import chat, row_set

from instruct.data.formats import alpaca_prompt
from instruct.data.overlap import N, find_overlap, words

LONG = "What would you say to a friend who has lost a very good job today?"  # 15 words


WORD = st.sampled_from(["a", "b"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(WORD, max_size=20), max_size=4), st.lists(st.lists(WORD, max_size=60), max_size=4))
def test_the_search_finds_what_comparing_everything_finds(prompts, rows):
    def grams(own: list[str]) -> set[tuple[str, ...]]:
        return {tuple(own[start : start + N]) for start in range(len(own) - N + 1)}

    found = find_overlap([" ".join(prompt) for prompt in prompts], row_set(*({"text": " ".join(row)} for row in rows)))
    exact = {n for n, prompt in enumerate(prompts, 1) if prompt and prompt in rows}
    shared = {n for n, prompt in enumerate(prompts, 1) if any(grams(prompt) & grams(row) for row in rows)}
    assert (found["exact"], found["shared"], set(found["found"])) == (len(exact), len(shared), exact | shared)
    assert found["short"] == sum(len(prompt) < N for prompt in prompts)


def test_requests_are_compared_whole_and_everything_by_thirteen_words():
    assert words("ﬁnd e\u0301te\u0301 STRASSE 日本 ?!") == ["find", "été", "strasse", "日", "本"]
    prompts = ["Say hello!", "It is red.", LONG, "Bonjour"]
    rows = [
        {"messages": chat("Is it red?", "It is red.", "say  HELLO", "Hello.")},  # an answer is no request
        {"messages": chat("Hm?", f"You: {LONG}")},
        {"prompt": alpaca_prompt("Bonjour"), "completion": "Salut"},
    ]  # fmt: skip
    assert find_overlap(prompts, row_set(*rows)) == {
        "prompts": 4, "rows": 3, "exact": 2, "shared": 1, "short": 3, "found": {1: "r:1", 3: "r:2", 4: "r:3"},
    }  # fmt: skip
