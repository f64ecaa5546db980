r"""Regular expressions over names: a subset of RE2's syntax, matched in bounded time.

A member of a consumer group may subscribe to a regular expression, and transactional ids may be
listed by one. The broker evaluates them (Kafka with RE2/J). Python's `re` may need exponential
time, and would hold up the broker.

Supported: literals, `.`, classes (`[a-z]`, `[^x]`, `[[:alpha:]]`), `\d \w \s \D \W \S`, groups
(`(...)`, `(?:...)`, `(?P<n>...)`, `(?i)`, `(?s)`, `(?i:...)`), `|`, `* + ? {n} {n,} {n,m}` (also
lazy, with a `?` behind), `\Q...\E`, `\x41`, `\x{41}`, and `^ \A $ \z` at an alternative's ends.

Not supported, though RE2/J has them: `\b`, `\B`, `\C`, `\p{...}`, `(?m)`, `(?U)`, anchors inside of
an alternative, more than 500 states. Back references and look-around are invalid in RE2/J too.
All of these are INVALID_REGULAR_EXPRESSION. The whole name must match, as in Kafka.

`syntax` reads a pattern, `matching` runs it.
"""
