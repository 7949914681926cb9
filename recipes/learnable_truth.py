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

import argparse
import itertools
import json
import multiprocessing
import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from study import RecipeParser, markdown, run_recipe

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
FIGURES = ("jensen_shannon", "forward_cross_entropy", "reverse_cross_entropy", "total_variation", "entropy")
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


class Training(NamedTuple):
    """What one process does."""

    system: str
    seed: int
    rate: float
    sequences: int
    epochs: int
    device: str


def train(training: Training) -> dict[str, Any]:
    """Train a model; the curves of its best epoch over TEMPERATURES, of the sequences to choose by and of the test."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    truth = Truth.draw(training.seed)
    data = Data.draw(truth, training.seed, training.sequences)
    name, arguments = SYSTEMS[training.system]
    objective = objective_of(name, arguments)
    vectors = truth.vectors.float().to(training.device)
    cost = EnergyTable(vectors, WIDTH) if name == "energy" else CosineCost(vectors) if name == "emo" else None
    torch.manual_seed(training.seed)
    shape = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=LENGTH, **shape))
    model.to(training.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.rate, weight_decay=0.01)
    rows = data.train[: len(data.train) // 2] if training.system == "mle_half" else data.train
    order = torch.Generator().manual_seed(training.seed)
    exact = truth.log_probabilities(data.choose)
    best: dict[str, Any] = {}
    weights: dict[str, torch.Tensor] = {}
    for epoch in range(1, training.epochs + 1):
        for batch in rows[torch.randperm(len(rows), generator=order)].split(32):
            hidden = model.model(batch[:, :-1].to(training.device)).last_hidden_state.flatten(0, 1)
            loss, _ = linear_objective_loss(hidden, model.lm_head.weight, batch[:, 1:].flatten(), objective, cost)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        choose = distances(exact, predict(model, data.choose))
        if not best or min(choose[PRIMARY]) < min(best["choose"][PRIMARY]):
            best = {"epoch": epoch, "choose": choose}
            weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    best["test"] = distances(truth.log_probabilities(data.test), predict(model, data.test))
    return {"system": training.system, "seed": training.seed, "rate": training.rate, **best}


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


def train_all(trainings: list[Training], jobs: int) -> Iterator[dict[str, Any]]:
    """The rows of trainings, each as soon as it is finished."""
    if jobs == 1:
        yield from map(train, trainings)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(train, training) for training in trainings]):
            yield future.result()


def run(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Train what is not in results.json yet: with seed 0 at every rate, then with the other seeds at the best one."""
    path = folder / "results.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    rest = (arguments.sequences, arguments.epochs, arguments.device)

    def finish(cells: Iterable[tuple[str, int, float]]) -> None:
        done = {(row["system"], row["seed"], row["rate"]) for row in rows}
        for row in train_all([Training(*cell, *rest) for cell in cells if cell not in done], arguments.jobs):
            rows.append(row)
            write_atomically(path, json.dumps(rows, indent=1) + "\n")
            say(
                f"{row['system']:10} seed {row['seed']:2}  rate {row['rate']:g}  epoch {row['epoch']:2}  "
                f"Jensen-Shannon {at_best(row, PRIMARY):.4f}",
            )

    finish((system, 0, rate) for system in SYSTEMS for rate in RATES)
    chosen = best_rates(rows)
    finish((system, seed, chosen[system]) for seed in range(1, arguments.seeds + 1) for system in SYSTEMS)
    return rows


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


def number(p: float | None) -> str:
    return "" if p is None else f"{p:.2g}"


