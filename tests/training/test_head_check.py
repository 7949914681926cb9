"""The logits that the objective is computed from are those of the model, or the model is refused."""

from __future__ import annotations

import warnings

import pytest
import torch
from tiny import CONFIGS, SIZES, captured_gradients, make_trainer, tiny_model
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    ElectraConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    ModernBertDecoderConfig,
    RecurrentGemmaConfig,
    xLSTMConfig,
)

from instruct.base.errors import InputError
from instruct.training.head_check import check_logits, difference


def made(config):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).float()


def capped(model_type: str):
    """A model whose logits are capped under a name of its own, and large enough for that to matter."""
    if model_type == "recurrent_gemma":
        config = RecurrentGemmaConfig(**SIZES, lru_width=32, attention_window_size=16, logits_soft_cap=2.0)
    else:
        config = xLSTMConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=2, num_heads=4, output_logit_soft_cap=2.0, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, chunk_size=16,
        )  # fmt: skip
    model = made(config)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    return model


@pytest.mark.parametrize("model_type", ["recurrent_gemma", "xlstm"])
def test_softcaps_of_any_name_are_applied(tmp_path, model_type):
    model = capped(model_type)
    trainer = make_trainer(tmp_path, model, objective="mle")
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    with torch.no_grad():
        model.eval()
        ours = model(**batch, objective_loss=True).loss
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    theirs = cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
    assert float(ours) == pytest.approx(float(theirs), rel=1e-5)
    assert logits.abs().max() <= 2


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (ModernBertDecoderConfig(**SIZES, global_attn_every_n_layers=1), r"lm_head\.dense, lm_head\.norm"),
        (ElectraConfig(**SIZES, embedding_size=16, is_decoder=True), r"generator_predictions\."),
        (BertConfig(**SIZES, is_decoder=True), r"cls\.predictions\.transform\.dense"),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_a_head_that_is_more_than_a_product_is_refused_with_its_modules(tmp_path, config, named):
    with pytest.raises(InputError, match=rf"its own forward computes other logits .* applies .*{named}"):
        make_trainer(tmp_path, made(config))


class Doubling(LlamaForCausalLM):
    """A forward that does more than any of the keys that are read."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits * self.config.my_logit_factor
        return output


class Shifting(LlamaForCausalLM):
    """A forward that calls its backbone with something else than it was given."""

    def forward(self, input_ids=None, **kwargs):
        return super().forward(input_ids=None if input_ids is None else input_ids + 1, **kwargs)


def test_a_factor_that_is_not_read_is_refused_with_its_key(tmp_path):
    config = CONFIGS["llama"](True)
    config.my_logit_factor = 2.0
    with pytest.raises(InputError, match=r"Doubling: .* it also applies config\.my_logit_factor=2\.0, which"):
        make_trainer(tmp_path, Doubling(config))


def test_a_backbone_that_is_called_otherwise_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"Shifting: its own forward .* applies something else"):
        make_trainer(tmp_path, Shifting(CONFIGS["llama"](True)))


def test_a_backbone_that_cannot_be_found_is_refused():
    class Lost(GPT2LMHeadModel):
        base_model_prefix = "nowhere"

    with pytest.raises(InputError, match=r"Lost: its backbone is not where base_model_prefix \('nowhere'\)"):
        check_logits(Lost(GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4)))


def test_weights_that_are_elsewhere_are_checked_on_random_states_alone():
    """As under ZeRO-3, where the backbone is sharded and the head is gathered; here the backbone has no weights."""
    config = CONFIGS["llama"](False)
    config.my_logit_factor = 2.0
    for model in (Doubling(config), tiny_model(tied=False)):
        model.model.to("meta")
        assert (difference(model) is None) == (type(model) is LlamaForCausalLM)


def test_a_model_that_cannot_be_compared_is_announced(monkeypatch):
    model = tiny_model()
    monkeypatch.setattr(type(model), "forward", lambda self, pixel_values: None)
    with pytest.warns(UserWarning, match="LlamaForCausalLM: its logits could not be compared"):
        assert difference(model) is None


def test_the_comparison_leaves_the_model_and_the_random_numbers_alone(tmp_path):
    model = tiny_model()
    model.model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_logits(model)
    assert torch.equal(torch.rand(2), expected)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert "forward" not in model.model.__dict__
    assert captured_gradients(make_trainer(tmp_path, model))
