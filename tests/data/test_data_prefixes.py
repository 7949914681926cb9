"""Prefixes of texts: cut to the letter, filtered with counts, and refused in one line where nothing can be cut."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from instruct.base.errors import InputError
from instruct.data.cards import Cut, load_dataset_card
from instruct.data.prefixes import PrefixSet, load_prefixes


@pytest.fixture(scope="module")
def tokenizer(tiny_model_folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model_folder)


def cut_file(path: Path, content: str | bytes, tokenizer: Any = None, **how: Any) -> PrefixSet:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    named = {name: how.pop(name) for name in ("encoding", "column", "limit", "documents") if name in how}
    return load_prefixes(None, Cut(**how), files=[str(path)], tokenizer=tokenizer, **named)


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\tab"), min_size=1, max_size=60),
    lengths=st.tuples(st.integers(0, 4), st.integers(1, 4)),
    units=st.tuples(st.sampled_from(["words", "tokens"]), st.sampled_from(["words", "tokens"])),
    windows=st.booleans(),
)
def test_prefixes_and_references_are_the_text_to_the_letter(tokenizer, tmp_path_factory, text, lengths, units, windows):
    path = tmp_path_factory.mktemp("corpus") / "a.jsonl"
    prefix, continuation = (f"{number} {unit}" for number, unit in zip(lengths, units, strict=True))
    path.write_text(json.dumps({"text": text}))
    cut = Cut(prefix=prefix, continuation=continuation, windows=windows)
    try:
        found = load_prefixes(None, cut, files=[str(path)], tokenizer=tokenizer)
    except InputError:
        assume(False)
    pieces = [piece for each in found.prefixes for piece in (each.text, each.reference or "")]
    assert text.startswith("".join(pieces))
    assert windows or len(found.prefixes) == 1
    assert len({each.id for each in found.prefixes}) == len(found.prefixes)
    for each in found.prefixes:
        assert each.reference
        if units == ("words", "words"):
            assert len((each.text + each.reference).split()) == sum(lengths)
            assert each.text == each.text.rstrip()


def test_each_filter_counts_what_it_leaves_out(tmp_path):
    lines = ["", "a b", "one two three four", "a = = b == c d", "one two three four five six", "late late late late"]
    how: dict[str, Any] = {"prefix": "2 words", "continuation": "3 words", "min_characters": 5, "without": "=="}
    found = cut_file(tmp_path / "a.txt", "\n".join(lines), rows=5, min_words=3, **how)
    assert [each.text for each in found.prefixes] == ["one two"]
    expected = {"read": 5, "blank": 1, "too few characters": 1, "with the pattern": 1, "too short to cut": 1, "kept": 1}
    assert found.counts == expected
    with pytest.raises(
        InputError, match=r"\(1 blank, 1 shorter than 5 characters, 3 shorter than 7 words, 1 with '=='"
    ):
        cut_file(tmp_path / "a.txt", "\n".join(lines), min_words=7, **how)


def test_equal_prefixes_have_ids_of_their_own(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("same words here\nsame words there\n")
    files = [str(tmp_path / folder / "a.txt") for folder in ("one", "two")]
    found = load_prefixes(None, Cut(prefix="2 words"), files=files)
    assert [(each.text, each.reference) for each in found.prefixes] == [("same words", None)] * 4
    assert [each.id for each in found.prefixes] == ["a.txt:1", "a.txt:2", "a.txt#2:1", "a.txt#2:2"]


@pytest.mark.parametrize(
    ("content", "how", "message"),
    [
        ("Größe und Wärme".encode("latin-1"), {}, "line 1: is not UTF-8 text"),
        ("a b c", {"prefix": None}, "set continuations.prefix, such as 20 words"),
    ],
)
def test_a_corpus_that_cannot_be_cut_is_refused(tmp_path, content, how, message):
    with pytest.raises(InputError) as error:
        cut_file(tmp_path / "a.txt", content, **{"prefix": "2 words", "continuation": "1 words", **how})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_texts_are_in_the_named_column_and_a_missing_one_is_refused(tmp_path):
    found = cut_file(tmp_path / "a.csv", "story,b\n It  was a\tdark night,c\n", prefix="1 words", column="story")
    assert [each.text for each in found.prefixes] == [" It"]
    with pytest.raises(InputError, match=r"a.jsonl, row 1: no column 'text' \(columns: story\); set continuations"):
        cut_file(tmp_path / "a.jsonl", '{"story": "a"}', prefix="1 words")


def test_real_corpora_give_the_counted_number_of_prefixes(shared_data, tmp_path):
    """The authors count gaps between spaces: 928 of WikiText, where every line begins with one, and 444 of AG News."""
    folder = shared_data / "lm"
    if not folder.is_dir():
        pytest.skip("no corpora")
    with gzip.open(folder / "ag_news" / "test.csv.gz", "rt", encoding="utf-8", newline="") as file:
        news = [{"text": f"{title} {text}"} for _, title, text in csv.reader(file)]
    (tmp_path / "ag_news.jsonl").write_text("\n".join(map(json.dumps, news)))
    for name, file, count in [
        ("wikitext2_test", folder / "wikitext2" / "test.txt.gz", 908),
        ("ptb_test", folder / "ptb" / "ptb.test.txt.gz", 168),
        ("ag_news_test", tmp_path / "ag_news.jsonl", 367),
    ]:
        found = load_prefixes(load_dataset_card(name), Cut(), files=[str(file)])
        assert len(found.prefixes) == count
        assert found.counts["read"] == sum(number for reason, number in found.counts.items() if reason != "read")
    ptb = [str(folder / "ptb" / "ptb.test.txt.gz")]
    windows = load_prefixes(load_dataset_card("ptb_test"), Cut(windows=True), files=ptb)
    assert len(windows.prefixes) == 2622  # 78,669 words without line ends, 30 a window


def test_rows_with_prefix_and_reference_are_taken_as_they_are(tmp_path):
    rows = [{"prefix": "Q: a\nA:", "reference": " b"}, {"prefix": "Q: c\nA:", "reference": " d"}]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    found = cut_file(tmp_path / "cut.jsonl", content)
    assert [(prefix.text, prefix.reference) for prefix in found.prefixes] == [tuple(row.values()) for row in rows]
    assert found.prefixes[0].id == "cut.jsonl:1"
    named = "".join(json.dumps({"id": number, **row}) + "\n" for number, row in enumerate(rows, start=7))
    assert [prefix.id for prefix in cut_file(tmp_path / "named.jsonl", named).prefixes] == ["7", "8"]
