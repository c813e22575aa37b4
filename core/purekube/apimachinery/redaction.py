"""Patterns of secrets in text: the rules by which they are hidden (RES-7).

Guarantees
    Every rule takes time linear in the length of the text (RUN-11), since charts and tenants write the text. So within
    a run of letters a match can begin at one letter only: otherwise each letter would start a new search for the
    match's end.
Shape
    A rule is a pattern that ignores case. The hidden part of a match begins after the groups `head` and `open`, and
    ends before the group `close`, if the pattern has these groups. Rules are applied one after the other, each to the
    result of the one before.
"""

import re
from typing import Final

PLACEHOLDER: Final = "<set via externalSecret>"
"""The value that a user writes in place of a secret that External Secrets will insert."""

_WORDS: Final = (
    r"(?:password|passwd|passphrase|(?<!existing)(?<!existing[-_])secret|token"
    r"|(?:access|secret|api|private|account|signing|encryption)[-_]?key)"
)
# Words that mean other things too: `bypass`, `passed`. Inside a lower-case word they do not count.
_WEAK: Final = r"(?:(?<![a-z])pass|(?-i:(?<=[a-z])Pass)|(?<![a-z])pwd|credential)"

_SEPARATOR: Final = r"(?:=>|:=|[:=])"
_QUOTED: Final = r"(?P<open>\\*[\"']).*?(?P<close>(?<!\\)(?P=open)|\Z)"
_QUOTED_ITEM: Final = r"(?P<item>\\*[\"']).*?(?:(?<!\\)(?P=item)|\Z)"
_WORD: Final = r"(?:\S*[^\s,;)\]}]|[,;)\]}])"
"""The pattern of text up to white space, without the punctuation at its end."""
_BLOCK: Final = r"[|>][-+]?[ \t]*(?:\n[ \t]+[^\n]*)+"
_NEXT_LINE: Final = r"\n[ \t]+(?!-(?:\s|\Z)|[\[{]|\\*[\"']?[\w.-]+\\*[\"']?:(?:\s|\Z))\S[^\n]*"
_ITEMS: Final = r"(?:\n[ \t]*-[ \t]+(?!\\*[\"']?[\w.-]+\\*[\"']?:(?:\s|\Z))[^\n]+)+"

# The path of a problem may end in such a word; the message after it is no secret. Our messages begin like this.
_OUR_WORDS: Final = (
    r"(?:must (?:be|not|start|end|have|hold|equal|name|stand|give|say) |is (?:required|immutable|there|nested|empty)\b"
    r"|is (?:not (?:text|JSON|a finite number)|an integer of)\b|has a name that\b"
    r"|holds secret material\b|unknown (?:field|key)\b|cannot be )"
)
# `kubectl create secret … --from-file=token=./token`: kubectl accepts only a path there.
_FROM_FILE: Final = r"(?<=--from-file=)[\w.-]+=(?:\.{0,2}|~)/"

