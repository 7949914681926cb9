"""The judgment store: what was committed is kept, other files are refused."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure
from instruct.judging.store import JudgmentStore
from instruct.run.replies import VERSION


def test_what_is_reserved_counts_as_spent_until_its_request_ends(tmp_path):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        for key in ("answered", "failed", "not sent", "killed"):
            store.reserve("j", key, 0.5)
        store.reserve("j", "answered", 1.0)  # another attempt
        assert store.spent_usd() == 2.5
        store.add_replies("j", [("answered", Completion("yes"), 0.25), ("failed", Failure("no"), 0.0)])
        store.release(["not sent"])
        assert store.spent_usd() == store.spent_usd("j") == 0.75
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        store.keep_reserved()
        store.reserve("j", "killed", 0.5)
        store.add_replies("j", [("killed", Completion("yes"), 0.125)])
        assert store.spent_usd() == 0.875


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON judgments BEGIN UPDATE judgments SET verdict = 'first'; END",
        "ALTER TABLE completions DROP COLUMN choice",
        "DROP TABLE spending; CREATE VIEW spending AS SELECT '' AS key, '' AS judge, 0.0 AS usd, '' AS created",
    ],
)
def test_a_store_with_other_parts_is_refused(tmp_path, statement):
    path = tmp_path / "s.sqlite"
    JudgmentStore(path).__exit__(None, None, None)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(statement)
    with pytest.raises(
        InputError, match=r"s\.sqlite: is no judgment store of this program \(its \w+ \w+\); restore it"
    ):
        JudgmentStore(path)


@pytest.mark.parametrize("usd", [-0.01, 9e999])
def test_a_cost_that_lifts_a_budget_is_refused(tmp_path, usd):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        store.add_replies("j", [("a", Completion(""), usd)])
        with pytest.raises(InputError, match=r"is damaged \(spending: a cost is negative or infinite\)"):
            store.spent_usd()


def test_a_file_that_is_not_a_store_of_this_version_is_refused(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, but long enough to be taken for one by its length alone" * 20)
    with pytest.raises(InputError, match="is not a judgment store"):
        JudgmentStore(text)
    other = tmp_path / "other.sqlite"
    with JudgmentStore(other):
        pass
    database = sqlite3.connect(other)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(InputError, match=rf"other\.sqlite: is a judgment store of version 99, not {VERSION}"):
        JudgmentStore(other)
