"""Plain text: files of every kind, columns, cards, and the tokens of a text."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instruct.base.errors import InputError
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


UNREADABLE = [
    ("empty.txt", b"", "empty.txt: has no rows; give a file with at least one"),
    ("blank.txt", b" \n\t\n", "blank.txt: all 2 texts are blank; fill them in or give other files"),
    ("latin.txt", b"plain\nGr\xf6\xdfer\n", "latin.txt, line 2: is not UTF-8 text; save the file as UTF-8"),
    ("torn.gz", gzip.compress(b"text" * 99)[:-9], "torn.gz: is not a complete gzip file; download or compress"),
]


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE, ids=[case[0] for case in UNREADABLE])
def test_unusable_text_is_refused_in_one_line(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        load_rows(None, files=[str(tmp_path / name)])
    assert str(error.value).startswith(str(tmp_path / message))
    assert "\n" not in str(error.value)


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


def test_wikitext_is_read_as_its_readme_counts_it(shared_data):
    folder = shared_data / "lm" / "wikitext103"
    found = load_rows(None, files=[str(folder / "wiki.train.first-2816KiB.tokens.gz")])
    assert found.counts["read"] == 9742 + 1  # line breaks, and the line that was cut off
    assert sum(len(row["text"].split()) for row in found.rows) == 541_903
    assert found.rows[0] == {"text": " = Valkyria Chronicles III = "}
