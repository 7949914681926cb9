"""Finding cards by name and path."""

from __future__ import annotations

import pytest

from instruct.base.cards import find_card, list_cards
from instruct.base.errors import InputError
from instruct.data.cards import load_dataset_card


def test_the_shipped_data_cards_are_found_by_name():
    names = {card.name for card in list_cards("data")}
    assert {"alpaca_gpt4", "recycled_evol_instruct", "starter", "alpaca_eval", "starter_eval"} <= names
    for card in list_cards("data"):
        assert load_dataset_card(card.name).name == card.name


def test_an_unknown_name_gives_the_nearest():
    with pytest.raises(InputError, match=r"unknown data card 'alpaca_gpt'.*nearest: alpaca_gpt4"):
        find_card("data", "alpaca_gpt")


def test_a_local_card_hides_the_installed_one_and_is_announced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    installed = find_card("data", "starter")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "starter.yaml").write_text(installed.read_text())
    found = {card.name: card for card in list_cards("data")}["starter"]
    assert found.path.resolve() == (folder / "starter.yaml").resolve()
    assert found.hides == installed
    assert find_card("data", "starter").resolve() == found.path.resolve()


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 20))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: !!int x", "is not valid YAML"),
        ("name: " + "9" * 5000, "is not valid YAML"),
        ("name: &a [*a]", "contains itself, or is nested more than 100 levels deep"),
        ('name: ["\\ud83d\\ude00"]', r"has a surrogate escape such as \ud83d"),
        (LAUGHS, "has more than 1,000,000 values once its aliases are expanded"),
        (MERGES, "has more than 10,000 keys in a mapping once `<<` is expanded"),
    ],
    ids=["tag", "digits", "itself", "surrogate", "aliases", "merges"],
)
def test_yaml_that_cannot_be_a_card_is_refused_in_one_line(tmp_path, text, problem):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_dataset_card(str(path))
    assert str(caught.value).startswith(f"{path}: is not valid YAML (")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: a\nname: b\n")
    with pytest.raises(InputError, match=r"mine\.yaml, line 2: .*has the key 'name' more than once"):
        load_dataset_card(str(tmp_path / "mine.yaml"))
