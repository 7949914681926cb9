"""Rows of tasks: the published files, each format, and files that are wrong."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections import Counter
from typing import Any

import pytest

from instruct.base.errors import InputError
from instruct.measuring.tasks.cards import TaskCard, load_task_card
from instruct.measuring.tasks.demonstrations import choose, in_training, nearest_rows, vote
from instruct.measuring.tasks.rows import TaskRow, load_rows


def make_card(local: dict[str, Any], **more: Any) -> TaskCard:
    return TaskCard.model_validate(
        {
            "name": "mine",
            "labels": ["bad", "good"],
            "template": "{text} This is {label}.",
            "source": local,
            "licence": "MIT",
            **more,
        }
    )


RECORDS = {"format": "csv", "header": ["label", "text"]}
LINES = {"format": "label_text", "splits": {"train": ["train.txt"], "test": ["test.txt"]}}

# Rows and, of the test rows, how many have each label; what 8 neighbors alone say; test rows among the training rows.
PUBLISHED = {
    "sst2": (6920, {"positive": 909, "negative": 912}, 73.9, 2),
    "trec": (
        5452,
        {"description": 138, "entity": 94, "abbreviation": 9, "human": 65, "location": 81, "number": 113},
        82.8,
        10,
    ),
    "subj": (8000, {"objective": 1000, "subjective": 1000}, 87.5, 0),
    "tweet_emotion": (3257, {"anger": 558, "joy": 358, "optimism": 123, "sadness": 382}, 55.2, 0),
    "rt": (8530, {"negative": 533, "positive": 533}, 72.8, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_neighbors_alone_reach_the_floor_of_the_published_files(name, shared_data):
    card = load_task_card(name)
    rows = load_rows(card, shared_data / "tasks")
    train, labels, floor, among = PUBLISHED[name]
    assert len(rows.train) == train
    assert Counter(row.label for row in rows.test) == labels
    voted = [vote(found) for found in choose(card, rows.train, rows.test, 8)]
    right = sum(label == row.label for label, row in zip(voted, rows.test, strict=True))
    assert 100 * right / len(rows.test) == pytest.approx(floor, abs=0.5)  # how ties are broken
    assert in_training(card, rows.train, rows.test) == among


@pytest.mark.slow
def test_mmlu_has_its_subjects_and_five_fixed_demonstrations_of_each(shared_data):
    card = load_task_card("mmlu")
    rows = load_rows(card, shared_data / "tasks")
    assert (len(rows.train), len(rows.test)) == (285, 14042)
    assert len({row.fields["subject"] for row in rows.test}) == 57
    for row, found in zip(rows.test, choose(card, rows.train, rows.test, 5), strict=True):
        assert {each.fields["subject"] for each in found} == {row.fields["subject"]}


def test_each_format_gives_the_same_rows(tmp_path):
    rows = [("bad", "Oh, no."), ("good", "Well made.")]
    numbers = {"bad": "0", "good": "1"}
    (tmp_path / "rows.txt").write_text("".join(f"{numbers[label]} {text}\n" for label, text in rows))
    (tmp_path / "rows.txt.gz").write_bytes(gzip.compress((tmp_path / "rows.txt").read_bytes()))
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for _, text in rows))
    (tmp_path / "labels.txt").write_text("".join(f"{numbers[label]}\n" for label, _ in rows))
    (tmp_path / "table.csv").write_text("label,text\n" + "".join(f'{label},"{text}"\n' for label, text in rows))
    (tmp_path / "bare.csv").write_text("".join(f'{label},"{text[:2]}","{text[2:]}"\n' for label, text in rows))
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
        for label, text in rows:
            archive.writestr(f"data/{label}_test.csv", f'"{text}"\n')

    def splits(*files: str, **more: Any) -> dict[str, Any]:
        return {name: {"files": list(files), **more} for name in ("train", "test")}

    pattern = "rows.zip!data/*_test.csv"
    sources = [
        {"format": "label_text", "splits": splits("rows.txt")},
        {"format": "label_text", "splits": splits("rows.txt.gz")},
        {"format": "lines", "splits": splits("texts.txt", label_files=["labels.txt"])},
        {"splits": splits("table.csv")},
        {"format": "csv", "header": ["label", "a", "b"], "fields": {"text": "{a}{b}"}, "splits": splits("bare.csv")},
        {"format": "csv", "header": ["text"], "label": "file", "splits": splits(pattern)},
    ]
    for source in sources:
        loaded = load_rows(make_card(source), tmp_path)
        assert [(row.label, row.fields) for row in loaded.test] == [(label, {"text": text}) for label, text in rows]
        assert [row.label for row in loaded.train] == ["bad", "good"]


def test_blank_rows_are_left_out_counted_and_named(tmp_path, printed):
    (tmp_path / "test.txt").write_bytes("0 caf\xe9\n\n1 well made\n  \n".encode("latin-1"))
    splits = {"train": ["test.txt"], "test": ["test.txt"]}
    rows = load_rows(make_card({"format": "label_text", "encoding": "latin-1", "splits": splits}), tmp_path)
    assert [(row.label, row.fields["text"], row.place[-5:]) for row in rows.test] == [
        ("bad", "caf\xe9", "row 1"),
        ("good", "well made", "row 3"),
    ]
    assert "test.txt: blank rows left out: 2 (row 2, 4)" in printed.readouterr().out
    (tmp_path / "texts.txt").write_text("fine\n\nwell\n")
    (tmp_path / "labels.txt").write_text("1\n0\n1\n")
    split = {"files": ["texts.txt"], "label_files": ["labels.txt"]}
    rows = load_rows(make_card({"format": "lines", "splits": {"train": split, "test": split}}), tmp_path)
    assert [row.fields["text"] for row in rows.test] == ["fine", "well"]
    assert "texts.txt: blank rows left out: 1 (row 2)" in printed.readouterr().out


def test_a_split_can_be_cut_from_a_sorted_file(tmp_path):
    (tmp_path / "all.txt").write_text("".join(f"{label} row {n}\n" for label in (0, 1) for n in range(4)))
    splits = {
        "train": {"files": ["all.txt"], "each_label": [0, 3]},
        "test": {"files": ["all.txt"], "each_label": [3, 4]},
    }
    rows = load_rows(make_card({"format": "label_text", "splits": splits}), tmp_path)
    assert [row.fields["text"] for row in rows.train] == ["row 0", "row 1", "row 2"] * 2
    assert [(row.label, row.fields["text"]) for row in rows.test] == [("bad", "row 3"), ("good", "row 3")]


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        (LINES, "0 fine\n2 well\n", "test.txt, row 2: the label '2' is not in the card mine (0 to 1, bad, good)"),
        (LINES, "0 fine\nbroken\n", "test.txt, row 2: is not a label, a space and a text"),
        (LINES, "0 f\xefne\n".encode("latin-1"), "it is probably latin-1: set the card's local.encoding latin-1"),
        (LINES, "", "test.txt: is empty"),
        ({**LINES, "values": {"n": "bad"}}, "0 fine\n", "the label '0' is not in the card mine (n)"),
        (
            RECORDS,
            "0,fine\n1\n",
            "test.txt, row 2: has 1 fields, the card's header 2",
        ),
        (
            {**RECORDS, "encoding": "utf-9"},
            "0,fine\n",
            "test.txt: unknown encoding 'utf-9'; set the card's local.encoding",
        ),
        (RECORDS, "0,f\xefne\n".encode("latin-1"), "set the card's local.encoding latin-1, or save the file as UTF-8"),
        (LINES, f"{'9' * 5000} fine\n", f"test.txt, row 1: the label '{'9' * 39}…' is not in the card mine"),
        ({**LINES, "fields": {"text": "words"}}, "0 fine\n", "test.txt, row 1: has no field 'words'"),
    ],
)
def test_wrong_rows_are_refused_with_their_place(tmp_path, source, content, message):
    (tmp_path / "test.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    splits = {"train": ["test.txt"], "test": ["test.txt"]}
    with pytest.raises(InputError) as raised:
        load_rows(make_card({**source, "splits": splits}), tmp_path)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "text", "message"),
    [
        ({}, '"\\ud83d"', "rows.json, row 1: text: has half a surrogate pair"),
        (
            {"text": "{text}."},
            "null",
            "rows.json, row 1: text is not text; correct the row, or fields in the card mine",
        ),
        ({"text": "{text}."}, "[1]", "rows.json, row 1: text is not text"),
    ],
)
def test_wrong_values_of_a_table_are_refused_with_their_place(tmp_path, fields, text, message):
    (tmp_path / "rows.json").write_text(f'[{{"text": {text}, "label": 0}}]')
    with pytest.raises(InputError) as raised:
        load_rows(make_card({"splits": {"train": ["rows.json"], "test": ["rows.json"]}, "fields": fields}), tmp_path)
    assert message in str(raised.value)


def test_a_byte_order_mark_is_no_part_of_a_record(tmp_path):
    (tmp_path / "rows.csv").write_text("0,fine\n", encoding="utf-8-sig")
    rows = load_rows(make_card({**RECORDS, "splits": {"train": ["rows.csv"], "test": ["rows.csv"]}}), tmp_path)
    assert [(row.label, row.fields["text"]) for row in rows.test] == [("bad", "fine")]


def test_missing_files_are_refused_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match=r"train\.txt: no such file"):
        load_rows(make_card(LINES), tmp_path)
    with pytest.raises(InputError, match=r"set --evaluation\.tasks\.folder to the folder that contains test\.txt"):
        load_rows(make_card(LINES))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.csv", "x")
    (tmp_path / "a.zip").write_bytes(buffer.getvalue())
    splits = {"train": ["a.zip!b*.csv"], "test": ["a.zip!b*.csv"]}
    with pytest.raises(InputError, match=r"a\.zip: contains no b\*\.csv"):
        load_rows(make_card({"format": "csv", "header": ["text"], "splits": splits}), tmp_path)
    (tmp_path / "a.zip").write_bytes(buffer.getvalue()[:40])
    with pytest.raises(InputError, match=r"a\.zip: is damaged"):
        load_rows(make_card({"format": "csv", "header": ["text"], "splits": splits}), tmp_path)
    locked = bytearray(buffer.getvalue())
    locked[6] |= 1  # the flag of encryption, in the member's header and the archive's
    locked[buffer.getvalue().index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(locked)
    splits = {"train": ["a.zip!a*.csv"], "test": ["a.zip!a*.csv"]}
    with pytest.raises(InputError, match=r"a\.zip: is damaged.*encrypted"):
        load_rows(make_card({"format": "csv", "header": ["text"], "splits": splits}), tmp_path)


def test_the_nearest_rows_come_first_and_ties_in_their_order():
    train = ["a red house", "the weather today", "a red house", "a green house"]
    assert nearest_rows(train, ["a red house"], 3).tolist() == [[0, 2, 3]]
    assert nearest_rows(train, ["nothing shared"], 4).tolist() == [[0, 1, 2, 3]]


def test_a_vote_goes_to_the_nearest_of_equally_frequent_labels():
    rows = [TaskRow({"text": ""}, label, "") for label in ("good", "bad", "bad", "good", "ugly")]
    assert vote(rows) == "good"
    assert vote(rows[1:]) == "bad"
    assert vote([]) is None


def test_more_shots_than_rows_are_refused():
    rows = [TaskRow({"text": "word here"}, "good", "")] * 2
    with pytest.raises(InputError, match="task mine: has 2 rows for 3 demonstrations; lower shots"):
        choose(make_card(LINES), rows, rows, 3)


def test_an_encoder_that_cannot_be_loaded_is_refused_in_one_line(tmp_path):
    rows = [TaskRow({"text": "word here"}, "good", "")] * 2
    with pytest.raises(InputError, match=r"^retriever no/encoder: "):
        choose(make_card(LINES), rows, rows, 1, retriever="no/encoder")
