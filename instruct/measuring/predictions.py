"""How models predict texts: perplexity, entropy and the temperature that matches it, distances from a reference."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from instruct.analysis.clusters import repeats
from instruct.base.errors import InputError, InstructError, counted
from instruct.base.output import progress
from instruct.data.cards import load_dataset_card
from instruct.data.rows import load_rows
from instruct.engines.forward import ForwardModel, TextRow
from instruct.measuring.options import HeldOutOptions
from instruct.run.measurements import LOWER, MetricTraits, Number, PartResult, numbers

if TYPE_CHECKING:
    import torch

# What reports show of how systems predict human text.
PREDICTED = {
    "perplexity": MetricTraits("perplexity", LOWER, math.inf),
    "entropy": MetricTraits("entropy (nats)", "how sharp", math.inf),
    "forward_cross_entropy": MetricTraits("forward cross-entropy", LOWER, math.inf),
    "reverse_cross_entropy": MetricTraits("reverse cross-entropy", LOWER, math.inf),
    "total_variation": MetricTraits("total variation", LOWER),
    "jensen_shannon": MetricTraits("Jensen-Shannon", LOWER),
}
DISTANCES = (
    "forward_cross_entropy",
    "reverse_cross_entropy",
    "total_variation",
    "forward_kl",
    "reverse_kl",
    "jensen_shannon",
)
# Where temperatures are looked for, and how near the entropies have to be, in nats.
COLDEST, HOTTEST, TOLERANCE = 0.05, 10.0, 1e-3
_FIRST = (0.6, 0.8, 0.9, 1.0, 1.15, 1.4)
_PASSES = 30
_MOST_NATS = 709.0  # whose exponential is a float64


@dataclass(frozen=True)
class HeldOut:
    """Texts to be predicted.

    Attributes:
        ids: what identifies each text: its file and row, or its prefix.
        prefixes: what is read before each text and not scored; "" if there is nothing.
        texts: what is scored.
        whole: whether each text is a whole document, which an end token ends.
        clusters: of texts that depend on each other, by id; see `repeats`.
    """

    ids: list[str]
    prefixes: list[str]
    texts: list[str]
    whole: bool
    clusters: Mapping[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Of everything that the numbers depend on."""
        content = [self.prefixes, self.texts, self.whole, *filter(None, [self.clusters])]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def measured(self, numbers: Sequence[Number], **columns: np.ndarray) -> PartResult:
        """Numbers about the texts, with the values of each; a text without a token has none."""
        about = {"id": self.ids, **({"cluster": [self.clusters[id] for id in self.ids]} if self.clusters else {})}
        values = {
            name: [None if np.isnan(value) else value for value in column.tolist()] for name, column in columns.items()
        }
        return PartResult(numbers, {**about, **values})


def read_held_out(options: HeldOutOptions) -> HeldOut:
    """The texts of a card or of files.

    Raises:
        InputError: as `load_rows`; or the rows are not plain texts.
    """
    card = load_dataset_card(options.card) if options.card else None
    if card and card.purpose == "continue":  # texts, of which its prefixes are cut
        card = card.model_copy(update={"purpose": "train"})
    rows = load_rows(
        card,
        files=options.files,
        limit=options.limit,
        documents=options.documents,
        section="evaluation.texts.held_out",
    )
    name = ", ".join(options.files or []) or str(options.card)
    if not rows.plain_text:
        raise InputError(f"evaluation.texts.held_out: {name} has prompts and answers; give plain texts")
    texts = [row["text"] for row in rows.rows]
    clusters = repeats(dict(zip(rows.sources, texts, strict=True)))
    return HeldOut(list(rows.sources), [""] * len(texts), texts, whole=True, clusters=clusters)


