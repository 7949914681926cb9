"""Judge cards and prompts: the shipped ones byte for byte, and how they are rendered."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from instruct.base.errors import InputError
from instruct.base.files import sha256_of
from instruct.judging.cards import load_judge_card
from instruct.judging.presentations import PromptTemplate, trimmed

# Of the texts that the judges' authors publish; Auto-J's stands in its Llama-2 wrapper.
SHA256 = {
    "autoj/prompt.txt": "b18b442004bf2f601389a347f3b7b9bda26d54b46a08d5b105614f79361f60aa",
    "autoj_4bit/prompt.txt": "b18b442004bf2f601389a347f3b7b9bda26d54b46a08d5b105614f79361f60aa",
    "autoj_single/prompt.txt": "7d30ba24903c8b82b3c497e74ad2141a67dded560b07bab4c6ec5de7cf5f908b",
    "pandalm/prompt.txt": "2bc2584f3cbe479f34b2d46e7e58f70a4e88a7375374ed708613c54a01ba5e3d",
    "pandalm/prompt_input.txt": "74944e785374e430263858d175c6964fb74766b174d19baf3610fd8057a1d8b3",
}
ROW = {"instruction": "Why?", "dataset": "d"}


@pytest.mark.parametrize("file", SHA256)
def test_published_prompts_are_exact_to_the_byte(file):
    assert sha256_of(Path("judges", file)) == SHA256[file]


def test_pandalm_answers_are_cleaned_like_its_authors_code():
    prompt = PromptTemplate(load_judge_card("pandalm")).render_all(ROW, " one</s><pad> ", "[MASK] two")[0]
    assert "### Response 1:\none\n\n### Response 2:\ntwo\n\n" in prompt


@given(st.text(), st.text())
def test_answers_are_inserted_verbatim_and_not_substituted_again(first, second):
    template = PromptTemplate(load_judge_card("autoj"))
    first = first + "{response_another}{prompt}"
    prompt = template.render_all(ROW, first, second)[0]
    frame = template.render_all(ROW, "\x01", "\x02")[0]
    before, rest = frame.split("\x01")
    between, after = rest.split("\x02")
    assert prompt == before + first + between + second + after


CARD = {
    "name": "mine", "description": "of the tests", "model": "m", "protocol": "pairwise", "prompt": "prompt.txt",
    "prompt_form": "chat", "decoding": {}, "verdict": {"labels": {"first": "A", "second": "B"}},
    "order_policy": "both", "leading_policy": "strict", "context_length": 100, "licence": "none",
}  # fmt: skip
SINGLE = {
    "protocol": "single", "order_policy": "one", "leading_policy": "single",
    "verdict": {"regex": "(.)", "rating": {"low": 1, "high": 5}},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Write a judge's folder: a card with changes (None removes a key), and its prompt."""

    def write(prompt: str = "{instruction} {first} {second}", **changes: object) -> str:
        content = {key: value for key, value in (CARD | changes).items() if value is not None}
        (tmp_path / "judge.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        (tmp_path / "prompt.txt").write_text(prompt)
        return str(tmp_path)

    return write


def test_a_prompt_that_lacks_an_answer_is_refused(folder):
    card = load_judge_card(folder("{instruction} {first}"))
    with pytest.raises(InputError, match=r"prompt\.txt: lacks second; write \{instruction\} and \{first\} and"):
        PromptTemplate(card)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "the key 'model' is missing; add it"),
        ({"verdict": {}}, "verdict: give one of labels, words, regex, json_field, scores or parser"),
        ({**SINGLE, "order_policy": "both"}, "protocol single shows no order: set order_policy: one"),
    ],
)  # fmt: skip
def test_an_invalid_card_is_refused_with_file_key_and_remedy(folder, changes, message):
    path = folder(**changes)
    with pytest.raises(InputError) as error:
        load_judge_card(path)
    assert str(error.value).startswith(f"{path}/judge.yaml: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_different_model_makes_a_different_judge(folder):
    path = folder(revision="abc", human_agreement={"pandalm": {"pairs": 9}})
    card, other = load_judge_card(path), load_judge_card(path, model="org/new")
    assert (other.name, other.model, other.revision, other.human_agreement) == ("mine@org/new", "org/new", None, None)
    assert other.sha256() != card.sha256()
    assert (
        PromptTemplate(other).render_all(ROW, "one", "two")[0] == PromptTemplate(card).render_all(ROW, "one", "two")[0]
    )
    assert load_judge_card(path, model="m").name == "mine"


def test_the_hash_covers_what_affects_the_verdicts(folder):
    before = load_judge_card(folder()).sha256()
    about: dict[str, object] = {
        "name": "renamed", "description": "x", "licence": "x", "citation": "x", "needs": "x", "warning": "x",
        "notes": "x", "human_agreement": {"pandalm": {"pairs": 9}}, "leading_policy": "single", "weights": "pickle",
    }  # fmt: skip
    assert load_judge_card(folder(**about)).sha256() == before
    changes: list[dict[str, object]] = [
        {"model": "n"}, {"revision": "abc"}, {"decoding": {"temperature": 1.0}}, {"prompt_form": "text"},
        {"decoding": {"beams": 4}}, {"decoding": {"extra": {"seed": 1}}}, {"response_schema": {"type": "object"}},
        {"verdict": {"labels": {"first": "A", "second": "B"}, "tie_margin": 0.1}}, {"order_policy": "one"},
        {"context_length": 99}, {"remove_from_answers": ["</s>"]},
    ]  # fmt: skip
    hashes = [load_judge_card(folder(**change)).sha256() for change in changes]
    assert len({before, *hashes, load_judge_card(folder("{instruction}: {first} {second}")).sha256()}) == 13


@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, 160))
def test_trimmed_answers_have_the_largest_common_length_that_fits(first, second, room):
    template = PromptTemplate(load_judge_card("pandalm").model_copy(update={"remove_from_answers": []}))

    prompts = [template.render_all(ROW, first[:n], second[:n])[0] for n in range(61)]
    limit = len(prompts[0]) + room
    fitting = [prompt for prompt in prompts[1:] if len(prompt) <= limit]
    expected = fitting[-1] if fitting else prompts[-1]  # without a letter of the answers, nothing is cut
    found = trimmed(template, ROW, first, second, lambda prompt: len(prompt) <= limit)
    assert found == ((expected,), expected != prompts[-1])
