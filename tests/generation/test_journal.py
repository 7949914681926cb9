"""The journal: a torn end is ignored, and a resumed run writes the bytes of an uninterrupted one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.generation.journal import Batch, Journal

SIZES = [2, 2, 1]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def batches(texts: list[str]) -> list[Batch]:
    parts = [texts[:2], texts[2:4], texts[4:]]
    return [
        Batch(batch=i, seconds=i / 8, tokens=[len(t) for t in part], finish=["stop"] * len(part), texts=part)
        for i, part in enumerate(parts)
    ]


def written(path: Path, fingerprint: str, engine: str, lines: list[Batch]) -> bytes:
    journal = Journal(path, fingerprint, SIZES)
    journal.start(engine)
    for batch in lines[journal.finished :]:
        journal.append(batch)
    assert journal.complete
    return path.read_bytes()


@settings(deadline=None, max_examples=50)  # it waits for the disk
@given(texts=st.lists(TEXTS, min_size=5, max_size=5), cut=st.floats(0, 1), noise=st.binary(max_size=8))
def test_a_journal_cut_anywhere_resumes_to_the_same_bytes(texts: list[str], cut: float, noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, lines = Path(folder) / "a.batches.jsonl", batches(texts)
        whole = written(path, "f", "vllm 1 cpu", lines)
        end = round(cut * (len(whole) - 1))
        path.write_bytes(whole[:end] + noise.replace(b"\n", b""))
        left = list(Journal(path, "f", SIZES).batches())
        assert left == lines[: len(left)]
        assert len(left) == max(0, whole[:end].count(b"\n") - 1)
        assert written(path, "f", "vllm 1 cpu", lines) == whole


def test_a_journal_with_a_different_fingerprint_is_kept_until_start(tmp_path: Path) -> None:
    path = tmp_path / "a.batches.jsonl"
    old = written(path, "old", "vllm 1 cpu", batches(list("abcde")))
    journal = Journal(path, "new", SIZES)
    assert list(journal.batches()) == []
    assert path.read_bytes() == old
    journal.start("vllm 1 cpu")
    assert path.read_bytes().count(b"\n") == 1
    assert list(Journal(path, "old", SIZES).batches()) == []


def test_a_different_engine_or_version_starts_from_scratch(tmp_path: Path) -> None:
    path = tmp_path / "a.batches.jsonl"
    written(path, "f", "vllm 1 cpu", batches(list("abcde")))
    journal = Journal(path, "f", SIZES)
    assert journal.complete
    journal.start("vllm 2 cpu")
    assert list(journal.batches()) == []


def test_reading_stops_at_the_first_invalid_batch(tmp_path: Path) -> None:
    path = tmp_path / "a.batches.jsonl"
    lines = written(path, "f", "e", batches(list("abcde"))).splitlines(keepends=True)
    beyond = lines[3].replace(b'"batch":2', b'"batch":3')
    for bad in (b"{}\n", b"[1]\n", b"\xff\n", lines[1], beyond, lines[2].replace(b'"stop",', b"")):
        path.write_bytes(lines[0] + lines[1] + bad + lines[3])
        assert Journal(path, "f", SIZES).finished == 1, bad


def test_batches_in_any_order_are_resumed(tmp_path: Path) -> None:
    path, made = tmp_path / "a.batches.jsonl", batches(list("abcde"))
    journal = Journal(path, "f", SIZES)
    journal.start("e")
    journal.append(made[2])
    assert Journal(path, "f", SIZES).missing == [0, 1]
    assert written(path, "f", "e", [made[2], made[1], made[0]]).count(b"\n") == 4
    again = Journal(path, "f", SIZES)
    assert again.complete
    assert list(again.batches()) == made