@dataclass(frozen=True)
class Reading:
    """Texts as a model reads them, at most so many tokens at a time."""

    model: ForwardModel
    texts: HeldOut
    max_length: int

    @cached_property
    def windows(self) -> list[tuple[int, TextRow]]:
        """The place of a text, and tokens that fit into the model, which belong to that text from `start` on.

        Every token that has one before it is in exactly one window: a text that is too long is read in windows that
        overlap by half, so that a token has at least half a window before it. A whole text ends with the end token, as
        in training.

        Raises:
            InputError: a prefix leaves no room in the model's context, or the tokenizer has no end token.
        """
        texts, limit = self.texts, min(self.max_length, self.model.context)
        windows = []
        for place, row in enumerate(self.model.encode_after(texts.prefixes, texts.texts)):
            ids, scored = list(row.ids), row.start
            if texts.whole and ids[-1:] != [self.model.end]:
                ids.append(self.model.end)
            if limit <= scored < len(ids) and not texts.whole:
                raise InputError(
                    f"prefix {texts.ids[place]!r} has {scored} tokens, and {limit} are read at a time; shorten the "
                    "prefixes or raise evaluation.texts.max_length"
                )
            while scored < len(ids):
                begin = 0 if scored < limit else scored - limit // 2
                end = min(len(ids), begin + limit)
                windows.append((place, TextRow(ids[begin:end], scored - begin)))
                scored = end
        return windows


@dataclass(frozen=True)
class Likelihoods:
    """What a model says about texts, one entry a text.

    Attributes:
        nats: −ln p of the scored tokens, end token included; float64.
        tokens: that were scored.
        end_nats: the end token's share; 0 if none was scored.
        words, bytes: of the text that was scored: without what the first token covers, which has nothing before it.
    """

    nats: np.ndarray
    tokens: np.ndarray
    end_nats: np.ndarray
    words: np.ndarray
    bytes: np.ndarray

    def perplexity(self, of: np.ndarray | slice = slice(None)) -> float | None:
        """exp of the mean over the tokens of all texts, or of some; None: they have none."""
        tokens = self.tokens[of].sum()
        return _exp(float(self.nats[of].sum() / tokens)) if tokens else None


def likelihoods(reading: Reading) -> Likelihoods:
    """The likelihood of each text.

    Raises:
        InstructError: the model gives NaN.
    """
    model, texts, windows = reading.model, reading.texts, reading.windows
    count = len(texts.texts)
    nats, tokens, end_nats = np.zeros(count), np.zeros(count, int), np.zeros(count)
    for (place, row), values in zip(windows, model.log_probabilities([row for _, row in windows]), strict=True):
        if np.isnan(values).any():
            raise InstructError(f"{model.engine.options.subject}: gives NaN for a text; its training has diverged")
        nats[place] -= float(values.sum(dtype=np.float64))
        tokens[place] += len(values)
        if texts.whole and row.ids[-1] == model.end:
            end_nats[place] = -float(values[-1])
    pairs = zip(texts.prefixes, texts.texts, strict=True)
    scored = [text if prefix else _without_first_token(model, text) for prefix, text in pairs]
    words = np.array([len(text.split()) for text in scored], int)
    return Likelihoods(nats, tokens, end_nats, words, np.array([len(text.encode()) for text in scored], int))


def _without_first_token(model: ForwardModel, text: str) -> str:
    """The part of a text that is scored; all of it if the tokenizer puts a token before it."""
    (ids,) = model.encode([text])
    covered = model.tokenizer.decode(ids[:1], skip_special_tokens=True)
    # A token may be a part of a character, which does not decode.
    return text.removeprefix(covered) if text.startswith(covered) else text[1:]


