package constraint

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// pattern is a regular expression of Java (java.util.regex.Pattern) that must match a whole text. As attributes have
// no line breaks, those that Java knows besides \n are ordinary characters to . ^ and $.
type pattern struct {
	regexp *regexp.Regexp
	// The commonest form, text and then .*, needs no regular expression.
	prefix string
	simple bool
}

// compilePattern compiles a pattern that begins at a byte offset of an expression's text.
func compilePattern(text string, start int, source string) (*pattern, error) {
	within := text[:start+len(source)]
	t := &translator{source: source}
	if err := t.translate(); err != nil {
		return nil, syntaxError(within, start+err.at, err.expected)
	}
	compiled, err := regexp.Compile(`\A(?:` + t.out.String() + `)\z`)
	if err != nil {
		expected := "a regular expression"
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			expected = fmt.Sprintf("a regular expression without %s", e.Code)
		}
		return nil, syntaxError(within, start, expected)
	}
	p := &pattern{regexp: compiled}
	if plain, ok := strings.CutSuffix(source, ".*"); ok {
		p.prefix, p.simple = plainText(plain)
	}
	return p, nil
}

// plainText is the text that a pattern stands for; false where it stands for more than one.
func plainText(source string) (string, bool) {
	if strings.ContainsAny(strings.ReplaceAll(source, `\.`, ""), `\.+*?()|[]{}^$`) {
		return "", false
	}
	return strings.ReplaceAll(source, `\.`, "."), true
}

func (p *pattern) matches(text string) bool {
	if p.simple {
		rest, ok := strings.CutPrefix(text, p.prefix)
		return ok && !strings.Contains(rest, "\n")
	}
	return p.regexp.MatchString(text)
}
