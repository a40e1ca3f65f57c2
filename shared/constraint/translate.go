package constraint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// translator translates a regular expression of Java into Go's syntax, or names the construct that
// Go does not have.
type translator struct {
	source string
	at     int // the next byte
	out    strings.Builder
	// dotAll is set while . matches any character, and outer has what it was outside of each open
	// group.
	dotAll bool
	outer  []bool
	// flagsEnd is where flags ended last. There is nothing that a quantifier could repeat.
	flagsEnd int
}

// lineBreaks are the characters that Java's . does not match.
const lineBreaks = "\n\r\u0085\u2028\u2029"

// unsupported is a construct that is refused, at a byte offset of the pattern.
type unsupported struct {
	at       int
	expected string
}

// refuse names a construct that Java has and Go does not.
func (t *translator) refuse(at int, construct string) *unsupported {
	return &unsupported{at, "a regular expression without " + construct}
}

func (t *translator) rest() string { return t.source[t.at:] }

// copyBytes copies n bytes as they are.
func (t *translator) copyBytes(n int) *unsupported {
	t.out.WriteString(t.source[t.at : t.at+n])
	t.at += n
	return nil
}

// copyLiteral copies the next character, quoted.
func (t *translator) copyLiteral() *unsupported {
	_, n := utf8.DecodeRuneInString(t.rest())
	t.out.WriteString(quoteMeta(t.source[t.at : t.at+n]))
	t.at += n
	return nil
}

// quoteMeta returns a pattern that matches only the text, in a class as well.
func quoteMeta(text string) string { return strings.ReplaceAll(regexp.QuoteMeta(text), "-", `\-`) }

