"""The models behind model strings such as `deepseek:NAME`: `OpenAIChat` with the profile of a known server."""

from functools import partial

from . import dialects
from .model import OpenAIChat

azure = partial(OpenAIChat, profile=dialects.AZURE)
cerebras = partial(OpenAIChat, profile=dialects.CEREBRAS)
databricks = partial(OpenAIChat, profile=dialects.DATABRICKS)
deepseek = partial(OpenAIChat, profile=dialects.DEEPSEEK)
fireworks = partial(OpenAIChat, profile=dialects.FIREWORKS)
gemini = partial(OpenAIChat, profile=dialects.GEMINI)
groq = partial(OpenAIChat, profile=dialects.GROQ)
hugging_face = partial(OpenAIChat, profile=dialects.HUGGING_FACE)
llama_cpp = partial(OpenAIChat, profile=dialects.LLAMA_CPP)
mistral = partial(OpenAIChat, profile=dialects.MISTRAL)
moonshot = partial(OpenAIChat, profile=dialects.MOONSHOT)
ollama = partial(OpenAIChat, profile=dialects.OLLAMA)
openrouter = partial(OpenAIChat, profile=dialects.OPENROUTER)
qwen = partial(OpenAIChat, profile=dialects.QWEN)
sglang = partial(OpenAIChat, profile=dialects.SGLANG)
together = partial(OpenAIChat, profile=dialects.TOGETHER)
vercel = partial(OpenAIChat, profile=dialects.VERCEL)
vllm = partial(OpenAIChat, profile=dialects.VLLM)
xai = partial(OpenAIChat, profile=dialects.XAI)
zai = partial(OpenAIChat, profile=dialects.ZAI)
