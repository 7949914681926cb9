"""The store of replies: what was asked has one key, replies are kept, and failures are counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instruct.base.replies import Failure
from instruct.run.replies import ReplyStore, completion_key


def test_failures_are_counted_and_the_last_reason_is_kept(tmp_path):
    path = tmp_path / "s.sqlite"
    with ReplyStore(path) as store:
        store.add_replies("j", [("a", Failure("timed out"), 0.5), ("b", Failure("HTTP 400", permanent=True), 0.0)])
        store.add_replies("j", [("a", Failure("HTTP 500"), 0.25)])
    with ReplyStore(path) as store:
        known = {"a": Failure("HTTP 500"), "b": Failure("HTTP 400", permanent=True)}
        assert store.replies(["a", "b", "c"]) == known
        store.add_replies("j", [("a", Failure("HTTP 500"), 0.0)])
        assert store.replies(["a"]) == {"a": Failure("HTTP 500", permanent=True)}  # asked three times
        assert (store.completions(["a", "b"]), store.spent_usd()) == ({}, 0.75)


@given(st.text(), st.text())
def test_different_prompts_have_different_keys(first, second):
    assert (completion_key({"prompt": first}) == completion_key({"prompt": second})) == (first == second)


def test_the_key_of_a_paid_reply_never_changes():
    """Under another key, every stored reply would be paid for again."""
    chat = [{"role": "system", "content": "s é"}, {"role": "user", "content": "two\nlines \U0001f600"}]
    decoding = {"temperature": 0.0, "top_p": 1.0, "max_tokens": 512, "repetition_penalty": None, "beams": 1}
    asked = {"prompt": chat, "endpoint": "api.openai.com", "model": "gpt-4", "decoding": {**decoding, "extra": {}}}
    key = "7d2b5cb470a7b067e4253ff15f9563b3545ce8399f9e750035fe04ed7cc68b82"
    assert completion_key(asked | {"labels": None, "schema": None, "sample": 0}) == key