// translate translates the pattern from left to right. What has the same meaning in both languages
// is copied. A missing parenthesis is left to Go's parser, which reports it.
func (t *translator) translate() *unsupported {
	for t.at < len(t.source) {
		var err *unsupported
		switch t.source[t.at] {
		case '\\':
			err = t.translateEscape()
		case '[':
			err = t.translateClass()
		case '(':
			t.outer = append(t.outer, t.dotAll)
			err = t.translateGroup()
		case ')':
			if n := len(t.outer) - 1; n >= 0 {
				t.dotAll, t.outer = t.outer[n], t.outer[:n]
			}
			err = t.copyBytes(1)
		case '*', '+', '?', '{':
			err = t.translateQuantifier()
		case '.':
			err = t.translateDot()
		case '^', '$', '|':
			err = t.copyBytes(1)
		default:
			err = t.copyLiteral()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// translateDot writes out what . matches, because Java's . excludes more line breaks than Go's.
func (t *translator) translateDot() *unsupported {
	t.at++
	if t.dotAll {
		t.out.WriteString("(?s:.)")
	} else {
		t.out.WriteString(`[^\n\r\x{85}\x{2028}\x{2029}]`)
	}
	return nil
}

// counted matches a repetition with numbers.
var counted = regexp.MustCompile(`^\{\d+(?:,\d*)?\}`)

// translateQuantifier copies * + ? {n} {n,} {n,m}, lazy ones too.
func (t *translator) translateQuantifier() *unsupported {
	start, n := t.at, 1
	if start > 0 && start == t.flagsEnd {
		return t.refuse(start, "a repetition of flags")
	}
	if t.source[t.at] == '{' {
		if n = len(counted.FindString(t.rest())); n == 0 {
			return t.refuse(start, `a brace that is no repetition ({n}, {n,}, {n,m}; write \{ for the character)`)
		}
	}
	if err := t.copyBytes(n); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(t.rest(), "+"):
		return t.refuse(start, "possessive quantifiers")
	case strings.HasPrefix(t.rest(), "?"):
		return t.copyBytes(1)
	}
	return nil
}

// refusedGroups has the kinds of groups that Go does not have.
var refusedGroups = []struct{ begin, construct string }{
	{"(?=", "look-ahead"}, {"(?!", "look-ahead"}, {"(?<=", "look-behind"}, {"(?<!", "look-behind"},
	{"(?>", "atomic groups"},
}

var (
	groupName  = regexp.MustCompile(`^\(\?<[A-Za-z][A-Za-z0-9]*>`)
	groupFlags = regexp.MustCompile(`^\(\?([A-Za-z]*)(?:-([A-Za-z]*))?([:)])`)
)

// translateGroup translates the beginning of a group, or flags.
func (t *translator) translateGroup() *unsupported {
	rest := t.rest()
	for _, g := range refusedGroups {
		if strings.HasPrefix(rest, g.begin) {
			return t.refuse(t.at, g.construct)
		}
	}
	if !strings.HasPrefix(rest, "(?") {
		return t.copyBytes(1)
	}
	if name := groupName.FindString(rest); name != "" {
		return t.copyBytes(len(name))
	}
	m := groupFlags.FindStringSubmatch(rest)
	if m == nil {
		return &unsupported{t.at, "a regular expression with a known kind of group"}
	}
	for _, f := range m[1] + m[2] {
		if construct, ok := refusedFlags[f]; ok {
			return t.refuse(t.at, construct)
		}
		if !strings.ContainsRune("imsu", f) {
			return t.refuse(t.at, fmt.Sprintf("the unknown flag %c", f))
		}
	}
	t.at += len(m[0])
	t.writeFlags(m[1], m[2], m[3])
	return nil
}

// refusedFlags has Java's flags that Go does not have. Go always folds case as with (?u).
var refusedFlags = map[rune]string{
	'd': "the flag d (UNIX_LINES)", 'x': "the flag x (COMMENTS)", 'U': "the flag U (UNICODE_CHARACTER_CLASS)",
}

// writeFlags writes flags that are switched on and off: for a group, or for what follows if end is
// ")". Those of . are left out.
func (t *translator) writeFlags(on, off, end string) {
	if strings.Contains(on, "s") {
		t.dotAll = true
	}
	if strings.Contains(off, "s") {
		t.dotAll = false
	}
	if end == ")" {
		t.flagsEnd = t.at
		t.outer = t.outer[:len(t.outer)-1] // it was no group
	}
	known := strings.NewReplacer("u", "", "s", "")
	on, off = known.Replace(on), known.Replace(off)
	if off != "" {
		off = "-" + off
	}
	if on+off != "" || end == ":" {
		t.out.WriteString("(?" + on + off + end)
	}
}

// refusedEscapes has the escapes that Go does not have.
var refusedEscapes = map[byte]string{
	'k': "back-references", 'Z': `\Z`, 'G': `\G`, 'X': `\X`, 'N': `\N`,
}

// translateEscape translates what follows a backslash, outside of classes.
func (t *translator) translateEscape() *unsupported {
	if t.at+1 == len(t.source) {
		return &unsupported{t.at, `a character after \`}
	}
	c := t.source[t.at+1]
	switch {
	case '1' <= c && c <= '9':
		return t.refuse(t.at, "back-references")
	case refusedEscapes[c] != "":
		return t.refuse(t.at, refusedEscapes[c])
	case strings.HasPrefix(t.rest(), `\b{`):
		return t.refuse(t.at, `\b{g}`)
	case strings.IndexByte("AzbB", c) >= 0:
		return t.copyBytes(2)
	case c == 'R':
		t.out.WriteString(`(?:\r\n|[\n\v\f\r\x{85}\x{2028}\x{2029}])`)
		t.at += 2
		return nil
	}
	if set, ok := javaSets[c|0x20]; ok && isLetter(c) {
		t.out.WriteString("[" + set.format(c < 'a') + "]")
		t.at += 2
		return nil
	}
	return t.translateCharacter(false)
}

// translateCharacter translates an escape that may be in a class or outside: a character, a class
// of Java's, or \Q…\E.
func (t *translator) translateCharacter(inClass bool) *unsupported {
	start := t.at
	c := t.source[t.at+1]
	switch {
	case c == 'Q':
		text, _, closed := strings.Cut(t.source[t.at+2:], `\E`)
		t.out.WriteString(quoteMeta(text))
		if t.at += 2 + len(text); closed {
			t.at += 2
		}
		return nil
	case strings.IndexByte("dDwWtnrfa", c) >= 0:
		return t.copyBytes(2)
	case c == 'p' || c == 'P':
		return t.translateProperty(inClass)
	case c == 'e', c == 'c', c == '0', c == 'x', c == 'u':
		r, n := codePoint(t.rest())
		if n == 0 {
			return t.refuse(start, fmt.Sprintf(`an incomplete \%c`, c))
		}
		t.at += n
		fmt.Fprintf(&t.out, `\x{%x}`, r)
		return nil
	case isLetter(c) || isDigit(c):
		return t.refuse(start, fmt.Sprintf(`the unknown \%c`, c))
	}
	t.at++
	return t.copyLiteral()
}

var (
	octal       = regexp.MustCompile(`^\\0([0-3][0-7]{2}|[0-7]{1,2})`)
	hexadecimal = regexp.MustCompile(`^\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4}))`)
)

// codePoint returns the character of an escape \e, \cX, \0n, \xhh, \x{h…h} or \uhhhh, and the
// length of the escape; 0 if it is none of these.
func codePoint(text string) (r rune, n int) {
	switch text[1] {
	case 'e':
		return 0x1b, 2
	case 'c':
		if len(text) < 3 || text[2] >= utf8.RuneSelf {
			return 0, 0
		}
		return rune(text[2] ^ 64), 3
	case '0':
		if m := octal.FindStringSubmatch(text); m != nil {
			v, _ := strconv.ParseUint(m[1], 8, 32)
			return rune(v), len(m[0])
		}
		return 0, 0
	}
	m := hexadecimal.FindStringSubmatch(text)
	if m == nil {
		return 0, 0
	}
	v, _ := strconv.ParseUint(m[1]+m[2]+m[3], 16, 32)
	if r = rune(v); !utf8.ValidRune(r) {
		return 0, 0
	}
	return r, len(m[0])
}
