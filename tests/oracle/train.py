#!/usr/bin/env python3
"""Losses and gradient norms of small models trained by PyTorch, against which the engine is tested.

    python3 tests/oracle/train.py > tests/data/engine/oracle.csv       (needs PyTorch: python3-torch)

The models are written here from their papers, over autograd; initial values and tokens follow the formulas that the engine
states (src/engine/initial.h, tests/test_engine.c). fp64 throughout, but for initial values, which are fp32 numbers."""
import math
import sys

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
STEPS, SEED = 20, 1234


def philox(counter, key):
    """Philox4x32-10 on an array of counters [n, 4]."""
    c = [counter[:, i].astype(np.uint64) for i in range(4)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, 1)


def normal(tensor, rows, cols, deviation):
    n = rows * cols
    counter = np.zeros(((n + 3) // 4, 4), np.uint64)
    counter[:, 0] = np.arange(len(counter))
    counter[:, 2] = tensor
    words = philox(counter, SEED).astype(np.float64)
    out = np.empty((len(words), 4), np.float32)
    for i in (0, 2):
        radius, angle = np.sqrt(-2 * np.log((words[:, i] + 0.5) / 2**32)), 2 * math.pi * words[:, i + 1] / 2**32
        out[:, i], out[:, i + 1] = radius * np.cos(angle), radius * np.sin(angle)
    values = out.reshape(-1)[:n] * np.float32(deviation)
    return torch.tensor(values.reshape(rows, cols).astype(np.float64))


def token(sequence, position, vocab):
    return (sequence * 31 + position * position * (sequence % 7 + 1) + position // 3) % vocab


class Weights:
    """Numbers weights as the engine does: those outside the layers first, then layer after layer."""

    def __init__(self, layers):
        self.next, self.list, self.decay, self.layers = 0, [], [], layers

    def add(self, value, decay):
        self.next += 1
        p = torch.nn.Parameter(value)
        self.list.append(p)
        self.decay.append(decay)
        return p

    def matrix(self, rows, cols, residual=False):
        deviation = np.float32(0.02)
        if residual:
            deviation = deviation / np.sqrt(np.float32(2.0) * np.float32(self.layers))
        return self.add(normal(self.next, rows, cols, deviation), True)

    def ones(self, n):
        return self.add(torch.ones(n), False)

    def zeros(self, n):
        return self.add(torch.zeros(n), False)


def attention(q, k, v):
    """[batch, heads, seq, d], causal."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.triu(torch.ones(scores.shape[-2:], dtype=torch.bool), 1)
    return torch.softmax(scores.masked_fill(mask, -math.inf), -1) @ v


def layer_norm(x, w, b):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, 1e-5)


def rms_norm(x, w):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w


def split_heads(x, heads):
    b, s, w = x.shape
    return x.reshape(b, s, heads, w // heads).transpose(1, 2)


def join_heads(x):
    b, h, s, d = x.shape
    return x.transpose(1, 2).reshape(b, s, h * d)


class GPT2:
    """Radford et al. 2019: learned positions, pre-norm, biases, GELU by tanh, tied head."""
    name = "gpt2"

    def __init__(self, layers=4, hidden=64, heads=4, vocab=501, positions=48):
        w = self.w = Weights(layers)
        self.heads, self.vocab = heads, vocab
        self.wte, self.wpe = w.matrix(vocab, hidden), w.matrix(positions, hidden)
        self.f = (w.ones(hidden), w.zeros(hidden))
        self.layers = []
        for _ in range(layers):
            n = [w.ones(hidden), w.zeros(hidden), w.ones(hidden), w.zeros(hidden)]
            qkv = (w.matrix(3 * hidden, hidden), w.zeros(3 * hidden))
            out = (w.matrix(hidden, hidden, True), w.zeros(hidden))
            up = (w.matrix(4 * hidden, hidden), w.zeros(4 * hidden))
            down = (w.matrix(hidden, 4 * hidden, True), w.zeros(hidden))
            self.layers.append((n, qkv, out, up, down))

    def logits(self, ids):
        linear = torch.nn.functional.linear
        x = self.wte[ids] + self.wpe[: ids.shape[1]]
        for n, qkv, out, up, down in self.layers:
            q, k, v = linear(layer_norm(x, n[0], n[1]), *qkv).chunk(3, -1)
            a = attention(*(split_heads(t, self.heads) for t in (q, k, v)))
            x = x + linear(join_heads(a), *out)
            h = linear(layer_norm(x, n[2], n[3]), *up)
            x = x + linear(gelu_tanh(h), *down)
        return linear(layer_norm(x, *self.f), self.wte)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def rotate(x):
    """Su et al., arXiv:2104.09864, halves paired as in Llama."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(half)[None] / half)
    a, b, c, s = x[..., :half], x[..., half:], torch.cos(angle), torch.sin(angle)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


class Llama:
    """Touvron et al. 2023: RMSNorm, rotary positions, grouped keys and values, SwiGLU, no biases, a head of its own."""
    name = "llama"

    def __init__(self, layers=4, hidden=64, heads=4, kv_heads=2, ffn=96, vocab=501):
        w = self.w = Weights(layers)
        self.heads, self.kv_heads, self.vocab = heads, kv_heads, vocab
        d = hidden // heads
        self.embed, self.norm, self.head = None, None, None
        self.embed = w.matrix(vocab, hidden)
        self.norm = w.ones(hidden)
        self.head = w.matrix(vocab, hidden)
        self.layers = []
        for _ in range(layers):
            n = [w.ones(hidden), w.ones(hidden)]
            q, k, v = w.matrix(hidden, hidden), w.matrix(kv_heads * d, hidden), w.matrix(kv_heads * d, hidden)
            out = w.matrix(hidden, hidden, True)
            gate, up, down = w.matrix(ffn, hidden), w.matrix(ffn, hidden), w.matrix(hidden, ffn, True)
            self.layers.append((n, q, k, v, out, gate, up, down))

    def logits(self, ids):
        x = self.embed[ids]
        for n, q, k, v, out, gate, up, down in self.layers:
            y = rms_norm(x, n[0])
            qs, ks, vs = rotate(split_heads(y @ q.T, self.heads)), rotate(split_heads(y @ k.T, self.kv_heads)), None
            vs = split_heads(y @ v.T, self.kv_heads)
            repeat = self.heads // self.kv_heads
            x = x + join_heads(attention(qs, ks.repeat_interleave(repeat, 1), vs.repeat_interleave(repeat, 1))) @ out.T
            y = rms_norm(x, n[1])
            x = x + (torch.nn.functional.silu(y @ gate.T) * (y @ up.T)) @ down.T
        return rms_norm(x, self.norm) @ self.head.T


def train(model, batch=8, seq=40, lr=1e-3, clip=1.0, warmup=4):
    w = model.w
    groups = [{"params": [p for p, d in zip(w.list, w.decay) if d], "weight_decay": 0.1},
              {"params": [p for p, d in zip(w.list, w.decay) if not d], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8)
    for step in range(STEPS):
        rate = lr * (step + 1) / warmup
        if step >= warmup:
            rate = 0.1 * lr + 0.9 * lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup)))
        for g in optimizer.param_groups:
            g["lr"] = rate
        tokens = torch.tensor([[token(step * batch + i, j, model.vocab) for j in range(seq + 1)] for i in range(batch)])
        optimizer.zero_grad()
        logits = model.logits(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, model.vocab), tokens[:, 1:].reshape(-1))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(w.list, clip)
        optimizer.step()
        print(f"{model.name},{step + 1},{loss.item():.12g},{float(norm):.12g}")
        sys.stdout.flush()


print("model,step,loss,grad_norm")
train(GPT2())
train(Llama())
