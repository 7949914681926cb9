"""The fit of train_judge.py's score head: everything is chosen by cross-validation inside the labels.

The score of an answer is linear in its features, and a pair is decided by the difference of the scores: a logistic
regression on the difference of the features without an intercept, so that neither position is preferred.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from instruct.base.errors import InputError
from instruct.engines.base import Prompt
from instruct.engines.score_heads import HeadReading, ScoreHead, StatesEngine
from instruct.judging.presentations import AnswerChats
from instruct.validation.human_sets import HumanPair

LAYERS = (8, 10, 12, 14, 16, 18, 20)
PENALTIES = (3e-4, 1e-3, 3e-3, 1e-2)  # C of the logistic regression
FOLDS = 5
# The standardized length is multiplied by this, so that its weight is hardly penalized: it is one feature that people's
# labels are known to follow, next to hundreds of states.
LENGTH_SCALE = 30.0


@dataclass(frozen=True)
class Choice:
    """What cross-validation chooses: the layer that is read and C, the inverse strength of the ridge penalty."""

    layer: int
    c: float


@dataclass(frozen=True)
class TrainedHead:
    """A head, its margin for ties, and what its training set says about it.

    `verdicts`: one per pair, each by a head that was trained without the pair's instruction, whose layer, C and margin
    were chosen without it too.
    """

    head: ScoreHead
    tie_margin: float
    choice: Choice
    verdicts: list[str]


@dataclass(frozen=True)
class LabeledFeatures:
    """The features of both answers of each pair, with its label and instruction.

    first, second: float32 of shape [pairs, layers * hidden + 1], of the layers in `layers`; the last column is the
    length. sign: 1 if the first answer is better, -1 if the second is, 0 for a tie. groups: equal for pairs with the
    same instruction.
    """

    layers: tuple[int, ...]
    first: np.ndarray
    second: np.ndarray
    sign: np.ndarray
    groups: np.ndarray

    def only(self, rows: np.ndarray) -> LabeledFeatures:
        """Some of the pairs."""
        return LabeledFeatures(self.layers, self.first[rows], self.second[rows], self.sign[rows], self.groups[rows])

    def columns(self, layer: int) -> np.ndarray:
        """The columns of a layer's states and of the length."""
        hidden = (self.first.shape[1] - 1) // len(self.layers)
        begin = self.layers.index(layer) * hidden
        return np.r_[begin : begin + hidden, -1]


def read_features(engine: StatesEngine, pairs: Sequence[HumanPair]) -> LabeledFeatures:
    """The features of all answers; each different answer to an instruction is computed once."""
    chats: list[Prompt] = []
    for pair in pairs:
        chats += AnswerChats().render_all(pair.prompt.row("", ""), pair.first, pair.second)
    places: dict[str, int] = {}
    where = [places.setdefault(repr(chat), len(places)) for chat in chats]
    once = dict(zip(where, chats, strict=True))
    features = engine.features([once[place] for place in range(len(once))])
    groups: dict[str, int] = {}
    return LabeledFeatures(
        engine.reading.layers,
        features[where[::2]],
        features[where[1::2]],
        np.array([{"first": 1, "second": -1, "tie": 0}[pair.label] for pair in pairs]),
        np.array([groups.setdefault(pair.prompt.whole, len(groups)) for pair in pairs]),
    )


def train_head(data: LabeledFeatures, reading: HeadReading) -> TrainedHead:
    """A head for these labels.

    Args:
        reading: what the features were read with; the head keeps only the chosen layer of it.

    Raises:
        InputError: too few pairs with a winner, or with different instructions.
    """
    if len(set(data.groups[data.sign != 0])) < 2 * FOLDS:
        raise InputError(
            f"the labels have a winner for {len(set(data.groups[data.sign != 0]))} different instructions; training a "
            f"head needs at least {2 * FOLDS}"
        )
    verdicts = np.empty(len(data.sign), dtype=object)
    for train, test in _folds(data):
        choice, margin = _chosen(data.only(train))
        fitted = _Fitted(data.only(train), choice)
        verdicts[test] = verdicts_of(fitted.differences(data.only(test)), margin)
    choice, margin = _chosen(data)
    fitted = _Fitted(data, choice)
    read = HeadReading((choice.layer,), reading.prompt_tokens, reading.answer_tokens)
    return TrainedHead(fitted.head(read), margin, choice, list(verdicts))


