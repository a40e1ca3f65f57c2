package constraint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// translator writes a regular expression of Java in the syntax of Go, or says which construct Go's
// lack.
type translator struct {
	source string
	at     int // the next byte
	out    strings.Builder
	// dotAll: whether . is any character, and what it was outside of each open group.
	dotAll bool
	outer  []bool
	// flagged is where flags ended last: nothing stands there to be repeated.
	flagged int
}

// lineBreaks are the characters that Java's . does not match.
const lineBreaks = "\n\r\u0085\u2028\u2029"

// unsupported is a construct, at a byte offset of the pattern.
type unsupported struct {
	at       int
	expected string
}

func (t *translator) refuse(at int, construct string) *unsupported {
	return &unsupported{at, "a regular expression without " + construct}
}

func (t *translator) rest() string { return t.source[t.at:] }

// copy takes n bytes over as they are.
func (t *translator) copy(n int) *unsupported {
	t.out.WriteString(t.source[t.at : t.at+n])
	t.at += n
	return nil
}

// literalRune takes the next character over as itself.
func (t *translator) literalRune() *unsupported {
	_, n := utf8.DecodeRuneInString(t.rest())
	t.out.WriteString(quoteMeta(t.source[t.at : t.at+n]))
	t.at += n
	return nil
}

// quoteMeta is a text as a pattern that means itself, in a class as well.
func quoteMeta(text string) string { return strings.ReplaceAll(regexp.QuoteMeta(text), "-", `\-`) }

func (t *translator) translate() *unsupported {
	for t.at < len(t.source) {
		var err *unsupported
		switch t.source[t.at] {
		case '\\':
			err = t.escape()
		case '[':
			err = t.class()
		case '(':
			t.outer = append(t.outer, t.dotAll)
			err = t.group()
		case ')':
			if n := len(t.outer) - 1; n >= 0 {
				t.dotAll, t.outer = t.outer[n], t.outer[:n]
			}
			err = t.copy(1)
		case '*', '+', '?', '{':
			err = t.quantifier()
		case '.':
			err = t.dot()
		case '^', '$', '|':
			err = t.copy(1)
		default:
			err = t.literalRune()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *translator) dot() *unsupported {
	t.at++
	if t.dotAll {
		t.out.WriteString("(?s:.)")
	} else {
		t.out.WriteString(`[^\n\r\x{85}\x{2028}\x{2029}]`)
	}
	return nil
}

var counted = regexp.MustCompile(`^\{\d+(?:,\d*)?\}`)

// quantifier takes * + ? {n} {n,} {n,m} over, lazy ones too.
func (t *translator) quantifier() *unsupported {
	start, n := t.at, 1
	if start > 0 && start == t.flagged {
		return t.refuse(start, "a repetition of flags")
	}
	if t.source[t.at] == '{' {
		if n = len(counted.FindString(t.rest())); n == 0 {
			return t.refuse(start, `a brace that is no repetition ({n}, {n,}, {n,m}; write \{ for the character)`)
		}
	}
	if err := t.copy(n); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(t.rest(), "+"):
		return t.refuse(start, "possessive quantifiers")
	case strings.HasPrefix(t.rest(), "?"):
		return t.copy(1)
	}
	return nil
}

// groupsRefused are the groups that Go's expressions lack.
var groupsRefused = []struct{ begin, construct string }{
	{"(?=", "look-ahead"}, {"(?!", "look-ahead"}, {"(?<=", "look-behind"}, {"(?<!", "look-behind"},
	{"(?>", "atomic groups"},
}

var (
	groupName  = regexp.MustCompile(`^\(\?<[A-Za-z][A-Za-z0-9]*>`)
	groupFlags = regexp.MustCompile(`^\(\?([A-Za-z]*)(?:-([A-Za-z]*))?([:)])`)
)

// group takes the beginning of a group over, or flags.
func (t *translator) group() *unsupported {
	rest := t.rest()
	for _, g := range groupsRefused {
		if strings.HasPrefix(rest, g.begin) {
			return t.refuse(t.at, g.construct)
		}
	}
	if !strings.HasPrefix(rest, "(?") {
		return t.copy(1)
	}
	if name := groupName.FindString(rest); name != "" {
		return t.copy(len(name))
	}
	m := groupFlags.FindStringSubmatch(rest)
	if m == nil {
		return &unsupported{t.at, "a regular expression with a known kind of group"}
	}
	for _, f := range m[1] + m[2] {
		if construct, ok := flagsRefused[f]; ok {
			return t.refuse(t.at, construct)
		}
		if !strings.ContainsRune("imsu", f) {
			return t.refuse(t.at, fmt.Sprintf("the unknown flag %c", f))
		}
	}
	t.at += len(m[0])
	t.flags(m[1], m[2], m[3])
	return nil
}

// flagsRefused are Java's flags that Go's expressions lack. (?u) is how they always fold case.
var flagsRefused = map[rune]string{
	'd': "the flag d (UNIX_LINES)", 'x': "the flag x (COMMENTS)", 'U': "the flag U (UNICODE_CHARACTER_CLASS)",
}

// flags writes flags switched on and off, for a group or, where end is ), for what follows. Those
// of . are left out.
func (t *translator) flags(on, off, end string) {
	if strings.Contains(on, "s") {
		t.dotAll = true
	}
	if strings.Contains(off, "s") {
		t.dotAll = false
	}
	if end == ")" {
		t.flagged = t.at
		t.outer = t.outer[:len(t.outer)-1] // which was no group
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

// escapesRefused are escapes that Go's expressions lack.
var escapesRefused = map[byte]string{
	'k': "back-references", 'Z': `\Z`, 'G': `\G`, 'X': `\X`, 'N': `\N`,
}

// escape takes what follows a backslash over, outside of classes.
func (t *translator) escape() *unsupported {
	if t.at+1 == len(t.source) {
		return &unsupported{t.at, `a character after \`}
	}
	c := t.source[t.at+1]
	switch {
	case '1' <= c && c <= '9':
		return t.refuse(t.at, "back-references")
	case escapesRefused[c] != "":
		return t.refuse(t.at, escapesRefused[c])
	case strings.HasPrefix(t.rest(), `\b{`):
		return t.refuse(t.at, `\b{g}`)
	case strings.IndexByte("AzbB", c) >= 0:
		return t.copy(2)
	case c == 'R':
		t.out.WriteString(`(?:\r\n|[\n\v\f\r\x{85}\x{2028}\x{2029}])`)
		t.at += 2
		return nil
	}
	if set, ok := javaSets[c|0x20]; ok && isLetter(c) {
		t.out.WriteString("[" + set.text(c < 'a') + "]")
		t.at += 2
		return nil
	}
	return t.characterEscape(false)
}

// characterEscape takes an escape over that may stand in a class and outside: a character, a class
// of Java's, \Q…\E.
func (t *translator) characterEscape(inClass bool) *unsupported {
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
		return t.copy(2)
	case c == 'p' || c == 'P':
		return t.property(inClass)
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
	return t.literalRune()
}

var (
	octal       = regexp.MustCompile(`^\\0([0-3][0-7]{2}|[0-7]{1,2})`)
	hexadecimal = regexp.MustCompile(`^\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4}))`)
)

// codePoint is the character that \e, \cX, \0n, \xhh, \x{h…h} or \uhhhh stands for and the length
// of that, 0 for none.
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
