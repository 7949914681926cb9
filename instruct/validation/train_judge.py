"""Trains a judge on human labels, measures it on held-out labels and writes its folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.models import EMBEDDED_MODEL
from instruct.base.output import say
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.score_heads import Reading, StatesEngine
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.validation.agreement import measure_agreement
from instruct.validation.card_figures import card_figures, write_human_agreement
from instruct.validation.head_training import LAYERS, read_features, train_head
from instruct.validation.human_cards import FILE_TYPES, load_human_card
from instruct.validation.human_sets import HumanPair, HumanSet, load_human_set
from instruct.validation.reward_training import RewardTraining, train_reward_model
from instruct.validation.validate import validate

HELD_OUT = "held_out"


@dataclass(frozen=True)
class JudgeTraining:
    """What to train a judge from.

    Attributes:
        labels: a known set of human labels, a card (.yaml), or a file of labelled pairs.
        name: of the judge; it is written to judges/NAME.
        model: the language model whose states are scored, or the model to fine-tune.
        against: sets to measure the judge on; () holds out a fifth of the labels' instructions.
        licence: of the judge; None: that of the set's card.
        whole_model: fine-tune the model as a reward model (LoRA) in place of training a head.
        seed: of the held-out instructions, and of fine-tuning.
        layers: candidates for the layer that a head reads.
    """

    labels: str
    name: str
    model: str = EMBEDDED_MODEL
    against: tuple[str, ...] = ()
    licence: str | None = None
    whole_model: RewardTraining | None = None
    seed: int = 0
    layers: tuple[int, ...] = LAYERS


def train_judge(training: JudgeTraining) -> Path:
    """Train, write judges/NAME, measure, and put the agreement into its card; prints what it does.

    Raises:
        InputError: unusable labels or model, or a folder that exists.
    """
    folder = Path("judges") / training.name
    if Path(training.name).name != training.name or folder.exists():
        raise InputError(f"{folder}: exists or is no folder name; choose another --name")
    human = load_human_set(training.labels)
    sets = {against: load_human_set(against) for against in training.against}  # a wrong name is refused at once
    licence = training.licence or _licence(training.labels)
    train, held_out = (human, None) if sets else split_by_instruction(human, training.seed)
    say(
        f"training on {len(train.pairs)} pairs of {human.name}"
        + (f", {len(held_out.pairs)} held out" if held_out else "")
    )
    about = {"name": training.name, "description": "", "licence": licence}
    if training.whole_model:
        about |= {"description": f"a reward model of {training.model}, trained on human labels ({human.name})"}
        folder.mkdir(parents=True)
        model = train_reward_model(training.model, train.pairs, folder / "model", training.whole_model, training.seed)
        _write_card(folder, {**about, "model": str(model.resolve()), "context_length": training.whole_model.max_length})
    else:
        _train_head(training, folder, train, about)
    if held_out:
        sets = {str(_write_pairs(folder / f"{HELD_OUT}.jsonl", held_out.pairs)): held_out}
    for against in sets:
        _, _, text, stopped = validate(JudgeOptions(card=str(folder), engine="transformers"), against, write_card=True)
        say(text)
        if stopped:
            raise stopped
    return folder


def split_by_instruction(human: HumanSet, seed: int, share: float = 0.2) -> tuple[HumanSet, HumanSet]:
    """The set without and with a seeded share of its instructions.

    Raises:
        InputError: fewer than five different instructions.
    """
    instructions = list(dict.fromkeys((pair.instruction, pair.input) for pair in human.pairs))
    if len(instructions) < 5:
        raise InputError(
            f"{human.path}: has {len(instructions)} different instructions; holding some out needs at least 5, or name "
            "another set with --against"
        )
    order = np.random.default_rng(seed).permutation(len(instructions))
    out = {instructions[place] for place in order[: max(1, round(share * len(instructions)))]}
    parts = ([p for p in human.pairs if ((p.instruction, p.input) in out) == held] for held in (False, True))
    train, held_out = (replace(human, pairs=pairs) for pairs in parts)
    return train, held_out


def _train_head(training: JudgeTraining, folder: Path, train: HumanSet, about: dict[str, str]) -> None:
    options = EngineOptions(f"judge {training.name}", training.model, Decoding(), 8192, reward=True)
    reading = Reading(training.layers)
    engine = StatesEngine(options, reading)
    try:
        trained = train_head(read_features(engine, train.pairs), reading)
    finally:
        engine.close()
    folder.mkdir(parents=True)
    trained.head.save(folder / "head.safetensors")
    _write_card(
        folder,
        about
        | {
            "description": f"a linear head on the states of {training.model}, trained on human labels ({train.name})",
            "model": training.model,
            "head": "head.safetensors",
            "context_length": 512,
            "verdict": {"tie_margin": round(trained.tie_margin, 6)},
            "notes": (
                f"Reads the states after block {trained.choice.layer} (C = {trained.choice.c:g}): of a prompt the "
                f"first and last {reading.prompt_tokens // 2} tokens, of an answer the first "
                f"{reading.answer_tokens}. The length counts as a whole."
            ),
        },
    )
    # What the training set says: each verdict is by a head that did not see the pair's instruction.
    card = load_judge_card(str(folder))
    agreement = measure_agreement(train, trained.verdicts, positions_known=False)
    made = {"judge": card.name, "model": card.model, "card": card.sha256(), "set_sha256": train.sha256, "tie_margin": 0}
    rows = [{"pair": place, "order": "first", "verdict": verdict} for place, verdict in enumerate(trained.verdicts)]
    lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [made, *rows])
    write_atomically(folder / "agreement" / f"{train.name}.jsonl", lines)
    figures = card_figures(agreement, card) | {"verdicts": "cross-validated on the training set"}
    write_human_agreement(folder / "judge.yaml", train.name, figures)


def _write_card(folder: Path, fields: dict[str, object]) -> None:
    order = ("name", "description", "model", "head", "protocol", "verdict", "order_policy", "leading_policy")
    fields = {**fields, "protocol": "reward", "order_policy": "one", "leading_policy": "single"}
    listed = {name: fields[name] for name in (*order, *fields) if name in fields}
    text = yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=120)
    write_atomically(folder / "judge.yaml", text)


def _write_pairs(path: Path, pairs: Iterable[HumanPair]) -> Path:
    rows = [
        {
            "instruction": pair.instruction,
            "input": pair.input,
            "response1": pair.first,
            "response2": pair.second,
            "label": pair.label,
        }
        for pair in pairs
    ]
    write_atomically(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def _licence(labels: str) -> str:
    if Path(labels).suffix.lower() in FILE_TYPES:
        raise InputError(f"{labels}: states no license; say with --licence under which terms the judge may be used")
    return load_human_card(labels).licence
