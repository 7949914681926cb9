"""A run's chat template: its names, its arguments and its date are the same wherever a chat becomes text."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import trl
from small_tokenizers import small_tokenizer

from instruct.base.errors import InputError
from instruct.data.templates import DEFAULT, Rendering, template_text, writes_the_date

CHAT = [
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": "It is 4."},
    {"role": "user", "content": "And 3 + 3?"},
]
SHIPPED = sorted(
    file for file in (Path(trl.__file__).parent / "chat_templates").glob("*.jinja") if "_training" not in file.stem
)
DAY = date(2024, 2, 29)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("qwen3_5_think", {"enable_thinking": False}),
        ("gemma4", {"enable_thinking": False}),
        ("llama3_1", {"builtin_tools": ["ä\"'"]}),
    ],
)
def test_arguments_become_defaults_of_a_template_that_reads_them(name, arguments):
    tokenizer = small_tokenizer(template_text(name))
    rendering, dated = Rendering(name, arguments, day=DAY), Rendering(day=DAY)
    other = dict.fromkeys(arguments, "medium")
    expected = [dated.render(tokenizer, CHAT, prompt=prompt, **arguments) for prompt in (True, False)]
    overridden = dated.render(tokenizer, CHAT, prompt=True, **other)
    rendering.prepare(tokenizer)
    prepared = tokenizer.chat_template
    rendering.prepare(tokenizer)
    assert tokenizer.chat_template == prepared
    assert [rendering.render(tokenizer, CHAT, prompt=prompt) for prompt in (True, False)] == expected
    # A call that says otherwise has its way, as a row without reasoning does.
    assert rendering.render(tokenizer, CHAT, prompt=True, **other) == overridden
    with pytest.raises(InputError, match=r"chat_template_kwargs.*does not read it; remove or rename it$"):
        Rendering("phi3", arguments).prepare(small_tokenizer(template_text("phi3")))


def test_every_template_of_trl_that_writes_the_date_writes_the_given_one():
    found = []
    for file in SHIPPED:
        tokenizer = small_tokenizer(file.read_text())
        if not writes_the_date(tokenizer):
            continue
        found.append(file.stem)
        text = Rendering(day=DAY).render(tokenizer, CHAT, prompt=True)
        assert "2024-02-29" in text or "29 Feb 2024" in text, file
        assert text != DEFAULT.render(tokenizer, CHAT, prompt=True)
    assert {*found} == {"gptoss", "llama3_2", "muse_glimmer"}
