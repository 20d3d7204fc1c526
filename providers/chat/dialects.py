"""Profiles of known servers that speak the chat completions protocol.

Facts are those that the servers document or were seen to do; rules for single models age and are meant to be changed here.
"""
# ruff: noqa: S106 (the names of keys are none)

from ..call_ids import CallIdRule
from .profile import ChatProfile, ModelRule

OPENAI_URL = "https://api.openai.com/v1"
"""Where OpenAI is."""

_OPENAI_REASONING = r"^(o\d|gpt-5(?!.*-chat)|codex)"

OPENAI = ChatProfile(
    provider="openai",
    base_url=OPENAI_URL,
    secret_name="OPENAI_API_KEY",
    key_required=True,
    system_role="developer",
    max_tokens_field="max_completion_tokens",
    native_output_schema=True,
    call_ids=CallIdRule(max_length=40),
    rules=(
        ModelRule(models=_OPENAI_REASONING, changes={"thinks": True}),
        ModelRule(models=_OPENAI_REASONING, thinking=True, changes={"refused": {"temperature", "top_p", "stop"}}),
    ),
)
"""OpenAI's own. No reasoning comes or goes here, only its count; `openai:` speaks the Responses protocol, which has it."""

DEEPSEEK = ChatProfile(
    provider="deepseek",
    base_url="https://api.deepseek.com/v1",
    secret_name="DEEPSEEK_API_KEY",
    key_required=True,
    images=False,
    silence=660.0,
    thinks=True,
    effort_words={"minimal": "low", "medium": "high", "xhigh": "high", "ultra": "max"},
    thinking_on={"thinking": {"type": "enabled"}},
    thinking_off={"thinking": {"type": "disabled"}},
    reasoning_replay="reasoning_content",
    replay_turns="tool_calls",
    replay_placeholder="",
    rules=(ModelRule(thinking=True, changes={"tool_choices": {"required": None}}),),
)
"""DeepSeek. A turn with tools without the key `reasoning_content` is refused for good, also if it would be empty. Queues for minutes."""

AZURE = ChatProfile(
    provider="azure",
    base_url_variable="AZURE_OPENAI_ENDPOINT",
    base_path="/openai/v1",
    secret_name="AZURE_OPENAI_API_KEY",
    key_required=True,
    key_header="api-key",
    max_tokens_field="max_completion_tokens",
    native_output_schema=True,
    call_ids=CallIdRule(max_length=40),
    rules=(
        *OPENAI.rules,
        ModelRule(models=_OPENAI_REASONING, changes={"system_role": "developer"}),
        ModelRule(
            models=r"(?i)deepseek",
            changes={
                "max_tokens_field": "max_tokens",
                "reasoning_replay": "reasoning_content",
                "replay_turns": "tool_calls",
                "replay_placeholder": "",
            },
        ),
        ModelRule(models=r"(?i)grok", changes={"max_tokens_field": "max_tokens", "usage_counts": "beside"}),
    ),
)
"""Azure, by its `/openai/v1` addresses; the model is the name of a deployment.

An address of one deployment (`…/openai/deployments/NAME`) is given as `base_url`, with `params={"api-version": "…"}` in the profile.
"""

OPENROUTER = ChatProfile(
    provider="openrouter",
    base_url="https://openrouter.ai/api/v1",
    secret_name="OPENROUTER_API_KEY",
    key_required=True,
    effort_field="reasoning.effort",
    budget_field="reasoning.max_tokens",
    reasoning_replay="reasoning_details",
    replay_shape="details",
    plain_replay="reasoning",
)
"""OpenRouter. Signatures and encrypted reasoning of whatever stands behind it are checked as natively."""

VERCEL = OPENROUTER.model_copy(
    update={
        "provider": "vercel",
        "base_url": "https://ai-gateway.vercel.sh/v1",
        "secret_name": "AI_GATEWAY_API_KEY",
    }
)
"""Vercel's gateway, which speaks of reasoning as OpenRouter does."""

