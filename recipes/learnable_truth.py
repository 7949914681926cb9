"""Does EMO bring a model closer to a truth that is known exactly, and that has to be learned from samples?

    python recipes/learnable_truth.py               # some two hours of one core
    python recipes/learnable_truth.py --dry-run

The truth is a hidden Markov model with random tables: tokens with close vectors are emitted by the same states, and the
probability of every next token given all before it is exact (the forward algorithm). A small Llama learns it from a few
thousand sequences, so it has to generalize over contexts, and the transport costs are made of the truth's own vectors,
the best that EMO could be given. Every seed draws another truth, other data and other initial weights.

The primary outcome is the Jensen-Shannon divergence from the truth on test sequences, at the best of TEMPERATURES.
Learning rate, epoch and temperature of every system are those with the lowest one on other sequences; learning rates
are chosen with a seed that is not scored. So no objective is chosen by another's loss. `mle_half` is MLE on half of the
sequences: a difference that the design has to detect. `frequencies` predicts the training tokens' frequencies whatever
came before: the end of the scale.

Results go to runs/NAME: results.json and report.md. A finished training is not repeated; rerun the command to resume.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from study import RecipeParser, markdown, run_recipe, write_table

from instruct.analysis.inference import Estimate, student
from instruct.base.files import write_atomically
from instruct.base.output import say
from instruct.measuring.predictions import DISTANCES, position_distances
from instruct.objectives import CosineCost, EnergyTable, linear_objective_loss
from instruct.scores.claims import holm
from instruct.training.emo_config import objective_of

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "mle": ("mle", {}),
    "emo": ("emo", {"variant": "official"}),
    "emo_paper": ("emo", {"variant": "paper"}),
    "energy": ("energy", {"weight": 10.0}),
    "mle_half": ("mle", {}),
}
TEMPERATURES = (0.7, 0.85, 1.0, 1.2, 1.4)
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
STATES, VOCABULARY, WIDTH, LENGTH = 12, 256, 16, 32
HELD_OUT = (300, 500)  # sequences: to choose by, to test on
FIGURES = ("jensen_shannon", "forward_cross_entropy", "reverse_cross_entropy", "entropy")
PRIMARY = "jensen_shannon"  # nats


class Truth(NamedTuple):
    """A hidden Markov model: `start` (states,), `moves` (states, states), `emissions` (states, vocabulary), and the
    tokens' `vectors` (vocabulary, width); float64."""

    start: torch.Tensor
    moves: torch.Tensor
    emissions: torch.Tensor
    vectors: torch.Tensor

    @staticmethod
    def draw(seed: int) -> Truth:
        """A state emits the tokens whose vectors point its way."""
        rng = np.random.default_rng(seed)
        vectors = rng.normal(size=(VOCABULARY, WIDTH))
        logits = 0.8 * rng.normal(size=(STATES, WIDTH)) @ vectors.T
        emissions = np.exp(logits - logits.max(axis=1, keepdims=True))
        tables = (
            rng.dirichlet(np.ones(STATES)),
            rng.dirichlet(np.full(STATES, 0.2), size=STATES),
            emissions / emissions.sum(axis=1, keepdims=True),
            vectors,
        )
        return Truth(*map(torch.from_numpy, tables))

    def sample(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Sequences, (count, LENGTH) int64."""
        states = torch.multinomial(self.start, count, replacement=True, generator=generator)
        tokens = []
        for _ in range(LENGTH):
            tokens.append(torch.multinomial(self.emissions[states], 1, generator=generator)[:, 0])
            states = torch.multinomial(self.moves[states], 1, generator=generator)[:, 0]
        return torch.stack(tokens, dim=1)

    def log_probabilities(self, tokens: torch.Tensor) -> torch.Tensor:
        """ln p of every next token given all before it, (sequences, LENGTH - 1, vocabulary) float64."""
        belief, rows = self.start.expand(len(tokens), -1), []
        for place in range(LENGTH - 1):
            seen = belief * self.emissions[:, tokens[:, place]].T
            belief = (seen / seen.sum(dim=1, keepdim=True)) @ self.moves
            rows.append((belief @ self.emissions).log())
        return torch.stack(rows, dim=1)


class Data(NamedTuple):
    """Sequences of one truth: to train on, to choose by, and to test on."""

    train: torch.Tensor
    choose: torch.Tensor
    test: torch.Tensor

    @staticmethod
    def draw(truth: Truth, seed: int, sequences: int) -> Data:
        """Of one seed; the same for every system."""
        generator = torch.Generator().manual_seed(seed)
        return Data(*(truth.sample(count, generator) for count in (sequences, *HELD_OUT)))


def main() -> None:
    parser = RecipeParser(__doc__)
    add = parser.add_argument
    add("--name", default="learnable_truth", help="results go to runs/NAME (default: learnable_truth)")
    add("--seeds", type=int, default=10, help="truths, each with its data and weights (default: 10)")
    add("--sequences", type=int, default=2000, help="of 32 tokens to train on (default: 2,000)")
    add("--epochs", type=int, default=20, help="at most (default: 20)")
    add("--dry-run", action="store_true", help="print the plan and stop")
    arguments = parser.parse_args()
    folder = Path("runs") / arguments.name
    trainings = len(SYSTEMS) * (len(RATES) + arguments.seeds)
    say(f"plan      {len(SYSTEMS)} systems, {arguments.seeds} truths, {trainings} trainings; to {folder}")
    if arguments.dry_run:
        return
    path = folder / "results.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []

    def finish(system: str, seed: int, rate: float) -> None:
        """Train what is not in results.json yet."""
        if (system, seed, rate) in [(row["system"], row["seed"], row["rate"]) for row in rows]:
            return
        trained = train(system, seed, rate, arguments.sequences, arguments.epochs)
        rows.append({"system": system, "seed": seed, "rate": rate, **trained})
        write_atomically(path, json.dumps(rows, indent=1) + "\n")
        figures = f"epoch {trained['epoch']:2}  Jensen-Shannon {at_best(trained, PRIMARY):.4f}"
        say(f"{system:10} seed {seed:2}  rate {rate:g}  {figures}")

    for system, rate in itertools.product(SYSTEMS, RATES):
        finish(system, 0, rate)
    chosen = best_rates(rows)
    for seed, system in itertools.product(range(1, arguments.seeds + 1), SYSTEMS):
        finish(system, seed, chosen[system])
    write_table(folder / "report.md", report(rows, arguments.sequences))


def train(system: str, seed: int, rate: float, sequences: int, epochs: int) -> dict[str, Any]:
    """Train a model; the curves of its best epoch over TEMPERATURES, of the sequences to choose by and of the test."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    truth = Truth.draw(seed)
    data = Data.draw(truth, seed, sequences)
    name, arguments = SYSTEMS[system]
    objective = objective_of(name, arguments)
    vectors = truth.vectors.float().to(device)
    cost = EnergyTable(vectors, WIDTH) if name == "energy" else CosineCost(vectors) if name == "emo" else None
    torch.manual_seed(seed)
    shape = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **shape))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    rows = data.train[: len(data.train) // 2] if system == "mle_half" else data.train
    order = torch.Generator().manual_seed(seed)
    exact = truth.log_probabilities(data.choose)
    best: dict[str, Any] = {}
    weights: dict[str, torch.Tensor] = {}
    for epoch in range(1, epochs + 1):
        for batch in rows[torch.randperm(len(rows), generator=order)].split(32):
            hidden = model.model(batch[:, :-1].to(device)).last_hidden_state.flatten(0, 1)
            loss, _ = linear_objective_loss(hidden, model.lm_head.weight, batch[:, 1:].flatten(), objective, cost)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        choose = distances(exact, predict(model, data.choose))
        if not best or min(choose[PRIMARY]) < min(best["choose"][PRIMARY]):
            best = {"epoch": epoch, "choose": choose}
            weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    return {**best, "test": distances(truth.log_probabilities(data.test), predict(model, data.test))}


def frequencies(seed: int, sequences: int) -> float:
    """PRIMARY of the training tokens' frequencies (one added to each count), whatever came before."""
    truth = Truth.draw(seed)
    data = Data.draw(truth, seed, sequences)
    counts = torch.bincount(data.train.flatten(), minlength=VOCABULARY).double() + 1
    exact = truth.log_probabilities(data.test)
    return distances(exact, (counts / counts.sum()).log().expand_as(exact), [1.0])[PRIMARY][0]


@torch.no_grad()
def predict(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """ln q of every next token, as `Truth.log_probabilities`."""
    return torch.log_softmax(model(tokens[:, :-1].to(model.device)).logits.double(), dim=-1)


def distances(
    exact: torch.Tensor, predicted: torch.Tensor, temperatures: Sequence[float] = TEMPERATURES
) -> dict[str, list[float]]:
    """FIGURES at each of the temperatures: means over positions, in nats."""
    curves: dict[str, list[float]] = {name: [] for name in FIGURES}
    exact = exact.flatten(0, 1).to(predicted.device)
    for temperature in temperatures:
        logs = torch.log_softmax(predicted.flatten(0, 1) / temperature, dim=-1)
        figures = dict(zip(DISTANCES, position_distances(exact, logs), strict=True))
        figures["entropy"] = -(logs.exp() * logs).sum(dim=-1)
        for name, curve in curves.items():
            curve.append(float(figures[name].mean()))
    return curves


def best_rates(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of each system, with seed 0, by PRIMARY on the sequences to choose by."""
    tried = {system: [row for row in rows if (row["system"], row["seed"]) == (system, 0)] for system in SYSTEMS}
    return {system: min(of, key=lambda row: min(row["choose"][PRIMARY]))["rate"] for system, of in tried.items()}


def at_best(row: dict[str, Any], figure: str) -> float:
    """A figure of the test sequences at the temperature with the lowest PRIMARY on others."""
    curve = row["choose"][PRIMARY]
    return float(row["test"][figure][curve.index(min(curve))])


OUTCOMES = {
    "at the best T of each (primary)": lambda row: at_best(row, PRIMARY),
    "at T 1": lambda row: row["test"][PRIMARY][TEMPERATURES.index(1.0)],
    "mean over T": lambda row: statistics.mean(row["test"][PRIMARY]),
}


def report(rows: list[dict[str, Any]], sequences: int) -> list[str]:
    """Means over seeds, and each system's differences from MLE, paired by seed."""
    chosen = best_rates(rows)
    of = {system: {row["seed"]: row for row in rows if row["system"] == system and row["seed"]} for system in SYSTEMS}
    floor = statistics.mean(frequencies(seed, sequences) for seed in of["mle"])
    means = []
    for (system, of_seed), (place, temperature) in itertools.product(of.items(), enumerate(TEMPERATURES)):
        figures = [statistics.mean(row["test"][figure][place] for row in of_seed.values()) for figure in FIGURES]
        means.append([system, f"{chosen[system]:g}", temperature, *(f"{figure:.4f}" for figure in figures)])
    found: dict[tuple[str, str], Estimate] = {}
    for system, (outcome, value) in itertools.product(list(SYSTEMS)[1:], OUTCOMES.items()):
        differences = [value(row) - value(of["mle"][seed]) for seed, row in sorted(of[system].items())]
        mean, error = statistics.mean(differences), statistics.stdev(differences) / len(differences) ** 0.5
        found[system, outcome] = student(mean, error, len(differences) - 1, 0.0)
    primary = next(iter(OUTCOMES))
    trained = [system for system in SYSTEMS if system not in ("mle", "mle_half")]
    corrected = dict(zip(trained, holm([found[system, primary].p for system in trained]), strict=True))
    compared = []
    for (system, outcome), estimate in found.items():
        low, high = estimate.interval or [estimate.value] * 2
        adjusted = corrected.get(system) if outcome == primary else None
        p, p_holm = ("" if one is None else f"{one:.2g}" for one in (estimate.p, adjusted))
        compared.append([system, outcome, f"{estimate.value:+.5f}", f"{low:+.5f} to {high:+.5f}", p, p_holm])
    return [
        "# Learnable truth",
        "",
        f"{sequences:,} sequences to learn from, {len(of['mle'])} truths. Jensen-Shannon divergence from the truth in "
        f"nats (0: the truth; {floor:.4f}: the tokens' frequencies, whatever came before); forward and reverse "
        "cross-entropy: recall and precision.",
        "",
        *markdown(["", "rate", "T", *(figure.replace("_", " ") for figure in FIGURES)], means),
        "",
        "Minus MLE in Jensen-Shannon divergence, paired by seed: 95 % intervals and p of Student's t; Holm's "
        "correction is over the three objectives that are compared with MLE on the primary outcome.",
        "",
        *markdown(["", "outcome", "difference", "95 % CI", "p", "p (Holm)"], compared),
    ]


if __name__ == "__main__":
    run_recipe(main)
