"""The length-controlled rate: the package's own model, joined on the instruction."""

from __future__ import annotations

import csv
import random

import huggingface_hub.constants
import pandas as pd
import pytest
from alpaca_eval.metrics import get_length_controlled_winrate

from instruct.base.errors import InputError
from instruct.reporting.length_control import length_controlled_win_rate

# The package passes scikit-learn an argument that the next version removes.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:sklearn")

DIFFICULTY = [random.Random(number).gauss(0, 1) for number in range(120)]
PROMPTS = [f"Prompt {number}, with a comma\nand a line" for number in range(120)]


@pytest.fixture
def rows() -> list[dict[str, object]]:
    """Verdicts in the leaderboard's order, in favor of longer answers and of easy prompts."""
    draw = random.Random(0)
    found = []
    for number, prompt in enumerate(PROMPTS):
        ours, theirs = draw.randrange(20, 900), draw.randrange(20, 900)
        lean = (ours - theirs) / 600 + draw.gauss(0, 0.3) - DIFFICULTY[number] / 2
        found.append(
            {
                "instruction": prompt,
                "output_1": "x" * theirs,
                "output_2": "y" * ours,
                "generator_1": "theirs",
                "generator_2": "ours",
                "annotator": "a",
                "preference": None if number in (5, 23) else 1 + 1 / (1 + 2.718 ** (-3 * lean)),
            }
        )
    return found


@pytest.fixture
def gamed() -> list[dict[str, object]]:
    """Rows in df_gamed.csv's layout: two gamed models."""
    draw = random.Random(1)
    return [
        {
            "index": index,
            "model": model,
            "preference": draw.random() ** power,
            "std_delta_len": draw.gauss(0.5 if power > 1 else -0.5, 1),
            "instruction_difficulty": DIFFICULTY[index],
            "not_gamed_baseline": False,
        }
        for model, power in (("concise", 3), ("verbose", 1))
        for index in range(len(PROMPTS))
    ]


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_difficulties_that_do_not_relate_to_the_verdicts_are_warned_about(rows, tmp_path):
    def warned(difficulties):
        table = [{"instruction": p, "instruction_difficulty": d} for p, d in zip(PROMPTS, difficulties, strict=True)]
        return length_controlled_win_rate(rows, write(tmp_path / "difficulty.csv", table))[1]

    assert warned(DIFFICULTY) == []
    draw = random.Random(2)
    assert "do not relate to the verdicts" in warned([draw.random() for _ in PROMPTS])[0]


@pytest.fixture
def hub_cache(tmp_path, monkeypatch, gamed):
    """An offline hub cache with the file where the package looks for it."""
    folder = tmp_path / "hub" / "datasets--tatsu-lab--alpaca_eval"
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return write(snapshot / "df_gamed.csv", gamed)


def packages_own(rows):
    found = get_length_controlled_winrate(pd.DataFrame(rows), save_weights_dir=None)
    return found["length_controlled_winrate"]


@pytest.fixture
def joined(tmp_path, gamed):
    """df_gamed.csv with the instructions next to the index."""
    return write(tmp_path / "joined.csv", [row | {"instruction": PROMPTS[row["index"]]} for row in gamed])


def test_the_rate_equals_the_packages_in_leaderboard_order(rows, hub_cache, joined, tmp_path):
    found, _ = length_controlled_win_rate(rows, joined)
    assert found.win_rate == pytest.approx(packages_own(rows), abs=5e-7)
    assert found.note.startswith("alpaca-eval's length_controlled_v1; 120 prompts")

    prompts = write(tmp_path / "prompts.csv", [{"instruction": prompt} for prompt in PROMPTS])
    assert length_controlled_win_rate(rows, hub_cache, prompts)[0].win_rate == found.win_rate


def test_the_order_of_the_rows_does_not_matter(rows, hub_cache, joined):
    """Unlike in the package, which silently matches difficulties by position."""
    shuffled = random.Random(2).sample(rows, len(rows))
    assert length_controlled_win_rate(shuffled, joined) == length_controlled_win_rate(rows, joined)
    assert abs(packages_own(shuffled) - packages_own(rows)) > 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[0].pop("instruction") and None, "identifies its prompts by index only"),
        (lambda rows: rows[3].update(instruction_difficulty="hard"), "row 4: instruction_difficulty: 'hard' is not"),
        (
            lambda rows: [row.update(instruction=f"Not {row['index']}") for row in rows[7::120]],
            "for 1 of 120 prompts, first 'P",
        ),
    ],
)
def test_an_invalid_file_is_refused(rows, gamed, tmp_path, change, message):
    table = [row | {"instruction": PROMPTS[row["index"]]} for row in gamed]
    change(table)
    if "instruction" not in table[0]:
        table = gamed
    with pytest.raises(InputError, match=message):
        length_controlled_win_rate(rows, write(tmp_path / "difficulty.csv", table))
