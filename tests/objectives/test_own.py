"""An objective of the user's own: a function or a class, checked before training, with the gradient that it states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from instruct import EMOConfig
from instruct.base.errors import InputError
from instruct.objectives import MixCE, linear_objective_loss
from instruct.objectives.make import make_objective

PAGE = Path(__file__).resolve().parents[2] / "docs" / "objectives.md"
IMPORTS = "import torch\nfrom instruct.objectives.objective import Weighting\n"


def entropy_bonus(logits, labels):
    log_q = logits.log_softmax(dim=-1)
    entropy = -(log_q.exp() * log_q).sum(dim=-1)
    return (torch.nn.functional.nll_loss(log_q, labels, reduction="none") - 0.3 * entropy).mean()


def sharpened(logits, labels, temperature=0.5, reduction="none"):
    return cross_entropy(logits / temperature, labels, reduction=reduction)


def loss_of(objective):
    torch.manual_seed(0)
    hidden = torch.randn(7, 8, dtype=torch.float64, requires_grad=True)
    head, labels = torch.randn(11, 8, dtype=torch.float64), torch.randint(0, 11, (7,))
    return hidden, hidden @ head.T, labels, linear_objective_loss(hidden, head, labels, objective)[0]


@pytest.mark.parametrize(
    ("name", "arguments", "dense"),
    [
        ("EntropyBonus", {"strength": 0.3}, entropy_bonus),
        ("sharpened", {"temperature": 0.5}, lambda *given: sharpened(*given).mean()),
    ],
)
def test_the_documented_examples_have_the_gradients_of_their_losses(tmp_path, name, arguments, dense):
    (code,) = re.findall(rf"```python\n([^`]*(?:class|def) {name}[^`]*)```", PAGE.read_text("utf-8"))
    (tmp_path / "my_loss.py").write_text(code)
    hidden, logits, labels, loss = loss_of(make_objective(f"{tmp_path / 'my_loss.py'}:{name}", arguments))
    expected = dense(logits, labels)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each, hidden)[0] for each in (loss, expected)))


class Called:
    def __init__(self, temperature=1.0):
        self.temperature = temperature

    def __call__(self, logits, labels):
        return sharpened(logits, labels, self.temperature)


@pytest.mark.parametrize(
    ("given", "arguments", "temperature"),
    [
        (sharpened, {"temperature": 2.0}, 2.0),
        (cross_entropy, {"reduction": "none"}, 1.0),
        (Called, {"temperature": 2.0}, 2.0),
        (Called(2.0), None, 2.0),
        (MixCE, {"gamma": 1.0}, 1.0),
    ],
)
def test_a_function_a_class_or_an_object_is_an_objective(tmp_path, given, arguments, temperature):
    config = EMOConfig(str(tmp_path), objective=given, objective_args=arguments, report_to=[], use_cpu=True, bf16=False)
    _, logits, labels, loss = loss_of(config.make_objective())
    torch.testing.assert_close(loss, sharpened(logits, labels, temperature).mean())


def trl_loss(outputs, labels, num_items_in_batch=None):
    return cross_entropy(outputs.logits, labels, reduction="sum") / num_items_in_batch


RIGHT = r'.*; write `def my_loss\(logits, labels\): return .*cross_entropy\(logits, labels, reduction="none"\)`$'


@pytest.mark.parametrize(
    ("given", "arguments", "message"),
    [
        (trl_loss, None, f"'Tensor' object has no attribute 'logits'{RIGHT}"),
        (sharpened, {"beta": 1}, "got an unexpected keyword argument 'beta'; correct objective_args$"),
        (cross_entropy, None, r"loss has the shape \(\); return one number per token, without a mean"),
        (MixCE, {"gamma": 2}, "gamma is 2; it must lie between 0 and 1; correct objective_args"),
    ],
)
def test_anything_else_is_refused_with_what_is_right(given, arguments, message):
    with pytest.raises(InputError, match=f"^objective [^ ]+: .*{message}") as refused:
        make_objective(given, arguments)
    assert "\n" not in str(refused.value)


LOSSES = "def Mine(logits, labels):\n    "
WEIGH = "class Mine:\n    needs = ()\n    def weigh(self, token):\n        "


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (f"{WEIGH}return Weighting(a=token.ce, h=token.ce, value=token.ce)", "add entropy to `needs`"),
        (f"{WEIGH}return token.nothing", "weigh fails on made-up tokens: AttributeError: "),
        (
            f"{WEIGH}return Weighting(a=torch.ones_like(token.ce), value=token.ce - 0.1 * token.q_target)",
            "ce changes the value by more or less than its weight; statistics are detached",
        ),
        (
            f"{WEIGH}return Weighting(a=torch.ones_like(token.ce), value=token.ce + token.cost)".replace(
                "needs = ()", "needs = ('cost',)"
            ),
            "cost changes the value but no weight",
        ),
        (
            f"{WEIGH}return Weighting(a=token.q_target / token.q_target.mean(), value=token.ce)",
            "a token's weight a changes with the other tokens",
        ),
        (f"{WEIGH}return Weighting(a=token.ce, value=token.ce.clamp_(max=1e9))", "ce is changed in place"),
        (
            f"{LOSSES}best = logits.max(-1).values; return (best - logits.gather(1, labels[:, None])[:, 0]).sqrt()",
            "the gradient of the loss is not finite for some logits",
        ),
        (f"{LOSSES}return logits.detach().mean(-1)", "the loss has no gradient to the logits; detach weights alone"),
        (f"{LOSSES}return logit", "fails on made-up logits: NameError: name 'logit' is not defined"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_trained_with_is_refused(tmp_path, code, message):
    (tmp_path / "mine.py").write_text(f"{IMPORTS}{code}\n")
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        make_objective(f"{tmp_path / 'mine.py'}:Mine")
    assert "\n" not in str(refused.value)
