"""The numbers about a system's texts, as metrics.json holds them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from instruct.analysis.results import Interval


class Perplexity(BaseModel):
    """How well a system predicts held-out text; docs/text_metrics.md has the formulas.

    Attributes:
        perplexity: per token of the system, the end token of a text included.
        word_perplexity, byte_perplexity: per word and per byte of the text, without end tokens, so that systems with
            different tokenizers can be compared. None: there is no second word.
        texts, tokens, words, bytes: that were scored; the first token of a text has nothing before it.
    """

    model_config = ConfigDict(extra="forbid")

    perplexity: float
    word_perplexity: float | None = None
    byte_perplexity: float | None = None
    texts: int
    tokens: int
    words: int
    bytes: int


class OraclePerplexity(BaseModel):
    """How well a reference model predicts a system's continuations: PPL_oracle.

    Attributes:
        perplexity: per token of the reference; None: every continuation is empty.
        by_seed: the same for each seed that the continuations were sampled with.
        empty: continuations without a token, which are among `texts`.
        human: the perplexity of how the human texts of the same prefixes continue; None: they are unknown.
    """

    model_config = ConfigDict(extra="forbid")

    reference: str
    perplexity: float | None = None
    human: float | None = None
    by_seed: dict[str, float] = {}
    texts: int
    tokens: int
    empty: int


class Entropy(BaseModel):
    """Mean entropy of next-token distributions on human text, in nats per token, at a sampling temperature."""

    model_config = ConfigDict(extra="forbid")

    entropy: float
    temperature: float
    texts: int
    tokens: int


class DistancesAt(BaseModel):
    """Of next-token distributions at a temperature from those of a reference model: means over tokens, then texts.

    In nats, except `total_variation`, which is between 0 and 1. `forward_*` are expectations under the reference,
    `reverse_*` under the system.
    """

    model_config = ConfigDict(extra="forbid")

    temperature: float
    forward_cross_entropy: float
    reverse_cross_entropy: float
    total_variation: float
    forward_kl: float
    reverse_kl: float
    jensen_shannon: float


class Distances(DistancesAt):
    """A system's distances on human text from a reference model; of MLE, `curve` has those at other temperatures."""

    reference: str
    texts: int
    curve: list[DistancesAt] = []


class Matched(BaseModel):
    """What the control `mle-matched-SYSTEM` is: an MLE system at the temperature at which its entropy is a system's.

    Attributes:
        mle, system: their names.
        system_temperature, temperature: at which the system and the control are sampled.
        system_entropy, entropy: mean entropies on human text at these temperatures, in nats per token.
    """

    model_config = ConfigDict(extra="forbid")

    mle: str
    system: str
    system_temperature: float
    temperature: float
    system_entropy: float
    entropy: float


class SampleFigure(BaseModel):
    """A figure of a whole sample of texts, the mean over draws.

    Attributes:
        interval: 95 %, for other texts; None: nothing varies.
        without: the figure without each group of prefixes (instruct.analysis.jackknife), which tests between systems
            need. None: not defined for some group.
        other_variance: of the value, for other reasons than the texts: k-means' seeds.
    """

    model_config = ConfigDict(extra="forbid")

    value: float
    interval: Interval | None = None
    without: list[float] | None = None
    other_variance: float = 0.0


class MauveFigures(BaseModel):
    """MAUVE of prefix + continuation against prefix + human continuation.

    Attributes:
        by_draw: MAUVE of each draw (`seed/sample`). by_kmeans_seed: for each k-means seed, the mean over draws.
        star: MAUVE*, of smoothed histograms.
        curve: the divergence curve from (1, 0) to (0, 1), mean over draws and k-means seeds.
        texts: of a draw, and human ones. clusters: of k-means.
        features: the model whose last hidden states are compared. max_length: its tokens of a text.
    """

    model_config = ConfigDict(extra="forbid")

    mauve: SampleFigure
    by_draw: dict[str, float]
    by_kmeans_seed: list[float]
    star: float
    frontier_integral: float
    curve: list[tuple[float, float]]
    texts: int
    clusters: int
    features: str
    max_length: int


class Rouge(BaseModel):
    """Mean F1 of ROUGE-1, -2 and -L against the human continuation, 0 to 1; `*_whole`: with the prefix on both sides.

    Attributes:
        texts: continuations of all draws.
        without_tokens: of them, those in which, or in whose human text, ROUGE sees no token; they have 0.
    """

    model_config = ConfigDict(extra="forbid")

    rouge1: float
    rouge2: float
    rougeL: float
    rouge1_whole: float
    rouge2_whole: float
    rougeL_whole: float
    texts: int
    without_tokens: int


class Diversity(BaseModel):
    """How varied the continuations of a draw are (instruct.measuring.texts.diversity); None: not defined.

    Attributes:
        repetition: mean seq-rep-4 of a continuation.
        texts: of a draw. human: the same figures of the human continuations; {} if these are unknown.
        empty: blank continuations of all draws, of `continuations`; they count as texts without tokens.
    """

    model_config = ConfigDict(extra="forbid")

    distinct_1: SampleFigure | None = None
    distinct_2: SampleFigure | None = None
    distinct_3: SampleFigure | None = None
    distinct_4: SampleFigure | None = None
    self_bleu: SampleFigure | None = None
    zipf: SampleFigure | None = None
    repetition: float
    texts: int
    human: dict[str, float] = {}
    empty: int = 0
    continuations: int = 0


class SystemTexts(BaseModel):
    """All numbers about one system's texts; None: not computed.

    Attributes:
        matched: of a control, what it is.
        no_control: why there is no `mle-matched-SYSTEM` for this system.
    """

    model_config = ConfigDict(extra="forbid")

    perplexity: Perplexity | None = None
    entropy: Entropy | None = None
    matched: Matched | None = None
    no_control: str | None = None
    distances: Distances | None = None
    oracle_perplexity: OraclePerplexity | None = None
    mauve: MauveFigures | None = None
    rouge: Rouge | None = None
    diversity: Diversity | None = None
