package constraint

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// pattern is a regular expression of Java (java.util.regex.Pattern) that must match a whole text.
// It differs from Java in that ^ and $ know only \n as a line break (no attribute has any), \b only
// ASCII letters, and (?i) all letters.
type pattern struct {
	regexp *regexp.Regexp
	// The most common form, a text and then .*, needs no regular expression.
	prefix string
	simple bool
}

// maxPatternSize limits the cost of compiling and matching a pattern: (a{1000}){1000} would have a
// million parts. Go matches in time linear in the text, so nothing else needs a limit.
const maxPatternSize = 5000

// countParts counts the parts of a regular expression with its repetitions written out: a{3} has
// three.
func countParts(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n += countParts(sub)
	}
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// compilePattern compiles a pattern that begins at a byte offset of an expression's text.
func compilePattern(text string, start int, source string) (*pattern, error) {
	within := text[:start+len(source)]
	t := &translator{source: source}
	if err := t.translate(); err != nil {
		return nil, syntaxError(within, start+err.at, err.expected)
	}
	tree, err := syntax.Parse(t.out.String(), syntax.Perl)
	if err != nil {
		expected := "a regular expression"
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			expected = fmt.Sprintf("a regular expression without %s", e.Code)
		}
		return nil, syntaxError(within, start, expected)
	}
	if countParts(tree) > maxPatternSize {
		return nil, syntaxError(within, start,
			fmt.Sprintf("a regular expression of at most %d parts, repetitions counted", maxPatternSize))
	}
	p := &pattern{regexp: regexp.MustCompile(`\A(?:` + t.out.String() + `)\z`)}
	if plain, ok := strings.CutSuffix(source, ".*"); ok {
		p.prefix, p.simple = plainText(plain)
	}
	return p, nil
}

// plainText returns the only text that a pattern matches, or false if it matches more than one.
func plainText(source string) (string, bool) {
	if strings.ContainsAny(strings.ReplaceAll(source, `\.`, ""), `\.+*?()|[]{}^$`) {
		return "", false
	}
	return strings.ReplaceAll(source, `\.`, "."), true
}

// matches reports whether the pattern matches the whole text. In the simple form the rest of the
// text matches .* unless it has a line break.
func (p *pattern) matches(text string) bool {
	if p.simple {
		rest, ok := strings.CutPrefix(text, p.prefix)
		return ok && !strings.ContainsAny(rest, lineBreaks)
	}
	return p.regexp.MatchString(text)
}
