"""Train a judge on human labels: a small head on a language model's states, or a whole reward model.

    python recipes/train_judge.py --labels mine.jsonl --name mine --licence "for our own use"
    python recipes/train_judge.py --labels pandalm --against autoj --name my_score       # the demo's judge
    python recipes/train_judge.py --labels mine.jsonl --name mine --licence "for our own use" \\
        --whole-model --model Qwen/Qwen3-0.6B

The labels are a set that `instruct validate --against` knows, or a file of labeled pairs (docs/validation.md). A fifth
of their instructions is held out to measure the judge, unless --against names other sets. It is written to judges/NAME,
with its agreement in the card; `instruct judge RUN --judge NAME` asks it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from study import RecipeParser, run_recipe
from train_judge_head import LAYERS, read_features, train_head

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.models import EMBEDDED_MODEL, model_path
from instruct.base.networks import load_network
from instruct.base.output import say
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.score_heads import HeadReading, StatesEngine
from instruct.engines.weights import unreadable
from instruct.judging.cards import load_judge_card
from instruct.judging.human_agreement import LEAST_PAIRS
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import AnswerChats
from instruct.judging.store import Judgment
from instruct.validation.agreement import measure_agreement
from instruct.validation.card_figures import FILE, card_figures, write_human_agreement, write_training_pairs
from instruct.validation.human_sets import FILE_TYPES, HumanPair, HumanSet, load_human_card, load_human_set
from instruct.validation.published import Verdicts, write_verdicts
from instruct.validation.validate import validate


def main() -> None:
    parser = RecipeParser(__doc__)
    add = parser.add_argument
    add("--labels", required=True, metavar="SET", help="a set of human labels, by name, card or file")
    add("--name", required=True, help="the judge's name: it is written to judges/NAME")
    add("--model", default=EMBEDDED_MODEL, help="the language model (default: the bundled SmolLM2-135M)")
    add("--against", action="append", default=[], metavar="SET", help="a set to measure the judge on (repeatable)")
    add("--licence", help="the judge's license (default: that of the set's card)")
    add("--seed", type=int, default=0, help="of the held-out instructions and of fine-tuning (default: 0)")
    add("--whole-model", action="store_true", help="fine-tune the model with LoRA (TRL's RewardTrainer)")
    add("--epochs", type=float, default=1.0, help="of --whole-model (default: 1)")
    add("--learning-rate", type=float, default=1e-4, help="of --whole-model (default: 1e-4)")
    add("--batch-size", type=int, default=8, help="pairs per step of --whole-model (default: 8)")
    add("--max-length", type=int, default=2048, help="tokens in a text of --whole-model (default: 2048)")
    flags = parser.parse_args()

    # Load.
    folder = Path("judges") / flags.name
    if Path(flags.name).name != flags.name or folder.exists():
        raise InputError(f"{folder}: exists or is no folder name; choose another --name")
    human = load_human_set(flags.labels)
    sets = {against: load_human_set(against) for against in flags.against}  # a wrong name is refused at once
    if flags.licence is None and Path(flags.labels).suffix.lower() in FILE_TYPES:
        raise InputError(
            f"{flags.labels}: states no license; say with --licence under which terms the judge may be used"
        )
    licence = flags.licence or load_human_card(flags.labels).licence
    train, held_out = (human, None) if sets else split_by_instruction(human, flags.seed)
    left_out = f", {len(held_out.pairs)} held out" if held_out else ""
    say(f"training on {len(train.pairs)} pairs of {human.name}{left_out}")

    # Train.
    about = {"name": flags.name, "licence": licence}
    if flags.whole_model:
        train_reward_model(flags, train, folder, about)
    else:
        train_score_head(flags.model, train, folder, about)

    # Measure.
    if held_out:
        rows = [
            pair.prompt.row("", "") | {"response1": pair.first, "response2": pair.second, "label": pair.label}
            for pair in held_out.pairs
        ]
        file = folder / "held_out.jsonl"
        write_atomically(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        sets = {str(file): held_out}
    for against, measured in sets.items():
        enough = len(measured.pairs) >= LEAST_PAIRS
        options = JudgeOptions(card=str(folder), engine="transformers")
        _, _, text, stopped = validate(options, against, write_card=enough)
        say(text if enough else f"{text}\nnot in the card, which takes {LEAST_PAIRS} pairs: label more\n")
        if stopped:
            raise stopped
    say(f"wrote {folder}")


def split_by_instruction(human: HumanSet, seed: int) -> tuple[HumanSet, HumanSet]:
    """The set without and with a seeded fifth of its instructions.

    Raises:
        InputError: fewer than five different instructions.
    """
    instructions = list(dict.fromkeys(pair.prompt.whole for pair in human.pairs))
    if len(instructions) < 5:
        raise InputError(
            f"{human.path}: has {len(instructions)} different instructions; holding some out needs at least 5, or name "
            "another set with --against"
        )
    order = np.random.default_rng(seed).permutation(len(instructions))
    out = {instructions[place] for place in order[: max(1, round(0.2 * len(instructions)))]}
    parts = ([p for p in human.pairs if (p.prompt.whole in out) == held] for held in (False, True))
    train, held_out = (replace(human, pairs=pairs) for pairs in parts)
    return train, held_out


def train_score_head(model: str, train: HumanSet, folder: Path, about: dict[str, str]) -> None:
    """Write a trained head, its card, and the verdicts of cross-validation on the training set."""
    reading = HeadReading(LAYERS)
    engine = StatesEngine(EngineOptions(f"judge {folder.name}", model, Decoding(), 8192, reward=True), reading)
    try:
        trained = train_head(read_features(engine, train.pairs), reading)
    finally:
        engine.close()
    folder.mkdir(parents=True)
    trained.head.save(folder / "head.safetensors")
    write_training_pairs(folder, train.pairs)
    card = about | {
        "description": f"a linear head on the states of {model}, trained on human labels ({train.name})",
        "model": model,
        "head": "head.safetensors",
        "context_length": 512,
        "verdict": {"tie_margin": round(trained.tie_margin, 6)},
        "notes": (
            f"Reads the states after block {trained.choice.layer} (C = {trained.choice.c:g}): of a prompt the "
            f"first and last {reading.prompt_tokens // 2} tokens, of an answer the first "
            f"{reading.answer_tokens}. The length counts as a whole."
        ),
    }
    _write_card(folder, card)
    _write_training_agreement(folder, train, trained.verdicts)


def _write_training_agreement(folder: Path, train: HumanSet, verdicts: list[str]) -> None:
    """What the training set says: each verdict is by a head that did not see the pair's instruction."""
    card = load_judge_card(str(folder))
    about = "cross-validated on the training set"
    judgments = [
        Judgment(card.name, "first", "second", place, str(place), "", "first", "", verdict)
        for place, verdict in enumerate(verdicts)
    ]
    made = Verdicts(
        [FileVerdict(judged, "") for judged in judgments],
        card.name,
        "",
        model=card.model,
        card=card.sha256(),
        set_sha256=train.sha256,
        about=about,
    )
    write_verdicts(folder / "agreement" / f"{train.name}.jsonl", made)
    agreement = measure_agreement(train, made.raters(), positions_known=False)
    write_human_agreement(folder / "judge.yaml", train.name, card_figures(agreement, card, about))


