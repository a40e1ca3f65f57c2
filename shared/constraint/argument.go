package constraint

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// bareValue counts the bytes at the beginning of a text that are a value without quotes.
func bareValue(text string) int {
	if i := strings.IndexAny(text, " \t\r\n()[],'\"=<>!~&|"); i >= 0 {
		return i
	}
	return len(text)
}

// barePattern counts the bytes at the beginning of a text that are a pattern without quotes. It
// ends at a blank, at a closing parenthesis that it did not open, and at && or || outside of
// parentheses.
func barePattern(text string) int {
	depth, class := 0, false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch c := text[i]; {
		case isBlank(rune(c)):
			return i
		case c == '\\':
			if i+1 < len(text) && !isBlank(rune(text[i+1])) {
				i++
			}
		case class:
			class = c != ']'
		case c == '[':
			class = true
			// A closing bracket that comes first in a class is one of its characters.
			for i+1 < len(text) && text[i+1] == '^' {
				i++
			}
			if i+1 < len(text) && text[i+1] == ']' {
				i++
			}
		case c == '(':
			depth++
		case c == ')':
			if depth == 0 {
				return i
			}
			depth--
		case depth == 0 && (strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "||")):
			return i
		}
	}
	return len(text)
}

// readArgument reads a quoted or bare argument at an offset of a text.
func readArgument(
	text string, at int, bare func(string) int, expected string,
) (arg string, start, next int, err error) {
	if at < len(text) && (text[at] == '\'' || text[at] == '"') {
		n := strings.IndexByte(text[at+1:], text[at])
		if n < 0 {
			return "", 0, 0, syntaxError(text, len(text), "the closing quote "+string(text[at]))
		}
		return text[at+1 : at+1+n], at + 1, at + n + 2, nil
	}
	n := bare(text[at:])
	if n == 0 {
		return "", 0, 0, syntaxError(text, at, expected)
	}
	return text[at : at+n], at, at + n, nil
}

// parseDecimal parses a number as attributes have them: digits with an optional sign and fraction.
// "1e3" and ".5" are texts, so that an attribute is compared as a number only if it clearly is one.
func parseDecimal(text string) (float64, bool) {
	rest := strings.TrimLeft(text, "+-")
	if len(text)-len(rest) > 1 {
		return 0, false
	}
	whole, fraction, dot := strings.Cut(rest, ".")
	if whole == "" || !isDigits(whole) || !isDigits(fraction) || dot && fraction == "" || len(rest) > 300 {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// isDigits reports whether a text has nothing but digits. An empty text does.
func isDigits(text string) bool {
	for i := range len(text) {
		if !isDigit(text[i]) {
			return false
		}
	}
	return true
}

// isDigit reports whether c is an ASCII digit.
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseDate reads a date in one of ECS's formats, and returns it in seconds since 1970. Without a
// zone it is in UTC, and without a time it is midnight.
func parseDate(text string) (int64, bool) {
	if strings.ContainsAny(text, ".,") { // time.Parse would accept fractions
		return 0, false
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Unix(), true
		}
	}
	return 0, false
}

// isVersion reports whether a text is a version: numbers separated by dots, optionally followed by
// - or + and anything.
func isVersion(text string) bool {
	core, _ := splitVersion(text)
	for {
		number, rest, more := strings.Cut(core, ".")
		if number == "" || !isDigits(number) {
			return false
		}
		if !more {
			return true
		}
		core = rest
	}
}

// splitVersion splits a version into its numbers and its pre-release. It drops a build, which comes
// after +.
func splitVersion(text string) (core, prerelease string) {
	if i := strings.IndexByte(text, '+'); i >= 0 {
		text = text[:i]
	}
	core, prerelease, _ = strings.Cut(text, "-")
	return core, prerelease
}

// compareVersions orders two versions number by number. A missing number is 0, and a pre-release
// comes before its release: 1.9 < 1.10-rc1 < 1.10 = 1.10.0. Numbers are compared as texts without
// leading zeros, so they may have any length.
func compareVersions(a, b string) int {
	coreA, preA := splitVersion(a)
	coreB, preB := splitVersion(b)
	for coreA != "" || coreB != "" {
		var x, y string
		x, coreA, _ = strings.Cut(coreA, ".")
		y, coreB, _ = strings.Cut(coreB, ".")
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if order := strings.Compare(x, y); order != 0 {
			return order
		}
	}
	switch {
	case preA == preB:
		return 0
	case preA == "":
		return 1
	case preB == "":
		return -1
	}
	return strings.Compare(preA, preB)
}

// word returns the ASCII letters and underscores at the beginning of a text.
func word(text string) string {
	for i, r := range text {
		if r >= utf8.RuneSelf || !isLetter(byte(r)) && r != '_' {
			return text[:i]
		}
	}
	return text
}

// isLetter reports whether c is an ASCII letter. What lies beyond ASCII is never part of a keyword.
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
