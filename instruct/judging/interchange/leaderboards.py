"""Verdicts in the files of Arena-Hard (lmarena/arena-hard-auto) and of MT-Bench (FastChat)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instruct.base.errors import InputError, counted, one_line
from instruct.base.output import warn
from instruct.base.replies import Completion
from instruct.data.formats import check_storable, text_field
from instruct.data.prompts import EvalPrompt, as_prompt, id_of, read_prompt, unwrapped
from instruct.data.sources import RawRow, read_file
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.store import Judgment
from instruct.judging.verdicts import read_replies, read_verdict
from instruct.run.replies import completion_key

_V2 = ("hard_prompt", "creative_writing")
# MT-Bench's winners in the order shown, as its prompts' labels.
_WINNERS = {"tie": "C", "model_1": "A", "model_2": "B"}
_SWAPPED = {"tie": "C", "model_1": "B", "model_2": "A"}


def is_leaderboard(row: RawRow) -> bool:
    """Whether a row is of Arena-Hard's judgments or of MT-Bench's."""
    return not {"games", "g1_winner", "score"}.isdisjoint(row.fields)


def read_leaderboard(rows: Sequence[RawRow], baseline: str | None = None) -> list[FileVerdict]:
    """The verdicts of both games, which are the two orders of a pair; a game without a score is unparsed.

    Ratings of MT-Bench are of one model each: those of the baseline stand beside those of every other model.

    Args:
        baseline: of Arena-Hard v0.1 and of ratings, whose files do not name it.

    Raises:
        InputError: a row without its names or games, with a label that the judge's card does not know, or there twice.
    """
    if "score" in rows[0].fields:
        return _compared(read_ratings(rows), baseline)
    verdicts: list[FileVerdict] = []
    taken: dict[tuple[str, ...], RawRow] = {}
    questions = _questions(rows[0])
    for pair, row in enumerate(rows):
        check_storable(row, "row", row.fields)
        arena = "games" in row.fields
        card, names = _card(row), ("model", "baseline") if arena else ("model_1", "model_2")
        if arena and "baseline" not in row.fields and not baseline:
            raise InputError(f"{row.place}: baseline: is missing; name it with `instruct report` (`baseline`)")
        candidate, other = (
            baseline if name not in row.fields and baseline else text_field(row, name) for name in names
        )
        identity = _pair_of(row)
        _refuse_twice(row, identity, taken.setdefault((card.name, candidate, other, identity), row))
        if candidate == other:
            raise InputError(f"{row.place}: both systems are called {one_line(candidate, 60)!r}; rename one of them")
        dataset = text_field(row, "category", optional=True) or "unknown"
        for position, label, text in _arena_games(row) if arena else _mt_bench_games(row):
            reading = read_verdict(card, Completion(f"[[{label}]]" if label else ""))
            if label and reading.verdict == "unparsed":
                raise InputError(f"{row.place}: {one_line(label, 40)!r} is no label of {card.name}; correct it")
            reply = Completion(text)
            key = completion_key({"imported": reply.record(), "row": row.fields, "position": position})
            about = (card.name, candidate, other, pair, identity, dataset, position, key)
            judgment = Judgment(*about, **vars(reading))
            verdicts.append(FileVerdict(judgment, row.place, questions.get(identity), replies={key: reply}))
    if short := sum(len(row.fields.get("games", "12")) < 2 for row in rows):
        warn(f"{rows[0].origin}: {short} of {counted(len(rows), 'row')} without two games; their pairs are unparsed")
    return verdicts


@dataclass(frozen=True)
class Rated:
    """A rating of MT-Bench; `score` is None where the file has -1, which is FastChat's for a reply without one."""

    row: RawRow
    card: JudgeCard
    model: str
    pair: str
    score: float | None
    prompt: EvalPrompt | None


def read_ratings(rows: Sequence[RawRow]) -> list[Rated]:
    """The ratings of the answers of models.

    Raises:
        InputError: a row without its names, or whose score is no number.
    """
    questions, ratings = _questions(rows[0]), []
    for row in rows:
        check_storable(row, "row", row.fields)
        score, pair = row.fields.get("score"), _pair_of(row)
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise InputError(f"{row.place}: score: must be a number, or -1 where there is none; correct it")
        known = None if score == -1 else score
        ratings.append(Rated(row, _card(row), text_field(row, "model"), pair, known, questions.get(pair)))
    return ratings


