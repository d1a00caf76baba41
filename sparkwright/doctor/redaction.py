"""Text that may go into a public issue: without what tells who, where, or how to get in."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import IPv6Address

# The hosts that images, models and packages come from.
_PUBLIC = (
    r"(?:[\w-]{1,63}\.)*(?:huggingface\.co|hf\.co|github\.com|githubusercontent\.com|ghcr\.io|"
    r"docker\.(?:io|com)|nvcr\.io|nvidia\.com|pypi\.org|pythonhosted\.org|pytorch\.org|vllm\.ai|"
    r"ubuntu\.com|debian\.org|pydantic\.dev)"
)
# What this module writes in the place of names: it is not a name itself.
_OURS = r"(?:spark|replica)\d+\b|\[(?:::|address|host|user)|localhost\b|127\.|0\.0\.0\.0"
# Domains of local networks, and the usual ones of all others. `.service` and `.py` are none.
_DOMAINS = (
    "ai|app|arpa|at|ch|cloud|cn|co|com|corp|de|dev|edu|eu|example|fr|gov|home|int|internal|"
    "intranet|invalid|io|jp|kr|lan|local|localdomain|mil|net|nl|org|private|ru|test|tw|uk|us"
)
_SECRET = r"(?:api[_-]?key|password|passwd|passphrase|secret|credentials?|token(?!s|iz|_ids?\b))"
_NUMBERS = r"(?!['\"]?(?:-?[\d.]+|none|null|true|false)\b)"

Replacement = str | Callable[["re.Match[str]"], str]


def _ipv6(found: "re.Match[str]") -> str:
    """Replace an IPv6 address, which a number and a colon may precede."""
    text = found[0] if found[0].endswith("::") else found[0].rstrip(".:")
    for start in (0, *(colon.end() for colon in re.finditer(":", text))):
        with suppress(ValueError):
            address = IPv6Address(text[start:])
            kept = address.is_loopback or address.is_unspecified
            return found[0] if kept else f"{text[:start]}[address]{found[0][len(text) :]}"
    return found[0]


def _random(found: "re.Match[str]") -> str:
    """Replace a long word that nobody has made up: several runs of digits among both cases."""
    text = found[0]
    mixed = re.search("[a-z]", text) and re.search("[A-Z]", text)
    return "[secret]" if mixed and len(re.findall(r"\d+", text)) >= 5 else text


def _rules(*rules: tuple[str, Replacement]) -> tuple[tuple["re.Pattern[str]", Replacement], ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules)


# Repetitions are bounded: a hostile line must not take long.
_BEFORE = _rules(
    # vLLM logs requests where a recipe asks for it; errors of its parsers quote them.
    (
        r"(?im)^.*(?:\breceived request\b|\bprompt['\"]?\s?[:=]|prompt_token_ids|"
        r"['\"](?:messages|content|text|input)['\"]\s?:).*$",
        "(left out: this line may quote a request)",
    ),
    (r"(?s)-----BEGIN [^\n]{1,80}.*?(?:-----END [^\n]{1,80}|\Z)", "[key]"),
    (r"\b(ssh-[\w-]{2,40}|ecdsa-sha2-[\w-]{2,40}|sk-ssh-\S{2,60}) AAAA\S+(?: \S+)?", r"\1 [key]"),
    (r"\bSHA256:[A-Za-z0-9+/]{43}", "[fingerprint]"),
    (
        r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(['\"]?\s?[:=]).*",
        r"\1\2 [secret]",
    ),
    (r"(?i)\b(bearer|basic)\s+(?!\[)[\w.~+/=-]{6,}", r"\1 [secret]"),
    (
        rf"(?i)({_SECRET}[\w-]{{0,20}}['\"]?\s{{0,3}}[:=]\s{{0,3}}){_NUMBERS}"
        r"(?:'[^']*'|\"[^\"]*\"|[^\s,;)}\]]+)",
        r"\1[secret]",
    ),
    (
        r"\bhf_(?!(?:endpoint|transfer|overrides|config|hub|home|token)\b)[A-Za-z0-9]{4,}",
        "[secret]",
    ),
    (r"\b(?:sk|nvapi|glpat|xox[abp])-[\w-]{8,}", "[secret]"),
    (r"\b(?:gh[opsru]_|github_pat_)\w{8,}|\bAKIA[0-9A-Z]{12,}", "[secret]"),
    (r"\beyJ[\w-]{8,}(?:\.[\w-]*){0,2}", "[secret]"),
    (r"(\b[a-z][a-z0-9+]{1,9}://)[^/\s@]{1,200}@", r"\1[user]@"),
    (
        r"[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,8}(?!(?:service|socket|timer|json)\b)[A-Za-z]{2,24}\b",
        "[email]",
    ),
)
_AFTER = _rules(
    (
        rf"(?i)\b((?:https?|wss?|tcp|ssh|git|s3|nfs|smb)://)(?!{_PUBLIC}(?!\.?[\w-])|{_OURS})"
        r"(?:\[[^\]\s]{1,60}\]|[\w.-]{1,253})",
        r"\1[host]",
    ),
    (
        r"(?i)\b((?:host|hostname|server|peer)['\"]?\s?[:=]\s?)(['\"])"
        r"(?!127\.|0\.0\.0\.0|localhost['\"]|::|spark\d+['\"])[^'\"]{1,253}\2",
        r"\1\2[host]\2",
    ),
    (
        rf"(?i)(?<![\w./@-])(?!{_PUBLIC}(?!\.?[\w-]))(?:[\w-]{{1,63}}\.){{1,8}}(?:{_DOMAINS})\b"
        r"(?![\w(]|\.\w)",
        "[host]",
    ),
    (r"(?i)(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])", "[uuid]"),
    (r"(?i)(?<![0-9a-f:-])(?:[0-9a-f]{2}[:-]){5,19}[0-9a-f]{2}(?![0-9a-f:])", "[mac]"),
    (r"(?i)(?<![0-9a-f:])(?:[0-9a-f]{4}:){3}[0-9a-f]{4}(?![0-9a-f:])", "[mac]"),
    (r"(?<![\w.])[0-9A-Fa-f:.]{2,60}(?:%\w{1,16})?(?![\w:])", _ipv6),
    (r"[\w.-]{1,32}@(?=\d{1,3}(?:\.\d{1,3}){3}|spark\d)", "[user]@"),
    (r"(?<![\w.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)", "[address]"),
    (r"((?:/home|/Users|/export/home|/run/media|/media)/)[^/\s:'\",;)]{1,64}", r"\1[user]"),
    (r"(?i)(\b[a-z]:\\+users\\+)[^\\\s:'\"]{1,64}", r"\1[user]"),
    (r"(?<![\w/])~[a-z_][\w-]{0,31}(?=/)", "~[user]"),
    (r"(?i)\b(user(?:name)?|login)(['\"]?\s?[:=]\s?)(['\"]?)[a-z_][\w.-]{0,31}", r"\1\2\3[user]"),
    (
        r"(?i)\b(serial(?:[ _-]?(?:number|no\.?))?|s/n)(['\"]?\s?[:=#]\s?)['\"]?[\w-]{3,64}['\"]?",
        r"\1\2[serial]",
    ),
    (r"(?i)(?<![\w@])(?<!sha256:)[0-9a-f]{32,}(?!\w)", "[hex]"),
    (r"(?<![\w/+-])[A-Za-z0-9_+/-]{24,}={0,2}", _random),
)


class Redactor:
    """Replaces what a public text must not contain.

    Args:
        names: words of this site, and what to write instead; the case of letters does not matter.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = {name.lower(): instead for name, instead in names.items()}
        # The longest first: a name may be the beginning of another one.
        longest = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._word = re.compile(rf"(?i)(?<!\w)(?:{'|'.join(longest)})(?!\w)") if longest else None

    def __call__(self, text: str) -> str:
        """Return the text without them; lines stay lines."""
        for pattern, replacement in _BEFORE:
            text = pattern.sub(replacement, text)
        if self._word:
            text = self._word.sub(lambda found: self._names[found[0].lower()], text)
        for pattern, replacement in _AFTER:
            text = pattern.sub(replacement, text)
        return text