def perplexity(reading: Reading) -> PartResult:
    """exp of the mean negative log-likelihood per token, the end token of a text included, and per word and byte of
    the text without it, so that systems with different tokenizers can be compared.

    Raises:
        InputError: the texts have no token.
    """
    values = likelihoods(reading)
    if not values.tokens.sum():
        raise InputError("evaluation.texts.held_out: its texts have no token that the model can read; give other texts")
    text = float(values.nats.sum() - values.end_nats.sum())
    tokens, words, sizes = int(values.tokens.sum()), int(values.words.sum()), int(values.bytes.sum())
    figures = {
        "perplexity": values.perplexity(),
        "word_perplexity": _exp(text / words) if words else None,
        "byte_perplexity": _exp(text / sizes) if sizes else None,
    }
    found = numbers(figures, int((values.tokens > 0).sum()), tokens=tokens, words=words, bytes=sizes)
    return reading.texts.measured(found, nats=values.nats, tokens=values.tokens)


def _exp(nats: float) -> float:
    return math.exp(min(nats, _MOST_NATS))


def entropy(reading: Reading, temperature: float) -> PartResult:
    """The mean entropy of a model's next-token distributions on texts, teacher-forced, in nats per token.

    A temperature T makes p of softmax(logits / T), as in sampling; 0 makes it certain.
    """
    sums, tokens = _sums(reading, [temperature], _entropies)
    mean, count = float(sums[0, 0].sum() / tokens.sum()), int(tokens.sum())
    found = numbers({"entropy": mean}, int((tokens > 0).sum()), temperature=temperature, tokens=count)
    return reading.texts.measured(found, nats=sums[0, 0], tokens=tokens)


def mean_entropies(reading: Reading, temperatures: Sequence[float]) -> list[float]:
    """As `entropy`, at several temperatures, in one pass."""
    sums, tokens = _sums(reading, temperatures, _entropies)
    return [float(value) for value in sums[:, 0].sum(1) / tokens.sum()]


def _entropies(logs: torch.Tensor) -> list[torch.Tensor]:
    return [-(logs.exp() * logs).sum(-1)]


