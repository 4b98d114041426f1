"""Two tiny checkpoints, made and saved here, side by side over a text."""

import json

import pytest
import torch

from kullback.cli.main import main

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "run"]


def save(folder, *, noise=0.0, words=WORDS):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(WORDS) + 1, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
    model.save_pretrained(folder)
    vocabulary = {"[UNK]": 0, **{word: number + 1 for number, word in enumerate(words)}}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]").save_pretrained(folder)
    return str(folder)


@pytest.mark.filterwarnings("ignore")
def test_checkpoints_side_by_side(tmp_path, capsys):
    base, other = save(tmp_path / "base"), save(tmp_path / "other", noise=0.02)
    text = tmp_path / "text.txt"
    text.write_text(" ".join(WORDS[(7 * i) % 10] for i in range(200)))
    options = ["--text", str(text), "--context", "32", "--stride", "16", "--json"]
    assert main(["compare", base, other, *options]) == 0
    record = json.loads(capsys.readouterr().out)["others"][0]
    assert record["rows"] == 11 * 16
    model, second = (transformers.AutoModelForCausalLM.from_pretrained(folder).eval() for folder in (base, other))
    tokens = torch.tensor([[1 + (7 * i) % 10 for i in range(200)]])
    expected = []
    for start in range(0, 200 - 32 + 1, 16):
        with torch.no_grad():
            p, q = (m(tokens[:, start : start + 32]).logits[0, -16:].double().log_softmax(-1) for m in (model, second))
        expected.append((p.exp() * (p - q)).sum(-1))
    assert record["kl"]["mean"] == pytest.approx(float(torch.cat(expected).mean()), rel=1e-4)
    assert record["perplexity_ratio"] > 0
    assert main(["compare", base, base, *options]) == 0
    assert "identical" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_different_vocabularies_are_named(tmp_path, capsys):
    base, other = save(tmp_path / "base"), save(tmp_path / "other", words=WORDS[::-1])
    (tmp_path / "text.txt").write_text("the cat sat")
    assert main(["compare", base, other, "--text", str(tmp_path / "text.txt")]) == 2
    assert "tokenizers differ" in capsys.readouterr().err
    assert main(["compare", base, base]) == 2
    assert "--text" in capsys.readouterr().err
