package constraint

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// runeSet has ranges of characters, as pairs of the first and the last, ascending.
type runeSet []rune

// javaSets has the classes of Java that Go does not have or understands otherwise: blanks, and
// horizontal and vertical ones.
var javaSets = map[byte]runeSet{
	's': {'\t', '\r', ' ', ' '},
	'h': {'\t', '\t', ' ', ' ', 0xa0, 0xa0, 0x1680, 0x1680, 0x180e, 0x180e, 0x2000, 0x200a, 0x202f, 0x202f, 0x205f,
		0x205f, 0x3000, 0x3000},
	'v': {'\n', '\r', 0x85, 0x85, 0x2028, 0x2029},
}

// format writes the set as within brackets, or with others everything that is not in it.
func (s runeSet) format(others bool) string {
	var b strings.Builder
	write := func(from, to rune) {
		if from <= to {
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, from, to)
		}
	}
	next := rune(0)
	for i := 0; i < len(s); i += 2 {
		if others {
			write(next, s[i]-1)
		} else {
			write(s[i], s[i+1])
		}
		next = s[i+1] + 1
	}
	if others {
		write(next, unicode.MaxRune)
	}
	return b.String()
}

// translateClass translates a class in brackets. Only Java's may contain others and be intersected.
func (t *translator) translateClass() *unsupported {
	start := t.at
	t.at++
	t.out.WriteByte('[')
	if strings.HasPrefix(t.rest(), "^") {
		t.out.WriteByte('^')
		t.at++
	}
	for first := true; ; first = false {
		rest := t.rest()
		switch {
		case rest == "":
			return &unsupported{start, "a regular expression with a ] for each ["}
		case rest[0] == ']' && !first:
			t.out.WriteByte(']')
			t.at++
			return nil
		case rest[0] == '[':
			return t.refuse(t.at, "classes within classes")
		case strings.HasPrefix(rest, "&&"):
			return t.refuse(t.at, "intersections of classes (&&)")
		}
		if err := t.translateClassItem(); err != nil {
			return err
		}
	}
}

// translateClassItem translates a character, the - of a range, or an escape.
func (t *translator) translateClassItem() *unsupported {
	rest := t.rest()
	switch {
	case rest[0] == '-':
		return t.copyBytes(1)
	case rest[0] != '\\':
		return t.copyLiteral()
	case len(rest) == 1:
		return &unsupported{t.at, `a character after \`}
	}
	start, c := t.at, rest[1]
	set, isSet := javaSets[c|0x20]
	isSet = isSet && isLetter(c)
	if isSet {
		t.out.WriteString(set.format(c < 'a'))
		t.at += 2
	} else if err := t.translateCharacter(true); err != nil {
		return err
	}
	if isSet || strings.IndexByte("dDwWpP", c) >= 0 {
		if rest = t.rest(); len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			return t.refuse(start, "a range that begins with a class")
		}
	}
	return nil
}

// posixNames maps Java's classes for ASCII to Go's names.
var posixNames = map[string]string{
	"Lower": "lower", "Upper": "upper", "ASCII": "ascii", "Alpha": "alpha", "Digit": "digit", "Alnum": "alnum",
	"Punct": "punct",
	"Graph": "graph", "Print": "print", "Blank": "blank", "Cntrl": "cntrl", "XDigit": "xdigit", "Space": "space",
}

var propertyName = regexp.MustCompile(`^\\[pP](?:([A-Z])|\{([^}]*)\})`)

// translateProperty translates \p{…}: Java's classes for ASCII, general categories and scripts.
func (t *translator) translateProperty(inClass bool) *unsupported {
	m := propertyName.FindStringSubmatch(t.rest())
	if m == nil {
		return t.refuse(t.at, `an incomplete \p`)
	}
	name, denied := m[1]+m[2], m[0][1] == 'P'
	text := ""
	if posix, ok := posixNames[name]; ok {
		if text = "[:" + posix + ":]"; denied {
			text = "[:^" + posix + ":]"
		}
		if !inClass {
			text = "[" + text + "]"
		}
	} else if table, ok := unicodeName(name); ok {
		text = m[0][:2] + "{" + table + "}"
	} else {
		return t.refuse(t.at, m[0])
	}
	t.out.WriteString(text)
	t.at += len(m[0])
	return nil
}

// unicodeName returns Go's name for a general category (Lu, IsLu, gc=Lu) or a script (IsLatin,
// script=latin) of Java's.
func unicodeName(name string) (string, bool) {
	key, value, ok := strings.Cut(name, "=")
	switch {
	case !ok:
		value, ok = strings.CutPrefix(name, "Is")
		if _, isCategory := unicode.Categories[value]; isCategory && utf8.RuneCountInString(value) <= 2 {
			return value, true
		}
		return scriptName(value, ok)
	case strings.EqualFold(key, "gc") || strings.EqualFold(key, "general_category"):
		_, isCategory := unicode.Categories[value]
		return value, isCategory && len(value) <= 2
	case strings.EqualFold(key, "sc") || strings.EqualFold(key, "script"):
		return scriptName(value, true)
	}
	return "", false
}

// scriptName returns Go's name for a script, which Java accepts in any case.
func scriptName(name string, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	for s := range unicode.Scripts {
		if strings.EqualFold(s, name) {
			return s, true
		}
	}
	return "", false
}
