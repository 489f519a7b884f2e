"""Makes a deterministic llama-architecture GGUF: weights set by hand, no training, no download.

usage: make_model.py TEMPLATE.jinja OUT.gguf

What it says under a real llama.cpp server:
  * last turn is a user turn and the request carries tools -> one tool call (argument text chosen by the grammar)
  * last turn is a tool result                                -> fixed sentence, stop
  * user text contains the word  pleasecmd                    -> 'CMD: uname -s' on its own line, stop
  * user text contains           which system                -> the same, if the system message says how commands are proposed
  * user text contains           pleaselong                   -> words without end (finish_reason length / cancel tests)
  * otherwise                                                 -> fixed sentence, stop
How: one-hot embeddings; a next-token table in the output matrix; head 0 attends to the most recent 'trigger' token
(recency comes from a slowly rotating rope pair), head 1 attends to the tools marker; the result opens one of several first tokens."""
import sys, numpy as np, gguf
template, out = sys.argv[1:3]
T = gguf.TokenType
toks, types = [], []
def add(t, ty=T.NORMAL): toks.append(t); types.append(ty); return len(toks) - 1
add("<unk>", T.UNKNOWN); add("<s>", T.CONTROL); add("</s>", T.CONTROL)
BYTE = [add(f"<0x{b:02X}>", T.BYTE) for b in range(256)]
IMS, IME = add("<|im_start|>", T.CONTROL), add("<|im_end|>", T.CONTROL)
U = lambda s: add(s, T.USER_DEFINED)
USER, TOOLS, RESP = U("<|im_user|>"), U("<|im_tools|>"), U("<|im_result|>")
TC, TCE, HEAD = U("<tool_call>"), U("</tool_call>"), U('{"name": "')
CMD, LONG = U("pleasecmd"), U("pleaselong")
GEN = U("<|im_gen|>"); OKQ = U('ok"')
plain = [U(s) for s in ["Hello", " from", " the", " scripted", " local", " model", ":", " one", " two", " three", " four", " five", " six", " seven", " eight", " nine", " ten", "."]]
after = [U(s) for s in ["The tool", " answered", " and", " I", " read", " its", " result", "!"]]
cmd = [U(s) for s in ["Let me", " look", ".\n", "CMD: ", "uname", " -s"]]
loop = [U(s) for s in [" tick", " tock", " click", " clack"]]
V = len(toks); D = V                       # extra dims start here
C, SU, SR, SC, SL, ST, OU, OR, OC, OL, OT = range(D, D + 11)
HD = 64; E = ((D + 11 + HD - 1) // HD) * HD; NH = E // HD; CTX = 8192
f = lambda *s: np.zeros(s, np.float32)
emb = f(V, E)
for i in range(V): emb[i, i] = 1.0; emb[i, C] = 1.0
trig = {USER: SU, RESP: SR, CMD: SC, LONG: SL, TOOLS: ST}
for t, d in trig.items(): emb[t, d] = 1.0
wq, wk, wv, wo = f(E, E), f(E, E), f(E, E), f(E, E)
# rope: pair j of a head turns by base**(-2j/HD) per position. pair 31 with base 1e9 does not turn; pair P is slow.
BASE = 1e9
P = 13                                      # theta = 1e9**(-26/64) = 2.2e-4 rad a token
h0, h1 = 0, HD
NO = 62                                     # dims of pair 31: no rotation
nz = (E / 3.0) ** 0.5                       # rms-norm factor of a trigger token (three ones)
nq = (E / 2.0) ** 0.5                       # of the last token (two ones: itself and C)
SLOPE, K0 = 2.0, 16000.0                     # score lost per token of distance; score at distance 0
A = SLOPE / 2.2e-4
s8 = HD ** 0.5
wq[h0 + NO, C] = s8 / nq; wq[h0 + 2 * P, C] = s8 / nq
for d in (SU, SR, SC, SL):
    wk[h0 + NO, d] = (K0 + (6 * SLOPE if d in (SC, SL) else 0)) / nz   # a keyword outranks the user marker before it
    wk[h0 + 2 * P + 1, d] = -A / nz     # phase a quarter turn away: score falls with distance, first order
    wv[h0 + {SU: 0, SR: 1, SC: 2, SL: 3}[d], d] = 1 / nz
wq[h1 + NO, C] = 1 / nq; wk[h1 + NO, ST] = 400.0 * s8 / nz; wv[h1, ST] = 1 / nz
for src, dst in ((h0, OU), (h0 + 1, OR), (h0 + 2, OC), (h0 + 3, OL), (h1, OT)): wo[dst, src] = 1.0
W = f(V, E)
def chain(seq, end=IME):
    for a, b in zip(seq, seq[1:] + [end]): W[b, a] += 10
chain(plain); chain(after); chain(cmd); chain(loop, loop[0])
W[HEAD, TC] += 10; W[IME, TCE] += 10
G = GEN
W[plain[0], G] += 20; W[plain[0], C] -= 10
for first, o in ((after[0], OR), (cmd[0], OC), (loop[0], OL)): W[first, G] += 20; W[first, o] += 20; W[first, C] -= 25
W[TC, G] += 20; W[TC, OU] += 20; W[TC, OT] += 20; W[TC, C] -= 45
# inside grammar-forced JSON: close strings and objects as soon as the grammar allows
W[BYTE[ord('"')], C] += 4; W[BYTE[ord('}')], C] += 3; W[BYTE[ord(']')], C] += 2.5; W[OKQ, BYTE[ord('"')]] += 10; W[TCE, C] += 1
# ties: no optional white space; the tool whose name sorts first; the enum value that sorts first
for b in (32, 10, 9, 13): W[BYTE[b], C] -= 12
for b in range(ord('a'), ord('z') + 1): W[BYTE[b], C] -= 0.3 * (b - ord('a'))
W[BYTE[ord('-')], C] -= 2
L = 1; F = 64
w = gguf.GGUFWriter(out, "llama")
w.add_name("scripted-tiny"); w.add_context_length(CTX); w.add_embedding_length(E); w.add_block_count(L); w.add_feed_forward_length(F)
w.add_head_count(NH); w.add_head_count_kv(NH); w.add_layer_norm_rms_eps(1e-6); w.add_rope_dimension_count(HD); w.add_rope_freq_base(BASE)
w.add_vocab_size(V); w.add_file_type(0); w.add_tokenizer_model("llama"); w.add_token_list(toks); w.add_token_scores([0.0] * V); w.add_token_types(types)
w.add_bos_token_id(1); w.add_eos_token_id(IME); w.add_unk_token_id(0); w.add_add_bos_token(True); w.add_add_eos_token(False); w.add_add_space_prefix(False)
w.add_chat_template(open(template).read())
w.add_tensor("token_embd.weight", emb); w.add_tensor("output_norm.weight", np.ones(E, np.float32)); w.add_tensor("output.weight", W)
p = "blk.0."
w.add_tensor(p + "attn_norm.weight", np.ones(E, np.float32)); w.add_tensor(p + "ffn_norm.weight", np.ones(E, np.float32))
for n, m in (("attn_q", wq), ("attn_k", wk), ("attn_v", wv), ("attn_output", wo)): w.add_tensor(p + n + ".weight", m)
w.add_tensor(p + "ffn_gate.weight", f(F, E)); w.add_tensor(p + "ffn_up.weight", f(F, E)); w.add_tensor(p + "ffn_down.weight", f(E, F))
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
import os; print(out, os.path.getsize(out), "bytes; vocab", V, "embd", E, "heads", NH)