def _compared(ratings: Sequence[Rated], baseline: str | None) -> list[FileVerdict]:
    """The ratings of two models or more, as verdicts."""
    by_model: dict[str, dict[str, Rated]] = {}
    for rated in ratings:
        first = by_model.setdefault(rated.model, {}).setdefault(rated.pair, rated)
        _refuse_twice(rated.row, rated.pair, first.row)
    known = one_line(", ".join(by_model), 200)
    place, card = ratings[0].row.place, ratings[0].card
    if len(by_model) < 2:
        raise InputError(
            f"{place}: ratings of one model ({known}) compare nothing; put those of the models to compare into one file"
        )
    if baseline not in by_model:
        raise InputError(
            f"{place}: ratings name no baseline; name one of the models with `instruct report` (`baseline`): {known}"
        )
    verdicts = []
    theirs = by_model.pop(baseline)
    for model, ours in by_model.items():
        if lacking := sorted(ours.keys() ^ theirs.keys()):
            raise InputError(
                f"{place}: {one_line(lacking[0], 60)!r} is rated of only one of {one_line(model, 60)!r} and "
                f"{one_line(baseline, 60)!r}; give the ratings of both"
            )
        for pair, (identity, rated) in enumerate(ours.items()):
            replies: dict[str, Completion] = {}
            keys, told = [], []
            for side in (rated, theirs[identity]):
                reply = Completion(str(side.row.fields.get("judgment") or ""))
                keys.append(completion_key({"imported": reply.record(), "row": side.row.fields}))
                replies[keys[-1]] = reply
                told.append(Completion("" if side.score is None else f"[[{side.score}]]"))
            reading = read_replies(card, told)
            if reading.verdict == "unparsed" and all(reply.text for reply in told) and (scale := card.verdict.rating):
                raise InputError(f"{rated.row.place}: score: must be from {scale.low:g} to {scale.high:g}; correct it")
            about = (card.name, model, baseline, pair, identity, "unknown", "first", " ".join(keys))
            verdicts.append(
                FileVerdict(Judgment(*about, **vars(reading)), rated.row.place, rated.prompt, (None, None), replies)
            )
    return verdicts


def _questions(row: RawRow) -> dict[str, EvalPrompt]:
    """What each turn asks, by what identifies its pair: from the question.jsonl beside the folder model_judgment.

    Empty without it.

    Args:
        row: of the judgments.

    Raises:
        InputError: an invalid question.
    """
    folders = [folder.parent for folder in Path(row.origin).resolve().parents if folder.name == "model_judgment"]
    files = [folder / "question.jsonl" for folder in folders[:1] if (folder / "question.jsonl").is_file()]
    questions = {}
    for asked in itertools.chain.from_iterable(map(read_file, files)):
        question = read_prompt(as_prompt(asked), "unknown")
        for number, text in enumerate((question.request, *question.later), start=1):
            pair = f"{question.id}, turn {number}" if question.later else str(question.id)
            questions[pair] = EvalPrompt(text, question.dataset)
    return questions


def _pair_of(row: RawRow) -> str:
    """What identifies a row's pair, as `EvalPrompt.answered` names it."""
    turn = f", turn {row.fields['turn']}" if "turn" in row.fields else ""
    return (id_of(row) or text_field(row, "question_id")) + turn


def _refuse_twice(row: RawRow, identity: str, first: RawRow) -> None:
    if first is not row:
        names = [str(row.fields[name]) for name in ("model", "model_1", "model_2") if name in row.fields]
        whose = one_line(" and ".join(names), 80)
        raise InputError(
            f"{row.place}: {one_line(identity, 60)!r} of {whose} is already in row {first.row}; remove one of them"
        )


def _card(row: RawRow) -> JudgeCard:
    judge = row.fields.get("judge")
    model = judge[0] if isinstance(judge, list) and judge else judge
    if "games" in row.fields:
        name = "arena_hard_v2" if row.fields.get("category") in _V2 else "arena_hard"
    else:
        name = "mt_bench_single" if "score" in row.fields else "mt_bench"
    return load_judge_card(name, model if isinstance(model, str) and model else None)


def _arena_games(row: RawRow) -> Iterator[tuple[str, str | None, str]]:
    """The candidate's position, the label and the reply of each game; the first one shows the baseline first.

    A game that was not played has no label.
    """
    games = row.fields["games"]
    if not isinstance(games, list) or len(games) > 2:
        raise InputError(f"{row.place}: games: must be a list of two, one for each order; correct it")
    for position, game in itertools.zip_longest(("second", "first"), games):
        known = game if isinstance(game, Mapping) else {}
        yield position, known.get("score"), str(unwrapped(known.get("judgment")) or "")


def _mt_bench_games(row: RawRow) -> Iterator[tuple[str, str | None, str]]:
    for game, position, labels in (("g1", "first", _WINNERS), ("g2", "second", _SWAPPED)):
        winner = row.fields.get(f"{game}_winner")
        if winner not in (*labels, "error"):
            raise InputError(f"{row.place}: {game}_winner: must be model_1, model_2, tie or error; correct it")
        yield position, labels.get(winner), str(row.fields.get(f"{game}_judgment") or "")