def report_text(rows: list[dict[str, Any]], sequences: int) -> str:
    """Means over seeds, and each system's differences from MLE, paired by seed."""
    chosen = best_rates(rows)
    of = {system: {row["seed"]: row for row in rows if row["system"] == system and row["seed"]} for system in SYSTEMS}
    floor = statistics.mean(frequencies(seed, sequences) for seed in of["mle"])
    lines = [
        "# Learnable truth\n",
        f"{sequences:,} sequences to learn from, {len(of['mle'])} truths. Jensen-Shannon divergence from the truth in "
        f"nats (0: the truth; {floor:.4f}: the tokens' frequencies, whatever came before).\n",
    ]
    at_chosen = ["best T", "forward CE", "reverse CE", "entropy"]
    header = ["", "rate", *(f"T {temperature}" for temperature in TEMPERATURES), *at_chosen]
    table = []
    for system, of_seed in of.items():
        curves = zip(*(row["test"][PRIMARY] for row in of_seed.values()), strict=True)
        best = [statistics.mean(at_best(row, name) for row in of_seed.values()) for name in (*FIGURES[:3], "entropy")]
        means = [f"{value:.4f}" for value in (*map(statistics.mean, curves), *best)]
        table.append([system, f"{chosen[system]:g}", *means])
    lines += [
        *markdown(header, table),
        "",
        "Forward and reverse cross-entropy at each temperature: recall and precision.\n",
    ]
    table = []
    for system, of_seed in of.items():
        planes = [zip(*(row["test"][figure] for row in of_seed.values()), strict=True) for figure in FIGURES[1:3]]
        points = zip(*(map(statistics.mean, plane) for plane in planes), strict=True)
        table.append([system, *(f"{forward:.3f}, {reverse:.3f}" for forward, reverse in points)])
    lines += markdown(["", *(f"T {temperature}" for temperature in TEMPERATURES)], table)
    lines += ["", "Minus MLE, paired by seed: 95 % intervals and p of Student's t; Holm's"]
    lines += ["correction is over the three objectives that are compared with MLE on the primary outcome.\n"]
    found: dict[tuple[str, str], Estimate] = {}
    for system, (outcome, value) in itertools.product(list(SYSTEMS)[1:], OUTCOMES.items()):
        differences = [value(row) - value(of["mle"][seed]) for seed, row in sorted(of[system].items())]
        mean, error = statistics.mean(differences), statistics.stdev(differences) / len(differences) ** 0.5
        found[system, outcome] = student(mean, error, len(differences) - 1, 0.0)
    primary = next(iter(OUTCOMES))
    trained = [system for system in SYSTEMS if system not in ("mle", "mle_half")]
    corrected = dict(zip(trained, holm([found[system, primary].p for system in trained]), strict=True))
    table = []
    for (system, outcome), estimate in found.items():
        low, high = estimate.interval or [estimate.value] * 2
        adjusted = number(corrected[system]) if outcome == primary and system in corrected else ""
        row = [system, outcome, f"{estimate.value:+.5f}", f"{low:+.5f} to {high:+.5f}", number(estimate.p), adjusted]
        table.append(row)
    return "\n".join([*lines, *markdown(["", "outcome", "difference", "95 % CI", "p", "p (Holm)"], table), ""])


def main() -> None:
    parser = RecipeParser(__doc__)
    add = parser.add_argument
    add("--name", default="learnable_truth", help="results go to runs/NAME (default: learnable_truth)")
    add("--seeds", type=int, default=10, help="truths, each with its data and weights (default: 10)")
    add("--sequences", type=int, default=2000, help="of 32 tokens to train on (default: 2,000)")
    add("--epochs", type=int, default=20, help="at most (default: 20)")
    add("--jobs", type=int, default=1, help="trainings at a time (default: 1)")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add("--dry-run", action="store_true", help="print the plan and stop")
    arguments = parser.parse_args()
    folder = Path("runs") / arguments.name
    trainings = len(SYSTEMS) * (len(RATES) + arguments.seeds)
    say(f"plan      {len(SYSTEMS)} systems, {arguments.seeds} truths, {trainings} trainings; to {folder}")
    if arguments.dry_run:
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "report.md", report_text(run(arguments, folder), arguments.sequences))
    say(f"report: {folder / 'report.md'}")


if __name__ == "__main__":
    run_recipe(main)