GROQ = ChatProfile(
    provider="groq",
    base_url="https://api.groq.com/openai/v1",
    secret_name="GROQ_API_KEY",
    key_required=True,
    max_tokens_field="max_completion_tokens",
    rules=(ModelRule(models=r"qwen3|qwq|deepseek-r1", changes={"extra_body": {"reasoning_format": "parsed"}}),),
)
"""Groq. Reasoning in a history is an unsupported property."""

TOGETHER = ChatProfile(
    provider="together",
    base_url="https://api.together.xyz/v1",
    secret_name="TOGETHER_API_KEY",
    key_required=True,
)
"""Together."""

CEREBRAS = ChatProfile(
    provider="cerebras",
    base_url="https://api.cerebras.ai/v1",
    secret_name="CEREBRAS_API_KEY",
    key_required=True,
    max_tokens_field="max_completion_tokens",
    reasoning_replay="reasoning",
)
"""Cerebras. It takes `reasoning` back and refuses `reasoning_content`."""

FIREWORKS = ChatProfile(
    provider="fireworks",
    base_url="https://api.fireworks.ai/inference/v1",
    secret_name="FIREWORKS_API_KEY",
    key_required=True,
)
"""Fireworks."""

HUGGING_FACE = ChatProfile(
    provider="huggingface",
    base_url="https://router.huggingface.co/v1",
    secret_name="HF_TOKEN",
    key_required=True,
)
"""Hugging Face's router."""

MISTRAL = ChatProfile(
    provider="mistral",
    base_url="https://api.mistral.ai/v1",
    secret_name="MISTRAL_API_KEY",
    key_required=True,
    include_usage=False,
    renamed={"seed": "random_seed"},
    tool_choices={"required": "any"},
    call_ids=CallIdRule(max_length=9, exact=True, characters="a-zA-Z0-9"),
    reasoning_replay="content",
    replay_shape="thinking_parts",
    empty_answers=False,
    user_after_tools=False,
)
"""Mistral. Unknown fields are refused, usage comes unasked, and after the results of tools only the assistant may speak."""

