"""The logits that the objective is computed from are those of the model, or the model is refused."""

from __future__ import annotations

import pytest
import torch
from population import tiny_network
from tiny import CONFIGS, SIZES, make_trainer, tiny_model
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, BertConfig, LlamaForCausalLM

from instruct.base.errors import InputError
from instruct.objectives import EMO
from instruct.training.head import attach_objective


class Shifting(LlamaForCausalLM):
    """A forward that calls its backbone with something else than it was given."""

    def forward(self, input_ids=None, **kwargs):
        return super().forward(input_ids=None if input_ids is None else (input_ids + 1) % 64, **kwargs)


# Their forward caps the logits, or more layers lie between their backbone and their head.
KINDS = ["recurrent_gemma", "xlstm", "bert"]


class Doubling(LlamaForCausalLM):
    """A forward that does more than any of the keys that are read."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits * self.config.my_logit_factor
        return output


@pytest.mark.parametrize(
    "model",
    [
        *(pytest.param(tiny_network(kind), id=kind) for kind in KINDS),
        Shifting(CONFIGS["llama"](True)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_loss_is_of_the_models_own_logits(tmp_path, model):
    """Whatever caps them, and whatever lies between the backbone and the head."""
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)  # large enough for a cap to matter
    trainer = make_trainer(tmp_path, model, objective="mle")
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    model.eval()
    loss = model(**batch, objective_loss=True).loss
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    theirs = cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
    assert float(loss) == pytest.approx(float(theirs), rel=1e-5)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    ours = torch.autograd.grad(loss, parameters, allow_unused=True)
    for gradient, other in zip(ours, torch.autograd.grad(theirs, parameters, allow_unused=True), strict=True):
        assert (gradient is None and other is None) or torch.allclose(gradient, other, rtol=1e-3, atol=1e-6)


def test_the_models_own_forward_is_unchanged():
    model = tiny_model("gemma2")
    input_ids = torch.arange(3, 13)[None]
    before = model(input_ids=input_ids, labels=input_ids)
    attach_objective(model, EMO(), None)
    after = model(input_ids=input_ids, labels=input_ids)
    assert torch.equal(before.logits, after.logits)
    assert before.loss == after.loss


def test_a_model_that_sees_what_it_predicts_is_refused(tmp_path):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(BertConfig(**SIZES, initializer_range=0.2))
    with pytest.raises(InputError, match=r"its logits change by .* with the tokens after them.*is_dec"):
        make_trainer(tmp_path, model)


def test_a_factor_that_is_not_read_is_refused_with_its_key(tmp_path):
    config = CONFIGS["llama"](True)
    config.my_logit_factor = 2.0
    with pytest.raises(InputError, match=r"Doubling: .* it also applies config\.my_logit_factor=2\.0, which"):
        make_trainer(tmp_path, Doubling(config))
