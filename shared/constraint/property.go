package constraint

import (
	"fmt"
	"iter"
	"strings"
)

// propertyOperator is a comparison of the node-property language.
type propertyOperator struct {
	text string
	// base is the comparison itself: ==, !=, >=, <=, <, >, ^, !^ or ~.
	base string
	// primary is set if it counts for primary replicas only. All others count for other replicas
	// only (P7).
	primary bool
}

// propertyOperators has all comparisons. Of two that begin alike, the longer one comes first: as in
// Service Fabric, "a ^Prod" is "a ^P rod".
var propertyOperators = []propertyOperator{
	{text: "==", base: "=="}, {text: "!=", base: "!="}, {text: ">=", base: ">="}, {text: "<=", base: "<="},
	{text: "<", base: "<"}, {text: ">", base: ">"}, {text: "^P", base: "^", primary: true},
	{text: "!^P", base: "!^", primary: true}, {text: "^", base: "^"}, {text: "!^", base: "!^"}, {text: "~", base: "~"},
}

// literal is a token by itself. As a whole expression it is satisfied only if it is "true" (P7).
type literal struct{ text string }

// evaluate compares the text with "true" exactly: "True" is not satisfied.
func (n *literal) evaluate(Subject, bool) (bool, error) { return n.text == "true", nil }

func (n *literal) print(b *strings.Builder, _ int) { b.WriteString(n.text) }

// propertyComparison compares a property with a literal: as numbers if both are, otherwise as URIs
// if both are, and otherwise as text (P7).
type propertyComparison struct {
	op      propertyOperator
	name    string
	literal string
	number  float64
	numeric bool
	uri     uri
	isURI   bool
	// The errors that evaluating it can give, made once.
	undefined, wrongType *EvaluationError
}

// newPropertyComparison reads the literal as a number or a URI once, and prepares the errors: an
// expression is evaluated for thousands of nodes.
func newPropertyComparison(op propertyOperator, name, literal string) *propertyComparison {
	c := &propertyComparison{
		op: op, name: name, literal: literal,
		undefined: &EvaluationError{name, fmt.Sprintf("property %q is not defined", name)},
	}
	if c.number, c.numeric = parseDouble(literal); !c.numeric {
		c.uri, c.isURI = parseURI(literal)
	}
	format := "%s compares numbers, and property %q or %q is none"
	if strings.HasSuffix(op.base, "^") {
		format = "%s compares text, and property %q and %q are numbers"
	}
	c.wrongType = &EvaluationError{name, fmt.Sprintf(format, op.text, name, literal)}
	return c
}

// evaluate ignores comparisons for the other kind of replica, and directives: they are satisfied by
// every node.
func (c *propertyComparison) evaluate(s Subject, primary bool) (bool, error) {
	if c.op.primary != primary || c.op.base == "~" {
		return true, nil
	}
	value, ok := s.Property(c.name)
	if !ok {
		return false, c.undefined
	}
	if c.numeric {
		if number, ok := parseDouble(value); ok {
			return c.compareNumber(number)
		}
	}
	if c.isURI {
		if u, ok := parseURI(value); ok {
			return c.compareText(u.equals(&c.uri), c.uri.isPrefixOf(&u))
		}
	}
	return c.compareText(value == c.literal, strings.HasPrefix(value, c.literal))
}

// compareNumber compares two numbers. ^ and !^ compare text, so they are errors here.
func (c *propertyComparison) compareNumber(number float64) (bool, error) {
	switch c.op.base {
	case "==":
		return number == c.number, nil
	case "!=":
		return number != c.number, nil
	case ">=":
		return number >= c.number, nil
	case "<=":
		return number <= c.number, nil
	case "<":
		return number < c.number, nil
	case ">":
		return number > c.number, nil
	}
	return false, c.wrongType
}

// compareText compares what is not two numbers. Order is defined for numbers only, so < and its
// siblings are errors here.
func (c *propertyComparison) compareText(equal, prefix bool) (bool, error) {
	switch c.op.base {
	case "==":
		return equal, nil
	case "!=":
		return !equal, nil
	case "^":
		return prefix, nil
	case "!^":
		return !prefix, nil
	}
	return false, c.wrongType
}

// validate fails if the comparison is an error on all nodes.
func (c *propertyComparison) validate(nodes iter.Seq[Subject]) error {
	if c.op.primary || c.op.base == "~" {
		return nil
	}
	var err error = c.undefined
	for n := range nodes {
		switch _, failure := c.evaluate(n, false); failure {
		case nil:
			return nil
		case c.wrongType:
			err = failure
		}
	}
	return err
}

func (c *propertyComparison) print(b *strings.Builder, level int) {
	if level > levelCompare {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	b.WriteString(c.name + " " + c.op.text + " " + c.literal)
}

// propertyNegation is !. The negation of an error is that error (P7).
type propertyNegation struct{ node node }

func (n *propertyNegation) parts() []node { return []node{n.node} }

// evaluate returns false with an error, so that callers which ignore errors treat it as not
// satisfied.
func (n *propertyNegation) evaluate(s Subject, primary bool) (bool, error) {
	ok, err := n.node.evaluate(s, primary)
	return !ok && err == nil, err
}

func (n *propertyNegation) print(b *strings.Builder, _ int) {
	b.WriteByte('!')
	n.node.print(b, levelUnary)
}

// malformed is what parses and is never satisfied: a Boolean operator over a bare literal, or a
// comparison of anything but two tokens. Evaluating it gives the first error of its operands, or
// its own.
type malformed struct {
	op       string
	level    int
	operands []node
	err      *EvaluationError
}

func (n *malformed) parts() []node { return n.operands }

func (n *malformed) evaluate(s Subject, primary bool) (bool, error) {
	for _, part := range n.operands {
		if _, err := part.evaluate(s, primary); err != nil {
			return false, err
		}
	}
	return false, n.err
}

func (n *malformed) print(b *strings.Builder, level int) {
	if n.level == levelUnary {
		b.WriteString(n.op + " ") // "! = a", not "!= a"
		n.operands[0].print(b, levelUnary)
		return
	}
	if n.level < level {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	for i, part := range n.operands {
		inner := n.level + 1
		if i == 0 && n.level == levelCompare {
			inner = levelCompare // a == b == c is (a == b) == c
		}
		if i > 0 {
			b.WriteString(" " + n.op + " ")
		}
		part.print(b, inner)
	}
}
