// gpt.py: the model and the text that the printed programs train, so that they run as they are.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/support/json/document.hpp"
#include "tools/train/explain_parts.hpp"

namespace lockstep::train {

namespace {

// Linear layers that tensor parallelism can shard by columns and rows, and nothing that needs to know of it.
constexpr const char* kGpt = R"py(
positions = torch.arange(SEQUENCE)  # a program moves them to its device


def norm():
    return nn.RMSNorm(WIDTH, eps=1e-5) if RMS_NORM else nn.LayerNorm(WIDTH)


def rotated(x):  # x: batch, heads, positions, size of a head
    half = x.shape[-1] // 2
    angles = positions[:, None] * ROPE_BASE ** (-torch.arange(half, device=x.device) / half)
    cos, sin, a, b = angles.cos().to(x.dtype), angles.sin().to(x.dtype), x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.q = nn.Linear(WIDTH, WIDTH, bias=BIAS)
        self.k = nn.Linear(WIDTH, KEY_HEADS * size, bias=BIAS)
        self.v = nn.Linear(WIDTH, KEY_HEADS * size, bias=BIAS)
        self.projection = nn.Linear(WIDTH, WIDTH, bias=BIAS)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if ROPE_BASE:
            q, k = rotated(q), rotated(k)
        sums = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=KEY_HEADS < HEADS)
        return self.projection(sums.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, MLP_WIDTH, bias=BIAS) if SWIGLU else None
        self.up = nn.Linear(WIDTH, MLP_WIDTH, bias=BIAS)
        self.down = nn.Linear(MLP_WIDTH, WIDTH, bias=BIAS)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x) if SWIGLU else F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2, self.mlp = norm(), Attention(), norm(), Mlp()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = None if ROPE_BASE else nn.Embedding(CONTEXT, WIDTH)

    def forward(self, tokens):
        x = self.token(tokens)
        return x if ROPE_BASE else x + self.position(positions)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        return self.linear(self.norm(x))


def initialise(module):
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            into_sum = "projection" in name or "down" in name  # what is added to the residual stream
            nn.init.normal_(parameter, std=0.02 / (2 * LAYERS) ** 0.5 if into_sum else 0.02)


def seeded(place, kind):  # the same values on every rank, and in every part of a pipeline
    torch.manual_seed(1000003 * SEED + place)
    module = kind()
    initialise(module)
    return module


class Model(nn.Module):
    """Blocks first ... last - 1, the embedding before block 0 and the head after the last: all, or a pipeline's part."""

    def __init__(self, first=0, last=LAYERS):
        super().__init__()
        self.embedding = seeded(0, Embedding) if first == 0 else None
        self.blocks = nn.ModuleDict({str(i): seeded(1 + i, Block) for i in range(first, last)})
        self.head = seeded(1 + LAYERS, Head) if last == LAYERS else None
        if TIED and self.embedding and self.head:
            self.head.linear.weight = self.embedding.token.weight

    def forward(self, x):
        if self.embedding:
            x = self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        return self.head(x) if self.head else x


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def groups_of(model):  # norms and biases do not decay
    return [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}]


def factor(step):  # of the learning rate
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.55 + 0.45 * math.cos(math.pi * min(1, (step - WARMUP) / max(1, STEPS - WARMUP)))


class Text(torch.utils.data.Dataset):
    """The bytes of a file as tokens, in windows of SEQUENCE."""

    def __init__(self):
        with open(os.environ.get("TEXT", TEXT), "rb") as file:
            self.tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)

    def __len__(self):
        return (len(self.tokens) - 1) // SEQUENCE

    def __getitem__(self, i):
        window = self.tokens[i * SEQUENCE : (i + 1) * SEQUENCE + 1].long()
        return window[:-1], window[1:]


def batches(loader, sampler, first):  # from batch `first` on: each epoch in another order
    def all_batches():
        for epoch in itertools.count():
            sampler.set_epoch(epoch)
            count = 0
            for batch in loader:
                count += 1
                yield batch
            if count == 0:
                raise ValueError("the text is too short for one batch")

    return itertools.islice(all_batches(), first, None)
)py";

const char* python_truth(bool so) { return so ? "True" : "False"; }

}  // namespace

std::string text_file(const TrainPlan& plan) {
  return plan.request.data.empty() ? "data/austen.txt" : plan.request.data;
}

Explanation::File gpt_file(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const GptConfig& m = f.o.model;
  const Architecture& a = m.architecture;
  std::string text =
      "# The model and the text: put your own here.\n"
      "import itertools\nimport math\nimport os\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import "
      "nn\n\n";
  text +=
      fmt::format("TEXT = {}  # or what the variable TEXT says\n", Json::of(std::string_view(text_file(plan))).dump());
  text += fmt::format("LAYERS, HEADS, KEY_HEADS, WIDTH, MLP_WIDTH = {}, {}, {}, {}, {}\n", m.layers, m.heads,
                      a.key_value_heads(m.heads), m.d_model, m.mlp_width());
  text +=
      fmt::format("VOCABULARY, CONTEXT, SEQUENCE, TIED = {}, {}, {}, {}\n", std::max<std::size_t>(256, m.vocabulary),
                  std::max(m.context, f.o.sequence), f.o.sequence, python_truth(m.tied_head && f.o.mesh.pp == 1));
  text += fmt::format("RMS_NORM, SWIGLU, BIAS, ROPE_BASE = {}, {}, {}, {:g}\n",
                      python_truth(a.norm == NormKind::rms_norm), python_truth(a.mlp == MlpKind::swiglu),
                      python_truth(a.biases), a.positions == PositionKind::rotary ? a.rope_base : 0);
  text += fmt::format("STEPS, WARMUP, WEIGHT_DECAY, SEED = {}, {}, {:g}, {}\n", f.r.steps, f.r.warmup, f.weight_decay,
                      f.o.seed);
  return {"gpt.py", text + kGpt};
}

std::string optimizer_call(const Facts& f, const char* parameters) {
  return f.adamw
             ? fmt::format("torch.optim.AdamW({}, lr={}, betas=(0.9, 0.95), eps=1e-8", parameters, f.r.learning_rate)
             : fmt::format("torch.optim.SGD({}, lr={}, momentum=0.9", parameters, f.r.learning_rate);
}

std::string place_lines() {
  return "kind = \"cuda\" if torch.cuda.is_available() else \"cpu\"\n"
         "device = torch.device(f\"cuda:{os.environ['LOCAL_RANK']}\" if kind == \"cuda\" else \"cpu\")\n"
         "if kind == \"cuda\":\n"
         "    torch.cuda.set_device(device)\n";
}

}  // namespace lockstep::train