def verdicts_of(differences: np.ndarray, margin: float) -> list[str]:
    """The verdicts of score differences: below the margin, or 0, a tie."""
    return [
        "tie" if gap == 0 or abs(gap) < margin else "first" if gap > 0 else "second" for gap in differences.tolist()
    ]


class _Fitted:
    """A logistic regression without intercept on the differences of standardized features."""

    def __init__(self, data: LabeledFeatures, choice: Choice) -> None:
        self._columns = data.columns(choice.layer)
        answers = np.concatenate([data.first, data.second])[:, self._columns].astype(np.float64)
        self._mean, self._scale = answers.mean(0), answers.std(0) + 1e-9
        self._scale[-1] /= LENGTH_SCALE
        decided = data.sign != 0
        model = LogisticRegression(C=choice.c, fit_intercept=False, max_iter=1000)
        model.fit(self._difference(data)[decided], data.sign[decided])
        self._weights = model.coef_[0]

    def _difference(self, data: LabeledFeatures) -> np.ndarray:
        return (data.first[:, self._columns] - data.second[:, self._columns]).astype(np.float64) / self._scale

    def differences(self, data: LabeledFeatures) -> np.ndarray:
        """The first answers' scores minus the second ones'."""
        return self._difference(data) @ self._weights

    def head(self, reading: HeadReading) -> ScoreHead:
        weights = self._weights / self._scale
        return ScoreHead(reading, weights.astype(np.float32), float(-weights @ self._mean))


def _folds(data: LabeledFeatures) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield from GroupKFold(FOLDS).split(data.sign, groups=data.groups)


def _chosen(data: LabeledFeatures) -> tuple[Choice, float]:
    """The choice, and the margin for ties with the most right verdicts, both on held-out folds.

    Of each layer the C with the least mean log-loss; of the layers the first whose loss is within one standard error of
    the least, since it costs less (the one-standard-error rule of Breiman et al., 1984).
    """
    choices = [Choice(layer, c) for layer, c in itertools.product(data.layers, PENALTIES)]
    differences = {choice: np.empty(len(data.sign)) for choice in choices}
    for train, test in _folds(data):
        for choice in choices:
            differences[choice][test] = _Fitted(data.only(train), choice).differences(data.only(test))
    losses = {choice: _log_losses(differences[choice], data.sign) for choice in choices}
    best_of = {
        layer: min((choice for choice in choices if choice.layer == layer), key=lambda choice: losses[choice].mean())
        for layer in data.layers
    }
    least = min((losses[choice] for choice in best_of.values()), key=np.mean)
    enough = least.mean() + least.std(ddof=1) / np.sqrt(len(least))
    chosen = next(choice for _, choice in sorted(best_of.items()) if losses[choice].mean() <= enough)
    return chosen, best_margin(differences[chosen], data.sign)


def _log_losses(differences: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """Of each pair that has a winner."""
    decided = sign != 0
    return np.asarray(np.logaddexp(0, -differences[decided] * sign[decided]))


def best_margin(differences: np.ndarray, sign: np.ndarray) -> float:
    """The margin below which a difference is a tie that gives the most right verdicts; of equals the least."""
    sizes = np.abs(differences)
    order = np.argsort(sizes, kind="stable")
    right = (np.sign(differences) == sign)[order]
    tied = (sign == 0)[order]
    # With the k least differences as ties: their ties are right, and of the others the signs that fit.
    counts = np.r_[0, np.cumsum(tied)] + right.sum() - np.r_[0, np.cumsum(right)]
    k = int(np.argmax(counts))
    sizes = sizes[order]
    if k == 0:
        return 0.0
    return float(sizes[-1] + 1 if k == len(sizes) else (sizes[k - 1] + sizes[k]) / 2)
