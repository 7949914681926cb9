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
SHIPPED = sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
DAY = date(2024, 2, 29)


@pytest.mark.parametrize(
    "arguments",
    [{"enable_thinking": False}, {"reasoning_effort": "low"}, {"builtin_tools": ["ä\"'"]}],
    ids=str,
)
def test_arguments_become_defaults_of_every_template_that_reads_them(arguments):
    read = 0
    for file in SHIPPED:
        tokenizer = small_tokenizer(file.read_text())
        rendering = Rendering(str(file), arguments, day=DAY)
        if next(iter(arguments)) not in tokenizer.chat_template:
            with pytest.raises(InputError, match=r"chat_template_kwargs.*does not read it; remove or rename it$"):
                rendering.prepare(tokenizer)
            continue
        dated, other = Rendering(day=DAY), dict.fromkeys(arguments, "medium")
        expected = [dated.render(tokenizer, CHAT, prompt=prompt, **arguments) for prompt in (True, False)]
        overridden = dated.render(tokenizer, CHAT, prompt=True, **other)
        rendering.prepare(tokenizer)
        prepared = tokenizer.chat_template
        rendering.prepare(tokenizer)
        assert tokenizer.chat_template == prepared
        assert [rendering.render(tokenizer, CHAT, prompt=prompt) for prompt in (True, False)] == expected, file
        # A call that says otherwise has its way, as a row without reasoning does.
        assert rendering.render(tokenizer, CHAT, prompt=True, **other) == overridden
        read += 1
    assert read


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
    assert {name.removesuffix("_training") for name in found} == {"gptoss", "llama3_2", "muse_glimmer"}


def test_a_template_is_a_file_a_folder_or_one_of_trl(tmp_path):
    qwen3 = template_text("qwen3")
    assert "<|im_start|>" in qwen3
    (tmp_path / "chat_template.jinja").write_text("folder")
    assert template_text(str(tmp_path)) == "folder"
    assert template_text(str(tmp_path / "chat_template.jinja")) == "folder"
    with pytest.raises(InputError, match=r"^data.chat_template: qwen33 is no file, model or .* \(nearest: qwen3"):
        template_text("qwen33")


def test_what_changes_a_text_is_its_identity(tmp_path):
    file = tmp_path / "own.jinja"
    file.write_text("one")
    one = Rendering(str(file)).identity()
    assert Rendering(day=DAY).identity() == {}  # a run's day stays the same
    file.write_text("two")
    assert Rendering(str(file)).identity() != one
    assert Rendering(arguments={"enable_thinking": False}).identity() == {"arguments": {"enable_thinking": False}}