GEMINI = ChatProfile(
    provider="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    secret_name="GEMINI_API_KEY",
    key_required=True,
    budget_field="extra_body.google.thinking_config.thinking_budget",
    foreign_call_extras={"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}},
    think_tags=True,
    think_tag_names=("thought",),
    usage_counts="total",
)
"""Google's Gemini behind its compatible address. Calls without their signature are refused; those of others have a documented dummy."""

QWEN = ChatProfile(
    provider="qwen",
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    base_url_variable="DASHSCOPE_BASE_URL",
    secret_name="DASHSCOPE_API_KEY",
    key_required=True,
    effort_field=None,
    budget_field="thinking_budget",
    thinking_on={"enable_thinking": True},
    thinking_off={"enable_thinking": False},
    rules=(
        ModelRule(thinking=True, changes={"tool_choices": {"required": None}}),
        ModelRule(
            models=r"^qwen3-\d+b",
            streaming=False,
            changes={"extra_body": {"enable_thinking": False}, "thinking_on": {}, "budget_field": None},
        ),
    ),
)
"""Qwen at DashScope, outside of China by default. Open models think in streams only."""

_KIMI_THINKING = r"kimi-(k2\.[5-9]|k[3-9]|.*thinking|for-coding)"

MOONSHOT = ChatProfile(
    provider="moonshot",
    base_url="https://api.moonshot.ai/v1",
    base_url_variable="MOONSHOT_BASE_URL",
    secret_name="MOONSHOT_API_KEY",
    key_required=True,
    effort_field=None,
    thinking_on={"thinking": {"type": "enabled"}},
    thinking_off={"thinking": {"type": "disabled"}},
    reasoning_replay="reasoning_content",
    empty_content="absent",
    empty_answers=False,
    rules=(
        ModelRule(models=r"^kimi", changes={"refused": {"temperature", "top_p"}, "replay_placeholder": ""}),
        ModelRule(models=_KIMI_THINKING, changes={"thinks": True}),
        ModelRule(
            models=r"^kimi-k3",
            changes={"effort_field": "reasoning_effort", "thinking_on": {}, "thinking_off": {}},
        ),
        ModelRule(models=r"^kimi", thinking=True, changes={"tool_choices": {"required": None}}),
    ),
)
"""Moonshot. Kimi wants `reasoning_content` with every answer of a history, fixes the sampling itself, and refuses empty text."""

ZAI = ChatProfile(
    provider="zai",
    base_url="https://api.z.ai/api/paas/v4",
    secret_name="ZAI_API_KEY",
    key_required=True,
    effort_field=None,
    tool_choices={"required": None, "none": None},
    thinking_on={"thinking": {"type": "enabled", "clear_thinking": False}},
    thinking_off={"thinking": {"type": "disabled"}},
    reasoning_replay="reasoning_content",
)
"""GLM at z.ai. The only tool choice is `auto`."""

XAI = ChatProfile(
    provider="xai",
    base_url="https://api.x.ai/v1",
    secret_name="XAI_API_KEY",
    key_required=True,
    reasoning_replay="reasoning_content",
    usage_counts="beside",
    rules=(ModelRule(models=r"grok-(3-mini|[4-9]|code)(?!.*non-reasoning)", changes={"refused": {"stop"}}),),
)
"""xAI. The completion is counted without the reasoning."""

DATABRICKS = ChatProfile(
    provider="databricks",
    base_url_variable="DATABRICKS_HOST",
    base_path="/serving-endpoints",
    secret_name="DATABRICKS_TOKEN",
    key_required=True,
    include_usage=False,
    reasoning_replay="content",
    replay_shape="summary_parts",
)
"""Models served by Databricks; reasoning is a part of the content with a signed summary."""

VLLM = ChatProfile(
    provider="vllm",
    base_url="http://localhost:8000/v1",
    base_url_variable="VLLM_BASE_URL",
    secret_name="VLLM_API_KEY",
    reasoning_replay="reasoning",
)
"""vLLM. Versions before 0.16 want `reasoning_replay="reasoning_content"`; without a reasoning parser `think_tags` is needed."""

SGLANG = ChatProfile(
    provider="sglang",
    base_url="http://localhost:30000/v1",
    base_url_variable="SGLANG_BASE_URL",
    secret_name="SGLANG_API_KEY",
    reasoning_replay="reasoning_content",
)
"""SGLang."""

OLLAMA = ChatProfile(
    provider="ollama",
    base_url="http://localhost:11434/v1",
    base_url_variable="OLLAMA_BASE_URL",
    secret_name="OLLAMA_API_KEY",
    reasoning_replay="reasoning",
    empty_content="text",
)
"""Ollama."""

LLAMA_CPP = ChatProfile(
    provider="llama.cpp",
    base_url="http://localhost:8080/v1",
    base_url_variable="LLAMA_CPP_BASE_URL",
    secret_name="LLAMA_API_KEY",
    native_output_schema=True,
    reasoning_replay="reasoning_content",
)
"""The server of llama.cpp."""

GENERIC = ChatProfile(
    provider="openai-compatible",
    base_url_variable="OPENAI_BASE_URL",
    secret_name="OPENAI_API_KEY",
    signature_field="reasoning_opaque",
)
"""Any other server: takes what comes and sends nothing that only some accept."""

DIALECTS: tuple[ChatProfile, ...] = (
    OPENAI,
    AZURE,
    DEEPSEEK,
    OPENROUTER,
    VERCEL,
    GROQ,
    TOGETHER,
    CEREBRAS,
    FIREWORKS,
    HUGGING_FACE,
    MISTRAL,
    GEMINI,
    QWEN,
    MOONSHOT,
    ZAI,
    XAI,
    DATABRICKS,
    VLLM,
    SGLANG,
    OLLAMA,
    LLAMA_CPP,
    GENERIC,
)
"""Every profile above."""
