"""recipes/train_judge.py: choices inside the labels, no position, held-out labels, TRL, determinism, refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from train_judge import main, split_by_instruction
from train_judge_head import LabeledFeatures, best_margin, train_head, verdicts_of

from instruct.base.errors import InputError
from instruct.base.output import run_guarded
from instruct.engines.score_heads import HeadReading
from instruct.judging.cards import load_judge_card
from instruct.judging.verdicts import read_scores
from instruct.validation.card_figures import trained_on
from instruct.validation.human_sets import load_human_set


def features(pairs: int = 300, noise: float = 0.5, seed: int = 0) -> LabeledFeatures:
    """Two layers of four states and a length; people follow the second layer's first state."""
    rng = np.random.default_rng(seed)
    first, second = (rng.normal(size=(pairs, 9)).astype(np.float32) for _ in range(2))
    gap = first[:, 4] - second[:, 4] + noise * rng.normal(size=pairs)
    sign = np.where(np.abs(gap) < 0.3, 0, np.sign(gap)).astype(int)
    return LabeledFeatures((5, 9), first, second, sign, np.arange(pairs) // 3)


def accuracy(verdicts: list[str], sign: np.ndarray) -> float:
    return float(np.mean([{"first": 1, "second": -1, "tie": 0}[v] == s for v, s in zip(verdicts, sign, strict=True)]))


def test_the_layer_that_tells_is_chosen_and_generalizes():
    data, unseen = features(), features(seed=1)
    trained = train_head(data, HeadReading((5, 9), 40, 30))
    assert trained.choice.layer == 9
    assert trained.head.reading == HeadReading((9,), 40, 30)
    scores = [trained.head.scores(side[:, 4:]) for side in (unseen.first, unseen.second)]
    measured = accuracy(verdicts_of(scores[0] - scores[1], trained.tie_margin), unseen.sign)
    assert measured > 0.7
    assert accuracy(trained.verdicts, data.sign) == pytest.approx(measured, abs=0.1)
    assert np.concatenate([trained.head.scores(side[:, 4:]) for side in (data.first, data.second)]).mean() == (
        pytest.approx(0, abs=1e-4)
    )


def test_labels_without_information_are_at_chance_in_cross_validation():
    """Verdicts on pairs come from heads that saw none of the pairs with their instruction."""
    data = features(noise=0)
    rng = np.random.default_rng(3)
    sign = np.repeat(rng.choice([-1, 1], size=100), 3)  # the same for all pairs of an instruction
    blind = LabeledFeatures(data.layers, data.first, data.second, sign, data.groups)
    assert 0.35 < accuracy(train_head(blind, HeadReading((5, 9))).verdicts, sign) < 0.6


@pytest.mark.slow
def test_exchanged_answers_give_the_exchanged_head():
    data = features()
    exchanged = LabeledFeatures(data.layers, data.second, data.first, -data.sign, data.groups)
    one, other = (train_head(labels, HeadReading((5, 9))) for labels in (data, exchanged))
    assert one.head.weights == pytest.approx(other.head.weights, abs=1e-5)
    opposite = {"first": "second", "second": "first", "tie": "tie"}
    assert one.verdicts == [opposite[verdict] for verdict in other.verdicts]


@pytest.mark.slow
def test_training_again_gives_the_same_head():
    one, other = (train_head(features(), HeadReading((5, 9))) for _ in range(2))
    assert one.head.weights.tobytes() == other.head.weights.tobytes()
    assert (one.tie_margin, one.choice, one.verdicts) == (other.tie_margin, other.choice, other.verdicts)


def test_the_margin_for_ties_has_the_most_right_verdicts():
    rng = np.random.default_rng(0)
    for _ in range(20):
        differences, sign = rng.normal(size=30), rng.choice([-1, 0, 1], size=30)
        found = accuracy(verdicts_of(differences, best_margin(differences, sign)), sign)
        assert found == max(accuracy(verdicts_of(differences, margin), sign) for margin in [0, *np.abs(differences), 9])
    assert best_margin(np.array([0.5, -2.0]), np.array([1, -1])) == 0.0


def test_a_margin_means_the_same_here_and_when_the_judge_is_asked():
    for difference in (-0.5, -0.2, 0.0, 0.1, 0.2, 0.7):
        (verdict,) = verdicts_of(np.array([difference]), 0.2)
        assert read_scores(0.2, str(difference), "0").verdict == verdict


def test_too_few_instructions_are_refused():
    data = features(27)
    with pytest.raises(InputError, match=r"a winner for 9 different instructions; training a head needs at least 10"):
        train_head(data, HeadReading((5, 9)))


def labelled(path: Path, instructions: int = 40) -> Path:
    """Pairs of which the answer with more z's is better; lengths are equal."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(instructions):
        counts = rng.choice(12, size=2, replace=False)
        answers = ["".join(rng.permutation(list("z" * n + "a" * (12 - n)))) for n in counts]
        label = "first" if counts[0] > counts[1] else "second"
        rows.append({"instruction": f"Say {number}.", "response1": answers[0], "response2": answers[1], "label": label})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    for module in ("train_judge", "instruct.validation.card_figures"):
        monkeypatch.setattr(f"{module}.LEAST_PAIRS", 8)  # a fifth of forty
    monkeypatch.chdir(tmp_path)
    labelled(tmp_path / "mine.jsonl")
    return tmp_path


@pytest.fixture
def train_judge(work, tiny_model_folder, monkeypatch):
    """Trains judges/mine with more flags."""

    def train(*flags: str) -> Path:
        labels = ["--labels", "mine.jsonl", "--name", "mine", "--licence", "our own"]
        monkeypatch.setattr(sys, "argv", ["train_judge.py", *labels, "--model", str(tiny_model_folder), *flags])
        monkeypatch.setattr("train_judge.LAYERS", (1, 2))
        main()
        return work / "judges" / "mine"

    return train


def test_a_head_is_trained_on_ones_own_labels_and_measured_on_held_out_ones(train_judge, printed):
    folder = train_judge()
    card = load_judge_card(str(folder))
    assert (card.protocol, card.licence, card.context_length) == ("reward", "our own", 512)
    held_out = load_human_set(str(folder / "held_out.jsonl")).pairs
    assert len(held_out) == 8
    figures = card.human_agreement["held_out"]
    assert figures["pairs"] == 8
    assert figures["accuracy"] >= 75.0
    assert figures["judge"] == card.sha256()[:12]
    assert "verdicts" not in figures
    inside = card.human_agreement["mine"]
    assert (inside["pairs"], inside["verdicts"]) == (32, "cross-validated on the training set")
    assert inside["accuracy"] > 70.0
    lines = [json.loads(line) for line in (folder / "agreement" / "mine.jsonl").read_text().splitlines()]
    assert lines[0]["card"] == card.sha256()
    assert len(lines) == 33
    assert "training on 32 pairs of mine, 8 held out" in printed.readouterr().out
    assert trained_on(card, load_human_set("mine.jsonl").pairs) == 32
    assert trained_on(card, held_out) == 0
    assert (folder / "head.safetensors").stat().st_size < 4096
    with pytest.raises(InputError, match=r"judges/mine: exists or is no folder name; choose another --name"):
        train_judge()


def test_a_whole_model_is_trained_by_trl_and_judges(train_judge):
    folder = train_judge("--whole-model", "--learning-rate", "1e-3", "--max-length", "512")
    card = load_judge_card(str(folder))
    assert card.model == str((folder / "model").resolve())
    assert card.head is None
    config = json.loads((folder / "model" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForSequenceClassification"]
    assert card.human_agreement["held_out"]["pairs"] == 8
    assert not (folder / "model" / "adapter_config.json").exists()


def test_few_pairs_held_out_are_measured_and_not_in_the_card(train_judge, monkeypatch, printed):
    monkeypatch.setattr("train_judge.LEAST_PAIRS", 100)
    folder = train_judge()
    assert list(load_judge_card(str(folder)).human_agreement) == ["mine"]
    assert "not in the card, which takes 100 pairs: label more" in printed.readouterr().out


def test_no_instruction_is_on_both_sides_of_the_split(work):
    human = load_human_set("mine.jsonl")
    train, held_out = split_by_instruction(human, 0)
    assert not {pair.prompt.whole for pair in train.pairs} & {pair.prompt.whole for pair in held_out.pairs}
    assert len(train.pairs) + len(held_out.pairs) == len(human.pairs) == 40
    assert split_by_instruction(human, 0) == (train, held_out)
    assert split_by_instruction(human, 1) != (train, held_out)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--labels", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["--labels", "pandaml", "--licence", "l"], "unknown set of human labels 'pandaml' (nearest: pandalm)"),
        (["--labels", "mine.jsonl"], "mine.jsonl: states no license; say with --licence"),
        (["--labels", "mine.jsonl", "--licence", "l", "--against", "autoi"], "unknown set of human labels 'autoi'"),
        (["--labels", "mine.jsonl", "--licence", "l", "--name", "../x"], "exists or is no folder name"),
    ],
)
def test_the_recipe_refuses_in_one_line_and_writes_nothing(work, monkeypatch, printed, flags, message):
    monkeypatch.setattr(sys, "argv", ["train_judge.py", "--name", "mine", *flags])
    assert run_guarded(main) == 2
    (line,) = printed.readouterr().err.splitlines()
    assert message in line
    assert not (work / "judges").exists()