_PAIR: Final = (
    # Keys are searched only where a word begins: a search from every letter would take quadratic time.
    rf"(?<![\w.-])(?!{_FROM_FILE})(?P<head>[\w.-]*{_WORDS}(?:[ \t]*\}}\}})?\\*[\"']?[ \t]*{_SEPARATOR}[ \t]*)"
    rf"(?!\\*[\"']?{re.escape(PLACEHOLDER)}|{_OUR_WORDS})"
    # a value of YAML on lines of its own; a quoted one, also inside JSON inside JSON; a list of such
    rf"(?:{_BLOCK}|{_NEXT_LINE}|{_ITEMS}|{_QUOTED}|\[(?:[\s,]*{_QUOTED_ITEM})+"
    rf"|(?!\\*[\"']|[\[{{]+\s*\\*[\"'\[{{\]}}]){_WORD})"  # one word, but not an object
)
_WEAK_PAIR: Final = (
    rf"(?<![\w.-])(?P<head>[\w.-]*{_WEAK}\\*[\"']?[ \t]*"
    rf"(?:{_SEPARATOR}[ \t]*(?=\\*[\"'])|(?:=>|:=|=)[ \t]*|:[ \t]+(?=[^\s\"'\\\[{{]+[ \t]*(?:[\r\n]|\Z))))"
    rf"(?!{_OUR_WORDS})(?:{_QUOTED}|(?!\\*[\"']){_WORD})"
)
_NAME_AND_VALUE: Final = (
    rf"(?P<head>\bname\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?[\w.-]*{_WORDS}\\*[\"']?[\s,]*"
    rf"\\*[\"']?value\\*[\"']?[ \t]*[:=][ \t]*)(?:{_QUOTED}|(?!\\*[\"']){_WORD})"
)
_PEM_BLOCK: Final = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"
# A password may contain an unescaped slash; a digest after an image is no host.
_USER_INFO: Final = r"(?<=://)(?:[^\s/\"'<>]+|[^\s/:@\"'<>]*:[^\s\"'<>]{0,256})(?=@(?!sha\d+:))"
_AUTHORIZATION: Final = r"(?P<head>authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?:\w+[ \t]+)?)[^\s\"',]+"
_COOKIE: Final = r"(?P<head>cookie\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?)[^\s\"'\\][^\r\n\"'\\]*"
_REGISTRY_AUTH: Final = rf"(?P<head>[\"']auth\\*[\"'][ \t]*:[ \t]*){_QUOTED}"
# "A bearer token is required" shows none.
_BEARER: Final = r"\b(?P<head>bearer[ \t]+)(?!tokens?[.,;:)]*(?:\s|\Z))[^\s\"',;]{3,}"
_CLAIM: Final = r"\bvws1\.[-\w]+\.[-\w]+"
# A JWT, JWS or JWE. The dots are checked once per word, not again after each of its hyphens.
_JWT: Final = r"(?<![-\w])(?=[-\w]+\.[-\w]+\.)(?P<head>[-\w]*?)(?<!\w)eyJ[-\w]{8,}\.[-\w]+(?:\.[-\w]*){1,3}"
_KNOWN_TOKEN: Final = (
    r"(?<![a-z0-9])(?:gh[pousr]_[a-z0-9]{16,}|github_pat_\w{16,}|glpat-[-\w]{16,}|xox[abeprs]-[-\w]{8,}"
    r"|[sr]k_(?:live|test)_[a-z0-9]{10,}"
    r"|hvs\.[-\w]{16,}|(?-i:A[KS]IA[0-9A-Z]{12,}))"
)
_PASSWORD_IN_QUOTES: Final = (
    r"(?P<head>(?:password|passwd|passphrase|(?<![a-z])pwd)[ \t]+)(?P<open>[\"'])[^\"'\n]+(?P<close>[\"'])"
)
# `client_secret VALUE`, as in the logs of clients: a value has a digit, a sentence continues with words.
_SPACED: Final = (
    r"(?<![\w.-])(?P<head>\w{1,64}_(?:secret|token|password|passwd|key)[ \t]+)(?=[^\s\d]{0,64}\d)[^\s,;)\]}]{8,}"
)
_FLAG: Final = rf"(?<!\S)(?P<head>--?[\w-]*(?:{_WORDS}|{_WEAK})[ \t]+)(?!-|(?:or|and|are|is)\s)\S+"
_USER_FLAG: Final = r"(?<!\S)(?P<head>(?:-u|--user)[ \t=]+[^\s:]+:)(?!//)\S+"
# `mysql -phunter2`; longer flags that begin so are excluded by name.
_NO_PASSWORD: Final = (
    r"a(?:ckages?|ge|rallel|rams?|rent|tch|ths?)|eers?|id|ing|lain|lugins?|ods?|orts?|ull|ush|vcs?"
    r"|r(?:efix|eserve|int|ocess|ofile|ogress|oto|otocol|oxy|une)"
)
_SHORT_FLAG: Final = rf"(?<!\S)(?P<head>-p)(?=\S{{4}})(?!(?:{_NO_PASSWORD})(?:[=:,;]|\s|\Z)|\d+(?::\d+)*(?!\S)){_WORD}"

RULES: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        _PEM_BLOCK,
        _USER_INFO,
        _AUTHORIZATION,
        _COOKIE,
        _REGISTRY_AUTH,
        _BEARER,
        _CLAIM,  # an approval (OPS-4)
        _JWT,
        _KNOWN_TOKEN,
        _NAME_AND_VALUE,
        _PAIR,
        _WEAK_PAIR,
        _PASSWORD_IN_QUOTES,
        _SPACED,
        _FLAG,
        _USER_FLAG,
        _SHORT_FLAG,
    )
)

SIGNS: Final = (
    *("pass", "pwd", "secret", "token", "key", "credential", "auth", "cookie", "bearer", "://", "vws1.", "eyj"),
    *("-u", "-p", "k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox"),
    *("hvs.", "akia", "asia"),
)
"""Lower-case substrings: every text that a rule matches contains at least one of them.

Nearly all text holds no secret, and a search for these is cheaper than the rules.
"""

LOUD_KEY: Final = re.compile(rf"(?:{_WORDS}|{_WEAK}|authorization|cookie|(?<![a-z])auth)\Z", re.IGNORECASE)
"""The pattern for the end of a JSON key whose whole value is hidden."""
