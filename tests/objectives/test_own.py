"""An objective of the user's own: loaded by name, checked before training, and trained with the gradient it states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from instruct.base.errors import InputError
from instruct.objectives import linear_objective_loss
from instruct.objectives.own import make_own_objective, source_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "objectives.md"
IMPORTS = "import torch\nfrom instruct.objectives.objective import Weighting\n"


def entropy_bonus(logits, labels):
    log_q = logits.log_softmax(dim=-1)
    entropy = -(log_q.exp() * log_q).sum(dim=-1)
    return (torch.nn.functional.nll_loss(log_q, labels, reduction="none") - 0.3 * entropy).mean()


def sharpened(logits, labels):
    return torch.nn.functional.cross_entropy(logits / 0.5, labels)


@pytest.mark.parametrize(
    ("name", "arguments", "dense"),
    [("EntropyBonus", {"strength": 0.3}, entropy_bonus), ("Sharpened", {"temperature": 0.5}, sharpened)],
)
def test_the_documented_examples_have_the_gradients_of_their_losses(tmp_path, name, arguments, dense):
    (code,) = re.findall(rf"```python\n((?:(?!```).)*class {name}.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "my_loss.py").write_text(code)
    torch.manual_seed(0)
    hidden = torch.randn(7, 8, dtype=torch.float64, requires_grad=True)
    head, labels = torch.randn(11, 8, dtype=torch.float64), torch.randint(0, 11, (7,))
    objective = make_own_objective(f"{tmp_path / 'my_loss.py'}:{name}", arguments)
    loss, expected = linear_objective_loss(hidden, head, labels, objective)[0], dense(hidden @ head.T, labels)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each, hidden)[0] for each in (loss, expected)))


def test_an_objective_of_a_module_is_imported_by_name():
    objective = make_own_objective("instruct.objectives.built_in:MixCE", {"gamma": 0.5})
    assert objective.gamma == 0.5
    assert source_of("instruct.objectives.built_in:MixCE").name == "built_in.py"


LOSSES = (
    "from instruct.objectives import LogitLoss\nclass Mine(LogitLoss):\n    def losses(self, logits, labels):\n        "
)
WEIGH = "class Mine:\n    needs = ()\n    def weigh(self, token):\n        "


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class Mine:\n    needs = ('entropie',)\n    weigh = None", "needs entropie; statistics are cost, "),
        (f"{WEIGH}return Weighting(a=token.ce, h=token.ce, value=token.ce)", "add entropy to `needs`"),
        ("class Other: pass", "has no class Mine; name one that it defines"),
        ("class Mine: pass", "has no needs; see docs/objectives.md"),
        (None, "mine.py: no such file; give the path of a Python file"),
        ("import absent_package", "ModuleNotFoundError: No module named 'absent_package'; correct "),
        (f"{WEIGH}return token.ce", "weigh returns Tensor; return a Weighting"),
        (f"{WEIGH}return token.nothing", "weigh fails on made-up tokens: AttributeError: "),
        (f"{WEIGH}return Weighting(a=token.ce.mean(), value=token.ce)", "a of shape (); return one number per token"),
        (f"{WEIGH}return Weighting(a=token.q_target.log(), value=token.ce)", "a that is not finite for some tokens"),
        (f"{WEIGH}return Weighting(a=token.ce, b=token.ce, value=token.ce)", "add cost to `needs`"),
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
            f"{WEIGH}a = torch.ones_like(token.ce)\n        "
            "return Weighting(a=a, h=0.2 * a, value=token.ce - 0.2 * token.entropy)",
            "entropy changes the value by more or less than its weight",
        ),
        (
            f"{WEIGH}return Weighting(a=token.q_target / token.q_target.mean(), value=token.ce)",
            "a token's weight a changes with the other tokens",
        ),
        (
            f"{WEIGH}return Weighting(a=token.ce, value=token.ce + token.ce.mean())",
            "a token's loss changes with the other tokens",
        ),
        (f"{WEIGH}return Weighting(a=token.ce, value=token.ce.clamp_(max=1))", "weigh changes ce in place"),
        (f"{WEIGH}return Weighting(a=token.ce, value=token.ce.clamp_(max=1e9))", "weigh changes ce in place"),
        (f"{WEIGH}token.q_target.data[0] = 0.5; return Weighting(a=token.ce, value=token.ce)", "weigh changes q_target in"),
        ("class Mine:\n    needs = ('entropy')\n    weigh = None", "needs is a text; write needs = (\"entropy\",)"),
        ("class Mine:\n    needs, reference = (), 'gpt2'\n    weigh = None", 'gpt2; the only one is "base"'),
        ("class Mine:\n    needs = ('ref_ce',)\n    weigh = None", 'the model before training; set reference = "base"'),
        (
            f"{LOSSES}ce = torch.nn.functional.cross_entropy(logits, labels, reduction='none')\n"
            "        return ce / torch.arange(1, len(ce) + 1)",
            "a token's loss changes with the other tokens",
        ),
        (
            f"{LOSSES}best = logits.max(-1).values; return (best - logits.gather(1, labels[:, None])[:, 0]).sqrt()",
            "the gradient of losses is not finite for some logits",
        ),
        (
            LOSSES.replace("    def", "    needs = ('entropy',)\n    def") + "pass",
            "a LogitLoss has logits, and no statistics; remove `needs`",
        ),
        ("class Mine:\n    def __init__(self, beta): pass", "argument: 'beta'; correct objective_args"),
        ("class Mine:\n    def __init__(self): raise RuntimeError('no')", "cannot be made (RuntimeError: no)"),
        ("raise SystemExit(0)", "SystemExit: 0; correct "),
        (f"{WEIGH}raise SystemExit(0)", "weigh fails on made-up tokens: SystemExit: 0"),
        (f"{LOSSES}return logits.mean()", "losses returns shape (); return one number per token"),
        (f"{LOSSES}return logits.detach().mean(-1)", "losses has no gradient to the logits; detach weights alone"),
        (f"{LOSSES}return logits.log().mean(-1)", "losses returns numbers that are not finite for some tokens"),
        (f"{LOSSES}return logit", "losses fails on made-up logits: NameError: name 'logit' is not defined"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_trained_with_is_refused(tmp_path, code, message):
    if code:
        needed = "('entropy',)" if "token.entropy" in code else "()"
        code = code.replace("needs = ()", f"needs = {needed}")
        (tmp_path / "mine.py").write_text(f"{IMPORTS}{code}\n")
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        make_own_objective(f"{tmp_path / 'mine.py'}:Mine")
    assert "\n" not in str(refused.value)
