"""Model folders for tests of weights, made and read by PyTorch and this reading of the safetensors format. What to do stands on
standard input, a line each:

    make FAMILY DIR DTYPE [SHARDS]   a small model with random weights, as transformers would store it
    compare DIR OTHER                the same tensors of the same types, bit for bit
    rounded DIR OTHER DTYPE          OTHER has what PyTorch makes of DIR's numbers in DTYPE
    forward DIR TEXT SEQ N LOSS      PyTorch's loss of that model on the first N sequences of a text is LOSS, within 1e-5
"""
import json
import math
import os
import struct
import sys

import torch

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
NAMES = {v: k for k, v in TYPES.items()}


def read_file(path):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + n])
    head.pop("__metadata__", None)
    out, end = {}, 0
    for name, t in sorted(head.items(), key=lambda x: x[1]["data_offsets"]):
        a, b = t["data_offsets"]
        assert a == end, (path, name, "a hole")
        end = b
        raw = torch.frombuffer(bytearray(data[8 + n + a : 8 + n + b]), dtype=TYPES[t["dtype"]])
        out[name] = raw.reshape(t["shape"])
    assert 8 + n + end == len(data), (path, "its end")
    assert n % 8 == 0
    return out


def read(folder):
    single = os.path.join(folder, "model.safetensors")
    if os.path.exists(single):
        return read_file(single)
    index = json.load(open(single + ".index.json"))
    out = {}
    for name in sorted(set(index["weight_map"].values())):
        part = read_file(os.path.join(folder, name))
        assert all(index["weight_map"][t] == name for t in part)
        out.update(part)
    assert set(out) == set(index["weight_map"])
    assert index["metadata"]["total_size"] == sum(t.numel() * t.element_size() for t in out.values())
    return out


def write_file(path, tensors):
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        n = t.numel() * t.element_size()
        head[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.contiguous().view(torch.int16 if t.element_size() == 2 else torch.int32).numpy().tobytes())


def gpt2():
    h, layers, vocab, positions = 64, 2, 256, 96
    config = {"model_type": "gpt2", "n_embd": h, "n_layer": layers, "n_head": 4, "vocab_size": vocab,
              "n_positions": positions, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
    shapes = {"wte.weight": (vocab, h), "wpe.weight": (positions, h)}
    for i in range(layers):
        p = f"h.{i}."
        shapes |= {p + "ln_1.weight": (h,), p + "ln_1.bias": (h,), p + "attn.c_attn.weight": (h, 3 * h),
                   p + "attn.c_attn.bias": (3 * h,), p + "attn.c_proj.weight": (h, h), p + "attn.c_proj.bias": (h,),
                   p + "ln_2.weight": (h,), p + "ln_2.bias": (h,), p + "mlp.c_fc.weight": (h, 4 * h),
                   p + "mlp.c_fc.bias": (4 * h,), p + "mlp.c_proj.weight": (4 * h, h), p + "mlp.c_proj.bias": (h,)}
    shapes |= {"ln_f.weight": (h,), "ln_f.bias": (h,)}
    return config, shapes


def llama():
    h, layers, vocab, heads, kv, ffn = 64, 2, 256, 4, 2, 96
    d = h // heads
    config = {"model_type": "llama", "hidden_size": h, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv, "intermediate_size": ffn, "vocab_size": vocab, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "max_position_embeddings": 128, "hidden_act": "silu"}
    shapes = {"model.embed_tokens.weight": (vocab, h), "model.norm.weight": (h,), "lm_head.weight": (vocab, h)}
    for i in range(layers):
        p = f"model.layers.{i}."
        shapes |= {p + "input_layernorm.weight": (h,), p + "post_attention_layernorm.weight": (h,),
                   p + "self_attn.q_proj.weight": (heads * d, h), p + "self_attn.k_proj.weight": (kv * d, h),
                   p + "self_attn.v_proj.weight": (kv * d, h), p + "self_attn.o_proj.weight": (h, heads * d),
                   p + "mlp.gate_proj.weight": (ffn, h), p + "mlp.up_proj.weight": (ffn, h),
                   p + "mlp.down_proj.weight": (h, ffn)}
    return config, shapes


def make(family, folder, dtype, shards=1):
    torch.manual_seed(7)
    config, shapes = {"gpt2": gpt2, "llama": llama}[family]()
    tensors = {}
    for name, shape in shapes.items():
        x = torch.randn(shape) * 0.05
        tensors[name] = (x + 1 if len(shape) == 1 and name.endswith("weight") else x).to(TYPES[dtype])
    if family == "gpt2":  # as older versions stored it beside the weights
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 4, 4).to(TYPES[dtype])
    os.makedirs(folder)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    if shards == 1:
        write_file(os.path.join(folder, "model.safetensors"), tensors)
        return
    map_, names = {}, list(tensors)
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = names[i::shards]
        write_file(os.path.join(folder, file), {n: tensors[n] for n in part})
        map_ |= {n: file for n in part}
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    json.dump({"metadata": {"total_size": size}, "weight_map": map_},
              open(os.path.join(folder, "model.safetensors.index.json"), "w"))


