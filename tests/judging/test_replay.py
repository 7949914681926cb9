"""Replaying the exported replies of another run."""

from __future__ import annotations

import json
from pathlib import Path

from instruct.base.replies import Completion
from instruct.engines.transformers import TransformersEngine
from instruct.judging.asking import BATCH, Judge, engine_options
from instruct.judging.cards import load_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import plan_comparison
from instruct.judging.store import JudgmentStore
from instruct.judging.work import judge_plan

LABELS = str(Path(__file__).resolve().parent.parent / "judges" / "smollm2_labels")  # a card that only tests use


def test_replies_are_replayed_under_the_same_keys(tmp_path, pair):
    """They give a new store the same completions and verdicts."""
    card = load_judge_card(LABELS)
    ours, theirs = pair

    judge = Judge(JudgeOptions(card=LABELS, engine="transformers"), card)

    class Replies(TransformersEngine):
        def complete(self, requests):
            for number, request in enumerate(requests):
                shown = {"1": -1.0, "2": -1.0 - (number % 3 - 1) / 2}
                yield [(request, Completion("1", shown, "length", 9, 1))]

    with JudgmentStore(tmp_path / "first.sqlite") as store:
        replies = Replies(engine_options(card, BATCH))
        made = judge_plan(judge, plan_comparison(judge, ours, theirs, replies), store, replies)
        expected = store.judgments(ComparisonKey(card.name, ours.name, theirs.name))
        kept = store.completions(judgment.key for judgment in expected)
        lines = [json.dumps({"key": key, **reply.record()}) + "\n" for key, reply in kept.items()]
        (tmp_path / "replies.jsonl").write_text("".join(lines))
    assert len(made.verdicts) == 3
    judge = Judge(judge.options, card, replay=tmp_path / "replies.jsonl")
    with JudgmentStore(tmp_path / "second.sqlite") as store, judge.open() as engine:
        again = judge_plan(judge, plan_comparison(judge, ours, theirs, engine), store, engine)
        assert again.verdicts == made.verdicts
        assert store.judgments(ComparisonKey(card.name, ours.name, theirs.name)) == expected
