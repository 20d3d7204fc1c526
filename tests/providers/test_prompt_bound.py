"""What a prompt counts for at most: never less than tokenizers say, and not a multiple that makes budgets useless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.content import ImageBlock, TextBlock, ThinkingBlock
from runtree.messages.model import ModelRequest, ToolDefinition
from runtree.messages.transcript import AssistantMessage, ToolMessage, ToolResult, UserMessage
from runtree.providers.profile import ModelProfile
from runtree.providers.prompt_bound import after, most_tokens, most_tokens_of

PROFILE = ModelProfile(provider="acme", model="a-1", image_tokens=700, tools_overhead=300)

# The most of cl100k_base, o200k_base (gpt-tokenizer 4.0.0) and Claude's published tokenizer (anthropic 0.20.0).
COUNTED = [
    (
        "english",
        "The flag reaches model streams, tools, waits and children. What does not end within its grace is killed with its process, and the ledger keeps what it spent. Nobody is asked twice for the same thing.",
        42,
    ),
    ("german", "Die Donaudampfschifffahrtsgesellschaft befördert Reisende, deren Gepäck größer ist als üblich.", 36),
    ("russian", "Искусственный интеллект выполняет творческие функции, которые считаются прерогативой человека.", 46),
    ("chinese", "人工智能是计算机科学的一个分支，它企图了解智能的实质。", 30),  # noqa: RUF001 - the comma of Chinese
    ("japanese", "人工知能とは、計算という概念とコンピュータという道具を用いて知能を研究する分野である。", 46),
    ("korean", "인공지능은 인간의 학습능력, 추론능력, 지각능력을 구현하려는 분야이다.", 45),
    ("hindi", "कृत्रिम बुद्धिमत्ता मशीनों द्वारा प्रदर्शित बुद्धि है।", 65),
    ("arabic", "الذكاء الاصطناعي هو سلوك وخصائص معينة تتسم بها البرامج.", 50),
    ("thai", "ปัญญาประดิษฐ์ หมายถึง ความฉลาดเทียมที่สร้างขึ้น", 78),
    ("emoji", "😀🎉🚀❤️👩\u200d💻🇩🇪🥑🫠🧿😀🎉🚀", 41),
    (
        "python",
        'def tokens_of(size: int) -> int:\n    """Return the tokens."""\n    for index in range(10):\n        if index % 2 == 0:\n            total += sizes[index]\n    return -(-size // _BYTES_PER_TOKEN)\n',
        55,
    ),
    (
        "json",
        '[{"id":0,"name":"user0","score":0.0,"ok":true},{"id":1,"name":"user1","score":1.5,"ok":true},{"id":2,"name":"user2","score":3.0,"ok":true},{"id":3,"name":"user3","score":4.5,"ok":true}]',
        78,
    ),
    (
        "numbers",
        "-35.2334,-69.8302,30.1869,-85.5127\n7.1764,-26.8622,-88.4002,1.4871\n-92.5009,-13.2709,-86.0289,-81.8574\n-15.0962,65.3704,-75.2396,-55.3522\n25.4866,89.5418,15.4206,-20.6639",
        102,
    ),
    (
        "spaced digits",
        "3 0 8 2 4 6 2 8 1 9 4 8 2 1 9 9 3 5 1 8 1 9 0 9 3 7 8 6 5 7 9 7 5 4 3 2 3 1 9 4 8 7 5 7 4 9 1 1 8 6 2 5 2 7 6 0 1 8 9 5",
        119,
    ),
    (
        "lines",
        "a\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\n",
        120,
    ),
    (
        "base64",
        "QkISV4/g/rF7SqVZzZ8omEsUJn8bA3SU3RwBzGrfyXTRcpoR/iAI1zfo9RfWntbxgb0aRSmCXnlFWXGyGuEFqrLWoxALCIgPD0Ituzb7lLPLbUJPgTyqpbNI9JMLiTv+M49lrqWpadJwgxVyr0DbSFLrdLdPOsNiiBIV4x7TLKs9VtVYB6/GBTVYzvCSqTF2KbL/WgUr",
        144,
    ),
    (
        "hex",
        "3839659c78fdf91d0aaa627e00a3170ffb76dc37c1eaaac499239549cf701c21e66105bd83af633f509fdc659c471564d277b4eab08215df3c101b7fe7f9a0141afb962a02f2fd727628d2661118a88c1f772047597125e27e970d23d952bcd1b0aa366e",
        112,
    ),
    ("upper case", "THE FLAG REACHES MODEL STREAMS, TOOLS, WAITS AND CHILDREN.", 22),
    (
        "symbols",
        '<_[]/*&,*//!~,;=!*_\\?)$|^^^^\'}^$-%.{+(@$\'!*\'\\"%.]*;[\\}((~|}}>&*\'@;}+".\\*">&;\\+[/@/-:^/-~[""<};-[{[\\&/\'/}-@.}!}[&(]-},`@&^|^&++)"*|*}[*)"!\')`-.";.=:?;_',
        97,
    ),
    ("url", "https://ex42.example.com/a/9f86d081884c?q=dGhlIGZsYWc=&utm_source=newsletter", 35),
]


@pytest.mark.parametrize("kind, text, counted", COUNTED, ids=[row[0] for row in COUNTED])
def test_the_bound_holds_and_is_near(kind: str, text: str, counted: int) -> None:
    frame = most_tokens_of((UserMessage.of(""),), PROFILE)
    bound = most_tokens_of((UserMessage.of(text),), PROFILE) - frame
    assert counted <= bound <= 4.5 * counted, (kind, bound / counted)


@given(st.lists(st.text(max_size=40), max_size=4), st.text(max_size=40))
def test_more_text_never_counts_for_less(texts: list[str], more: str) -> None:
    messages = [UserMessage.of(text) for text in texts]
    assert most_tokens_of([*messages, UserMessage.of(more)], PROFILE) > most_tokens_of(messages, PROFILE)
    request = ModelRequest(messages=tuple(messages), instructions=more)
    assert most_tokens(request, PROFILE) > most_tokens_of(messages, PROFILE)


def test_everything_that_is_sent_counts() -> None:
    user = UserMessage(content=(TextBlock(text="look"),))
    plain = most_tokens(ModelRequest(messages=(user,)), PROFILE)
    image = UserMessage(content=(TextBlock(text="look"), ImageBlock(data="QUJD" * 1000, media_type="image/png")))
    assert most_tokens(ModelRequest(messages=(image,)), PROFILE) == plain + 700
    tools = (ToolDefinition(name="search", description="Search.", parameters={"type": "object"}),)
    assert most_tokens(ModelRequest(messages=(user,), tools=tools), PROFILE) > plain + 300
    thought = AssistantMessage(content=(ThinkingBlock(text="hm", signature="QUJD" * 50), TextBlock(text="it is")))
    assert most_tokens(ModelRequest(messages=(user, thought)), PROFILE) > plain + 100
    result = ToolMessage(
        results=(ToolResult(call_id="c", tool_name="t", outcome="ok", content=(TextBlock(text="1" * 500),)),)
    )
    assert most_tokens(ModelRequest(messages=(user, result)), PROFILE) > plain + 500


def test_what_a_provider_has_counted_is_known() -> None:
    answer, rest = AssistantMessage(content=(TextBlock(text="it is"),)), (UserMessage.of("and then?"),)
    bound = after(1000, 20, answer, rest, PROFILE)
    assert 1020 < bound < 1100
    replaced = AssistantMessage(content=(TextBlock(text="something much longer that a hook has put there" * 50),))
    assert after(1000, 20, replaced, rest, PROFILE) > bound + 1000
