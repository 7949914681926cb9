"""Plain text: files of every kind, columns, cards, and the tokens of a text."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instruct.base.errors import InputError
from instruct.data.cards import load_dataset_card
from instruct.data.rows import load_rows
from instruct.data.sources import is_text_file, read_texts
from instruct.data.tokens import encode_rows

LINES = [" = Valkyria Chronicles III = ", "", "\tindented, with a form feed \f, \u2028 and NUL \0 ", "Größe ☕"]


def texts(path: str | Path, **options: Any) -> list[str]:
    return [row.fields["text"] for row in read_texts(Path(path), **options)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")), min_size=1),
    ending=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    name=st.sampled_from(["f.txt", "f.TXT", "f.tokens", "f.txt.gz", "f.tokens.gz", "f.gz"]),
)
def test_any_text_is_read_as_it_was_written(lines, ending, last, name, tmp_path):
    """But for a byte order mark, which is no part of a UTF-8 text."""
    text = ending.join(lines) + (ending if last else "")
    content = text.encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert is_text_file(path)
    if text.startswith("\ufeff"):
        return
    if not text:
        with pytest.raises(InputError, match="has no rows; give a file"):
            texts(path)
        return
    assert texts(path) == (lines if last or lines[-1] else lines[:-1])
    assert texts(path, documents="file") == [text]


WESTERN = "Ich schätze die Übung sehr: größer als je zuvor.\n" * 3
UNREADABLE = [
    ("empty.txt", b"", {}, "empty.txt: has no rows; give a file with at least one"),
    ("bom.txt", b"\xef\xbb\xbf", {}, "bom.txt: has no rows; give a file with at least one"),
    ("blank.txt", b" \n\t\n", {}, "blank.txt: all 2 texts are blank; fill them in or give other files"),
    (
        "latin.txt",
        b"plain\n" + WESTERN.encode("latin-1"),
        {},
        "latin.txt, line 2: is not UTF-8 text; save the file as UTF-8",
    ),
    ("torn.gz", gzip.compress(b"text" * 99)[:-9], {}, "torn.gz: is not a complete gzip file; download or compress"),
    (
        "rows.jsonl",
        b'{"text": "a"}\n',
        {"documents": "file"},
        "rows.jsonl: is not a text file; remove data.documents",
    ),
    ("a.txt", b"a", {"template": "chat"}, "a.txt: has texts without prompts, which take no template; remove data.temp"),
    ("n.jsonl", b'{"text": 3}\n', {}, "n.jsonl, row 1: text: must be text (given: 3); write a string"),
]


@pytest.mark.parametrize(("name", "content", "options", "message"), UNREADABLE, ids=[case[0] for case in UNREADABLE])
def test_unusable_text_is_refused_in_one_line(name, content, options, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        load_rows(None, files=[str(tmp_path / name)], **options)
    assert str(error.value).startswith(str(tmp_path / message))
    assert "\n" not in str(error.value)


def test_a_text_column_gives_the_rows_of_a_text_file(write):
    rows = [{"text": line} for line in LINES]
    files = [write("f.txt", "\n".join(LINES)), write("f.jsonl", rows)]
    assert len({load_rows(None, files=[file]).sha256 for file in files}) == 1


def test_rows_with_a_prompt_may_have_a_text_column(write):
    row = {"instruction": "a", "output": "b", "text": "the rendered prompt"}
    assert load_rows(None, files=[write("f.jsonl", [row])]).format == "alpaca"


CARD = "name: mine\npurpose: train\nformat: text\nlicence: none\nsource: {files: [f.txt]}\n"


def test_a_card_describes_texts(write):
    write("f.txt", "Größe\nzwei")
    card = load_dataset_card(write("mine.yaml", CARD + "documents: file\n"))
    assert list(load_rows(card).rows) == [{"text": "Größe\nzwei"}]
    assert list(load_rows(card, documents="line").rows) == [{"text": "Größe"}, {"text": "zwei"}]
    other = write("g.jsonl", [{"text": "a", "content": "b"}])
    assert list(load_rows(card, files=[other]).rows) == [{"text": "a"}]
    named = load_dataset_card(write("mine.yaml", CARD + "column: content\n"))
    assert list(load_rows(named, files=[other]).rows) == [{"text": "b"}]


def test_every_token_of_a_text_is_trained_on(write, smollm2_tokenizer):
    found = load_rows(None, files=[write("f.txt", "\n".join(LINES))])
    assert found.counts == {"read": 4, "kept": 3, "empty": 1}
    assert [source.rpartition(":")[2] for source in found.sources] == ["1", "3", "4"]
    encoded = encode_rows(smollm2_tokenizer, found, None)
    for row, line in zip(encoded.encoded, filter(None, LINES), strict=True):
        ids = row["input_ids"]
        assert row["labels"] == ids
        assert ids[-1] == smollm2_tokenizer.eos_token_id
        assert smollm2_tokenizer.decode(ids[:-1]) == line
    assert encoded.counts == {"kept": 3, "truncated": 0, "empty": 1, "fully_masked": 0}
    ended = load_rows(None, files=[write("g.txt", "one" + smollm2_tokenizer.eos_token)])
    ids = encode_rows(smollm2_tokenizer, ended, None).encoded[0]["input_ids"]
    assert ids.count(smollm2_tokenizer.eos_token_id) == 1  # as TRL: an end token in the text is not repeated


def test_wikitext_is_read_as_its_readme_counts_it(shared_data):
    folder = shared_data / "lm" / "wikitext103"
    found = load_rows(None, files=[str(folder / "wiki.train.first-2816KiB.tokens.gz")])
    assert found.counts["read"] == 9742 + 1  # line breaks, and the line that was cut off
    assert sum(len(row["text"].split()) for row in found.rows) == 541_903
    assert found.rows[0] == {"text": " = Valkyria Chronicles III = "}
    assert load_rows(None, files=[str(shared_data / "lm" / "ptb" / "ptb.train.txt.gz")]).counts["read"] == 42_068
