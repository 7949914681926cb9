"""MT-Bench's references by GPT-4: those that `mt_bench_corrected` calls wrong are, by computing and by running them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import math
import random
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from instruct.data.cards import load_dataset_card
from instruct.data.evaluation import wrong_reference

OURS = Path(load_dataset_card("mt_bench_corrected").folder) / "mt_bench_corrected" / "references.jsonl"


@pytest.fixture(scope="module")
def published(request):
    """GPT-4's references, by question and turn."""
    folder = request.getfixturevalue("shared_data") / "mt_bench"
    rows = map(json.loads, (folder / "reference_gpt-4.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["question_id"]: row["choices"][0]["turns"] for row in rows}


@pytest.fixture(scope="module")
def ours():
    rows = map(json.loads, OURS.read_text(encoding="utf-8").splitlines())
    return {row["question_id"]: row["choices"][0]["turns"] for row in rows}


def code_in(text: str) -> dict[str, Any]:
    """The names that the first block of Python defines."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)[0], names)
    return names


def printed(call: Callable[..., Any], *arguments: object) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        call(*arguments)
    return out.getvalue()


def test_the_wrong_references_are_those_that_the_card_replaces(published):
    replaced = {}
    for row in map(json.loads, OURS.read_text(encoding="utf-8").splitlines()):
        theirs = published[row["question_id"]]
        replaced[row["question_id"]] = [digest is not None for digest in row["replaces"]]
        for text, digest in zip(theirs, row["replaces"], strict=True):
            assert digest in (None, hashlib.sha256(text.strip().encode()).hexdigest()[:16])
    both, first, second = [True, True], [True, False], [False, True]
    assert replaced == {
        104: both, 105: first, 109: both, 111: both, 113: second, 114: both, 120: second, 124: second, 125: both,
        126: first, 128: both, 130: both,
    }  # fmt: skip
    found = {id for id, turns in published.items() if wrong_reference(turns)}
    assert found == set(replaced)


def test_brothers(published, ours):
    number = {"no": 0, "one": 1, "two": 2}
    for turn, of_a_sister in enumerate((1, 2)):
        brothers = of_a_sister - 1  # one of them is David
        (said,) = set(re.findall(r"(\w+) brothers?\.$", published[104][turn]))
        assert number[said] != brothers
    assert (ours[104][0].split(":")[0], ours[104][1].split(":")[0]) == ("None", "One")


def test_parking_spaces(published, ours):
    names, colors = ("Alice", "Bert", "Cheryl", "David", "Enid"), ("red", "blue", "green", "yellow", "purple")
    fitting = []
    for cars in itertools.permutations(colors):
        if not (cars[0] == "red" and cars[4] == "purple" and cars[3] == "yellow"):
            continue
        blue, green = cars.index("blue"), cars.index("green")
        for people in itertools.permutations(names):
            place = people.index
            between = sorted((place("Cheryl"), place("Enid")))
            if (
                blue < green
                and people[4] == "David"
                and abs(place("Alice") - place("David")) == 1
                and place("Enid") == green
                and between[0] < place("Bert") < between[1]
            ):
                fitting.append((cars, people))
    assert {people[3] for _, people in fitting} == {"Alice"}  # the secretary
    (order,) = {cars[::-1] for cars, _ in fitting}
    assert re.search(r"name of the secretary is (\w+)", published[105][0]).group(1) == "Cheryl"
    assert ours[105][0].startswith("Alice")
    for text in (published[105][1].lower(), ours[105][1].lower()):
        assert [color for color in re.findall(r"\w+", text) if color in colors] == list(order)


def test_the_shadow_after_sunrise(published, ours):
    directions = ["north", "east", "south", "west"]
    shadow = directions[(directions.index("east") + 2) % 4]
    facing = next(each for n, each in enumerate(directions) if directions[(n + 1) % 4] == shadow)  # it is on the right
    assert (shadow, facing) == ("west", "south")
    assert {said for text in published[109] for said in re.findall(r"facing (?:the )?(north|south)", text)} == {"north"}
    assert ours[109][0].lower().startswith(shadow)
    assert ours[109][1].lower().startswith(facing)


def test_areas(published, ours):
    points = [(0, 0), (-1, 1), (3, 3)]
    (x1, y1), (x2, y2), (x3, y3) = points
    area = Fraction(abs(x1 * (y2 - y3) + x2 * (y3 - y1) + x3 * (y1 - y2)), 2)
    a, b, c = (math.dist(one, other) for one, other in itertools.combinations(points, 2))
    circle = math.pi * (a * b * c / (4 * float(area))) ** 2
    assert re.search(r"area of the triangle is (\d+)\.", published[111][0]).group(1) == "0" != str(area)
    assert "no circumscribed circle" in published[111][1]
    assert ours[111][0].startswith(f"{area}.")
    assert f"{circle:.2f}" in ours[111][1]


def test_probabilities(published, ours):
    green, both = Fraction(45, 100), Fraction(22, 100)
    neither = 1 - (Fraction(58, 100) + green - both)
    assert neither == Fraction(19, 100)
    assert "19%" in published[113][0]
    assert ours[113][0].startswith("19 %")
    assert "51.11%" in published[113][1]  # who likes green does not dislike both
    assert ours[113][1].startswith("0.")
    rolls = [sum(roll) for roll in itertools.product(range(1, 7), repeat=2)]
    least, either = (Fraction(sum(map(fits, rolls)), 36) for fits in (lambda n: n >= 3, lambda n: n % 2 == 0 or n >= 3))
    assert (least, either) == (Fraction(35, 36), 1)
    for text in published[114]:
        assert re.search(r"is (?:approximately )?(0\.\d+) or", text).group(1) not in ("0.972", "1")
    assert ours[114][0].startswith(f"{least}, about {float(least):.3f}.")
    assert ours[114][1].startswith("1.")


def test_the_root(published, ours):
    def f(x: complex) -> complex:
        return 4 * x**3 - 9 * x - 14

    assert f(2) == 0
    assert abs(f(float(re.findall(r"x ≈ (\d\.\d+)\.? ", published[120][1])[-1]))) > 10
    assert ours[120][1].startswith("x = 2.")
    assert abs(f(-1 + math.sqrt(3) / 2 * 1j)) < 1e-12
    assert "-1 ± (√3 / 2)i" in ours[120][1]


def test_the_longest_common_subsequence(published, ours, shared_data):
    rows = map(json.loads, (shared_data / "mt_bench" / "question.jsonl").read_text(encoding="utf-8").splitlines())
    first, second = next(row["turns"] for row in rows if row["question_id"] == 124)
    right = code_in(first)["longest_common_subsequence_length"]
    assert (right("abcde", "xacez"), right("", "a")) == (3, 0)
    wrong = code_in(second)["longest_common_subsequence"]
    for pair in (("a", "a"), ("a", "b"), ("abc", "abd")):
        with pytest.raises(TypeError):
            wrong(*pair)
    assert wrong("", "a") is None
    assert published[124][1].startswith("This function is also correct")
    assert "TypeError" in ours[124][1]


def test_the_highest_common_ancestor(published, ours):
    for turn, (one, other) in enumerate([(6, 4), (10, 11)]):
        names, fixed = code_in(published[125][turn]), code_in(ours[125][turn])
        root = names["root"]
        nodes: dict[int, Any] = {}
        ahead = [root]
        while ahead:
            node = ahead.pop()
            nodes[node.value] = node
            ahead += filter(None, node.children if turn else (node.left, node.right))
        assert names["find_hca"](root, nodes[one], nodes[other]) is not root  # the lowest one, and both are below it
        assert fixed["highest_common_ancestor"](root, nodes[one], nodes[other]) is root
        assert fixed["highest_common_ancestor"](root, nodes[one], type(root)(99)) is None


def test_the_median_in_linear_time(published, ours):
    assert published[126][0].startswith("It's not possible")
    median = code_in(ours[126][0])["median"]
    draw = random.Random(0)
    for _ in range(300):
        one, other = (sorted(draw.choices(range(9), k=draw.randrange(6))) for _ in range(2))
        if one or other:
            assert median(one, other) == statistics.median([*one, *other])


def trees(size: int, arity: int) -> int:
    """How many ordered trees there are whose vertices have no or `arity` children, by listing all."""
    if size == 1:
        return 1
    shares = itertools.product(range(1, size), repeat=arity)
    return sum(math.prod(trees(part, arity) for part in share) for share in shares if sum(share) == size - 1)


@pytest.mark.parametrize(("turn", "name", "arity"), [(0, "full_binary_trees", 2), (1, "full_ternary_trees", 3)])
def test_full_trees(published, ours, turn, name, arity):
    counts = {size: trees(size, arity) for size in range(1, 9)}
    theirs, fixed = code_in(published[128][turn])[name], code_in(ours[128][turn])[name]
    assert {size: fixed(size) for size in counts} == counts
    assert any(theirs(size) != count for size, count in counts.items())
    assert ", ".join(str(count) for count in counts.values() if count) in ours[128][turn]


def test_common_elements(published, ours):
    for turn, arrays in enumerate([([1, 1], [1, 1]), ([1], [1, 1])]):
        said = printed(code_in(published[130][turn])["find_common_elements"], *arrays).split()
        assert len(said) > min(map(len, arrays))  # however repeated elements count
        common = code_in(ours[130][turn])["common_elements"]
        assert sorted(common(*arrays)) == [1]
        assert sorted(common([3, 1, 3, 2], [3, 5, 2, 3])) == [2, 3]


@pytest.mark.slow
def test_question_122_is_right(published, tmp_path):
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    rows = ([0, 1], [0, -1, -1])
    for turn, start in enumerate(rows):
        (tmp_path / "a.cpp").write_text(re.findall(r"```cpp\n(.*?)```", published[122][turn], re.DOTALL)[0])
        subprocess.run(["g++", "-o", "a", "a.cpp"], cwd=tmp_path, check=True)
        numbers = [*start]
        while len(numbers) < 12:
            numbers.append(sum(numbers[-len(start) :]))
        first = turn  # Fibonacci's from the 0th, the others from the 1st
        for place, number in enumerate(numbers, start=first):
            said = subprocess.run(tmp_path / "a", input=str(place), capture_output=True, text=True, check=True).stdout
            assert said.rstrip().endswith(f"is: {number}")