def matching_temperatures(
    measure: Callable[[list[float]], list[float]], targets: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """The temperature at which a model's mean entropy is each target, and that entropy; no entry where none is.

    Entropy grows with temperature. Brackets are narrowed by interpolation, guarded by bisection, with all targets in
    one pass over the texts at a time, until the entropies are within TOLERANCE.

    Args:
        measure: mean entropies at temperatures between COLDEST and HOTTEST, which it measures in one pass.
        targets: nats per token, by system.
    """
    known = dict(zip(_FIRST, measure(list(_FIRST)), strict=True))
    if any(not min(known.values()) <= target <= max(known.values()) for target in targets.values()):
        ends = [COLDEST, HOTTEST]
        known |= zip(ends, measure(ends), strict=True)
    least, most = min(known.values()) - TOLERANCE, max(known.values()) + TOLERANCE
    targets = {name: target for name, target in targets.items() if least <= target <= most}
    for number in range(_PASSES):
        guesses = {
            name: _between(known, target, bisect=number % 3 == 2)
            for name, target in targets.items()
            if abs(known[nearest(known, target)] - target) > TOLERANCE
        }
        if not guesses:
            break
        asked = sorted(set(guesses.values()))
        known |= zip(asked, measure(asked), strict=True)
    return {name: (nearest(known, target), known[nearest(known, target)]) for name, target in targets.items()}


def nearest(known: dict[float, float], target: float) -> float:
    """The temperature whose entropy is nearest to `target`; of several, that nearest to 1."""
    return min(known, key=lambda temperature: (abs(known[temperature] - target), abs(temperature - 1)))


def _between(known: dict[float, float], target: float, bisect: bool) -> float:
    """A temperature between the two whose entropies are around `target`."""
    low = max((t for t in known if known[t] <= target), default=min(known))
    high = min((t for t in known if t > low), default=max(known))
    share = 0.5 if bisect or known[high] == known[low] else (target - known[low]) / (known[high] - known[low])
    return low + min(max(share, 0.01), 0.99) * (high - low)


def check_vocabularies(reference: ForwardModel, model: ForwardModel) -> None:
    """Refuse to compare the probabilities of different tokens.

    Raises:
        InputError: the models' vocabularies differ.
    """
    own, other = model.tokenizer.get_vocab(), reference.tokenizer.get_vocab()
    if own != other:
        raise InputError(
            f"evaluation.texts.reference_model: {reference.engine.options.subject} has another vocabulary "
            f"({len(other):,} tokens) than {model.engine.options.subject} ({len(own):,}), and distances compare the "
            "probabilities of the same tokens; name a model with the same tokenizer, or leave distances out of "
            "evaluation.texts.metrics"
        )


def distances(
    reading: Reading, reference: ForwardModel, name: str, temperatures: Sequence[float] = (1.0,)
) -> PartResult:
    """DISTANCES of the model (q) from the reference (p), which has that name: means over the scored tokens of each
    text, then over texts; at each temperature of the model's distributions, in one pass. The first is the model's own,
    the others are its curve."""
    sums, tokens = _sums(reading, temperatures, position_distances, reference)
    with np.errstate(invalid="ignore"):
        of_texts = sums / tokens
    found: list[Number] = []
    for distance, values in zip(DISTANCES, np.moveaxis(of_texts, 1, 0), strict=True):
        own, *others = [float(np.nanmean(value)) for value in values]
        curve = [list(point) for point in zip(temperatures[1:], others, strict=True)]
        texts, at = int(np.isfinite(values[0]).sum()), reading.model.temperature
        found += numbers({distance: own}, texts, temperature=at, reference=name, curve=curve)
    return reading.texts.measured(found, **dict(zip(DISTANCES, of_texts[0], strict=True)))


def position_distances(p: torch.Tensor, q: torch.Tensor) -> list[torch.Tensor]:
    """DISTANCES between distributions given as ln p and ln q, [positions, vocabulary]; each [positions], in nats but
    for total variation, which is between 0 and 1."""
    import torch

    p_share, q_share = p.exp(), q.exp()
    middle = torch.logaddexp(p, q) - np.log(2)
    return [
        -(p_share * q).sum(-1),
        -(q_share * p).sum(-1),
        (p_share - q_share).abs().sum(-1) / 2,
        (p_share * (p - q)).sum(-1),
        (q_share * (q - p)).sum(-1),
        ((p_share * (p - middle)).sum(-1) + (q_share * (q - middle)).sum(-1)) / 2,
    ]


def _sums(
    reading: Reading,
    temperatures: Sequence[float],
    figures: Callable[..., list[torch.Tensor]],
    reference: ForwardModel | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the scored tokens of each text of figures of ln p, [positions, vocabulary], and the number of tokens.

    With a reference, its ln p comes first; both models are in step, so that no more than one batch's logits of each
    are in memory.

    Returns:
        float64, [temperatures, figures, texts], 0 at the temperature 0; [texts].
    """
    models, vocabulary = [reading.model], None
    if reference:  # embeddings may be padded differently; no text has the ids beyond both
        models, vocabulary = [reference, reading.model], min(reference.vocabulary, reading.model.vocabulary)
    rows, last = [row for _, row in reading.windows], None
    tokens = np.zeros(len(reading.texts.texts), int)
    sums = np.zeros((len(temperatures), len(DISTANCES) if reference else 1, len(tokens)))
    with progress(f"predictions of {counted(len(rows), 'text')}", len(rows)) as done:
        for portions in zip(*(model.distributions(rows, vocabulary) for model in models), strict=True):
            (number,) = {number for number, _ in portions}
            if number != last:  # portions of a row follow each other
                done(1)
            place, last = reading.windows[number][0], number
            *first, own = (logs for _, logs in portions)
            tokens[place] += len(own)
            for i, temperature in enumerate(temperatures):
                if temperature > 0:
                    logs = own if temperature == 1 else (own / temperature).log_softmax(-1)
                    sums[i, :, place] += [float(value.double().sum()) for value in figures(*first, logs)]
    return sums, tokens