def plain(name):
    return name[len("transformer.") :] if name.startswith("transformer.") else name


def compare(folder, other):
    a = {plain(n): t for n, t in read(folder).items() if not n.endswith(".attn.bias")}
    b = {plain(n): t for n, t in read(other).items() if not n.endswith(".attn.bias")}
    assert set(a) == set(b), set(a) ^ set(b)
    for name, x in a.items():
        y = b[name]
        assert x.shape == y.shape, name
        assert x.dtype == y.dtype, (name, x.dtype, y.dtype)
        bits = torch.int16 if x.element_size() == 2 else torch.int32
        assert torch.equal(x.contiguous().view(bits), y.contiguous().view(bits)), name


def rounded(folder, other, dtype):
    a = {plain(n): t.to(TYPES[dtype]) for n, t in read(folder).items() if not n.endswith(".attn.bias")}
    b = {plain(n): t for n, t in read(other).items()}
    assert set(a) == set(b), set(a) ^ set(b)
    for name, x in a.items():
        assert torch.equal(x.view(torch.int16), b[name].contiguous().view(torch.int16)), name


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.triu(torch.ones(scores.shape[-2:], dtype=torch.bool), 1)
    return torch.softmax(scores.masked_fill(mask, -math.inf), -1) @ v


def heads_of(x, n):
    return x.reshape(*x.shape[:2], n, -1).transpose(1, 2)


def gpt2_logits(c, w, ids):
    norm = lambda x, n: torch.nn.functional.layer_norm(x, x.shape[-1:], w[n + ".weight"], w[n + ".bias"], 1e-5)
    conv = lambda x, n: x @ w[n + ".weight"] + w[n + ".bias"]
    x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
    for i in range(c["n_layer"]):
        p = f"h.{i}."
        q, k, v = (heads_of(t, c["n_head"]) for t in conv(norm(x, p + "ln_1"), p + "attn.c_attn").chunk(3, -1))
        x = x + conv(attention(q, k, v).transpose(1, 2).reshape(x.shape), p + "attn.c_proj")
        h = conv(norm(x, p + "ln_2"), p + "mlp.c_fc")
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + conv(h, p + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def llama_logits(c, w, ids):
    def norm(x, n):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + c["rms_norm_eps"]) * w[n + ".weight"]

    def rotate(x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2])[:, None] / c["rope_theta"] ** (torch.arange(half)[None] / half)
        a, b, cos, sin = x[..., :half], x[..., half:], torch.cos(angle), torch.sin(angle)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        line = lambda y, n: y @ w[p + n + ".weight"].T
        y = norm(x, p + "input_layernorm")
        q, k = rotate(heads_of(line(y, "self_attn.q_proj"), heads)), rotate(heads_of(line(y, "self_attn.k_proj"), kv))
        v = heads_of(line(y, "self_attn.v_proj"), kv)
        k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
        x = x + line(attention(q, k, v).transpose(1, 2).reshape(*x.shape[:2], -1), "self_attn.o_proj")
        y = norm(x, p + "post_attention_layernorm")
        x = x + line(torch.nn.functional.silu(line(y, "mlp.gate_proj")) * line(y, "mlp.up_proj"), "mlp.down_proj")
    return norm(x, "model.norm") @ w["lm_head.weight"].T


def forward(folder, path, seq, batch, loss):
    """The first `batch` sequences of a text, in the file's order."""
    torch.set_default_dtype(torch.float64)
    c = json.load(open(os.path.join(folder, "config.json")))
    w = {plain(n): t.double() for n, t in read(folder).items()}
    text = torch.tensor(list(open(path, "rb").read()[: seq * batch + 1]))
    ids, labels = text[:-1].reshape(batch, seq), text[1:].reshape(batch, seq)
    logits = {"gpt2": gpt2_logits, "llama": llama_logits}[c["model_type"]](c, w, ids)
    mine = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)).item()
    assert abs(mine - loss) <= 1e-5 * mine, (mine, loss)


def run(what, arguments):
    if what == "make":
        make(*arguments[:3], *map(int, arguments[3:]))
    elif what == "compare":
        compare(*arguments)
    elif what == "rounded":
        rounded(*arguments)
    else:
        forward(arguments[0], arguments[1], int(arguments[2]), int(arguments[3]), float(arguments[4]))


if __name__ == "__main__":
    failed = False
    for line in sys.stdin:
        try:
            run(*(line.split()[0], line.split()[1:]))
        except Exception as e:
            print(f"FAIL: {line.strip()}: {type(e).__name__} {e}", file=sys.stderr)
            failed = True
    sys.exit(failed)