def train_reward_model(flags: argparse.Namespace, train: HumanSet, folder: Path, about: dict[str, str]) -> None:
    """Write a fine-tuned model, its adapter merged, and its card. Ties are not trained on.

    Raises:
        InputError: the model cannot be loaded, or its tokenizer has no chat template.
    """
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer
    from trl import RewardConfig, RewardTrainer

    from instruct.training.callbacks import steps_shown

    rows = [_preference(pair) for pair in train.pairs if pair.label != "tie"]
    cuda = torch.cuda.is_available()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_path(flags.model))
        torch.manual_seed(flags.seed)
        network = load_network(model_path(flags.model), head="score", new_head=[], num_labels=1, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise unreadable(flags.model, error) from error
    if not tokenizer.chat_template:
        raise InputError(f"{flags.model}: the tokenizer has no chat template; choose a chat model")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    network.config.pad_token_id = tokenizer.pad_token_id
    lora = LoraConfig(task_type="SEQ_CLS", target_modules="all-linear", modules_to_save=["score"], r=16, lora_alpha=32)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = RewardConfig(
            output_dir=scratch,
            num_train_epochs=flags.epochs,
            learning_rate=flags.learning_rate,
            per_device_train_batch_size=flags.batch_size,
            max_length=flags.max_length,
            seed=flags.seed,
            bf16=cuda and torch.cuda.is_bf16_supported(),
            use_cpu=not cuda,
            report_to="none",
            save_strategy="no",
            logging_steps=10,
        )
        trainer = RewardTrainer(
            network, arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, peft_config=lora
        )
        if left := len(rows) - len(trainer.train_dataset):
            say(f"{left} of {len(rows)} pairs have a text of more than {flags.max_length} tokens and are left out")
        with steps_shown(trainer, folder.name):
            trainer.train()
        merged = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
    saved = folder / "model"
    merged.to(torch.bfloat16).save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    write_training_pairs(folder, train.pairs)
    card = about | {
        "description": f"a reward model of {flags.model}, trained on human labels ({train.name})",
        "model": str(saved.resolve()),
        "context_length": flags.max_length,
    }
    _write_card(folder, card)


def _preference(pair: HumanPair) -> dict[str, list[dict[str, str]]]:
    """TRL's explicit-prompt preference row, in the chat form in which the judge is asked."""
    first, second = AnswerChats().render_all(pair.prompt.row("", ""), pair.first, pair.second)
    better, worse = (first, second) if pair.label == "first" else (second, first)
    return {"prompt": better[:-1], "chosen": better[-1:], "rejected": worse[-1:]}  # type: ignore[dict-item]


def _write_card(folder: Path, fields: dict[str, object]) -> None:
    asked = {"protocol": "reward", "order_policy": "one", "leading_policy": "single", "trained_on": FILE}
    text = yaml.safe_dump({**fields, **asked}, sort_keys=False, allow_unicode=True, width=120)
    write_atomically(folder / "judge.yaml", text)


if __name__ == "__main__":
    run_recipe(main)
