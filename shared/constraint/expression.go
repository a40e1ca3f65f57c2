package constraint

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of an expression.
const (
	MaxQueryLength    = 2000  // characters of a query, as in the ECS API
	MaxPropertyLength = 10000 // characters of a node-property constraint; Berth's own
	MaxDepth          = 100   // levels of parentheses and negations
	MaxListLength     = 500   // values
)

// Subject is the instance that an expression is evaluated for, as it is now.
type Subject interface {
	// Attribute returns the value of an ECS attribute, or false if the instance does not have it.
	Attribute(name string) (string, bool)
	// Property returns the value of a node property (P7), or false if the node does not have it.
	Property(name string) (string, bool)
	AgentConnected() bool
	// AgentVersion is the version of the container agent, such as "1.14.5". It is empty if it is
	// not known.
	AgentVersion() string
	// EC2InstanceID is empty for an instance outside EC2.
	EC2InstanceID() string
	RegisteredAt() time.Time
	// RunningTasks counts the tasks on the instance.
	RunningTasks() int
	// Groups yields the group of each task on the instance, in any order, until yield returns
	// false.
	Groups(yield func(group string) bool)
}

// Expression is a compiled expression of either language. It is immutable and may be used
// concurrently.
type Expression struct {
	root       node
	static     bool
	properties []string
	// The values of the first FDPolicy and PlacePolicy, as written.
	faultPolicy, placePolicy string
}

// Directives are the policies that a node-property constraint sets besides choosing nodes:
// `FDPolicy ~ …` and `PlacePolicy ~ …`. As in Service Fabric, only the first letter of the value
// counts, in either case.
type Directives struct {
	// DomainPolicy is "nonpacking", "ignore" or empty.
	DomainPolicy string
	// AllOrNothing places either all instances of a service or none (NonPartially).
	AllOrNothing bool
}

// node is a part of an expression.
type node interface {
	evaluate(s Subject, primary bool) (bool, error)
	// print writes the part, in parentheses if it binds less tightly than level.
	print(b *strings.Builder, level int)
}

// Matches reports whether the instance satisfies the expression. If it cannot be evaluated, it does
// not (P7).
func (e *Expression) Matches(s Subject) bool {
	ok, err := e.root.evaluate(s, false)
	return ok && err == nil
}

// Evaluate is Matches with the reason, an *EvaluationError, why an expression over node properties
// has no value. With primary it is evaluated for a primary replica: only the comparisons ^P and !^P
// count (P7).
func (e *Expression) Evaluate(s Subject, primary bool) (bool, error) {
	return e.root.evaluate(s, primary)
}

// Static reports whether the answer depends on the instance's own row alone, and not on the tasks
// there.
func (e *Expression) Static() bool { return e.static }

// String returns the expression in canonical form, which parses to the same expression.
func (e *Expression) String() string {
	var b strings.Builder
	e.root.print(&b, 0)
	return b.String()
}

// IsPropertyName reports whether a node-property constraint can name a property so: without operators
// and parentheses, and without blanks around it.
func IsPropertyName(name string) bool {
	e, err := ParseProperties(name + " == x")
	return err == nil && slices.Equal(e.properties, []string{name})
}

// PropertyNames returns the node properties that the expression asks for, sorted, each once.
func (e *Expression) PropertyNames() []string { return slices.Clone(e.properties) }

// Directives returns the policies that the expression sets.
func (e *Expression) Directives() Directives {
	begins := func(text string, letter byte) bool { return text != "" && text[0]|0x20 == letter }
	d := Directives{AllOrNothing: begins(e.placePolicy, 'n')}
	switch {
	case begins(e.faultPolicy, 'n'):
		d.DomainPolicy = "nonpacking"
	case begins(e.faultPolicy, 'i'):
		d.DomainPolicy = "ignore"
	}
	return d
}

// Validate fails if the expression cannot be evaluated on any of the nodes (P7): no node has a
// property, or a comparison is an error on all nodes that have it. Each property must be on some
// node, not all on the same one. Service Fabric demands this of a service that is created or
// changed. Without nodes, every property is missing.
func (e *Expression) Validate(nodes iter.Seq[Subject]) error {
	return walk(e.root, func(n node) error {
		switch n := n.(type) {
		case *propertyComparison:
			return n.validate(nodes)
		case *malformed:
			return n.err
		}
		return nil
	})
}

// walk calls f for a node and all nodes below it, from the left, until f returns an error.
func walk(n node, f func(node) error) error {
	if err := f(n); err != nil {
		return err
	}
	if p, ok := n.(interface{ parts() []node }); ok {
		for _, part := range p.parts() {
			if err := walk(part, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// EvaluationError says why a node-property constraint has no value on a node.
type EvaluationError struct {
	// Property is the name that was looked up. It is empty if the expression itself is wrong.
	Property string
	Reason   string
}

// Error returns the reason.
func (e *EvaluationError) Error() string { return e.Reason }

// SyntaxError is a mistake in the text of an expression.
type SyntaxError struct {
	// Position is the offset in characters from the beginning, 0 for the first.
	Position int
	Expected string
	// Found is the beginning of what is there instead. It is empty at the end of the text.
	Found string
}

// Column returns the position as people count: 1 for the first character.
func (e *SyntaxError) Column() int { return e.Position + 1 }

// Error names the column, what was expected there and what was found.
func (e *SyntaxError) Error() string {
	found := "the end"
	if e.Found != "" {
		found = fmt.Sprintf("%q", e.Found)
	}
	return fmt.Sprintf("column %d: expected %s, found %s", e.Column(), e.Expected, found)
}

// syntaxError returns an error at a byte offset of a text.
func syntaxError(text string, offset int, expected string) *SyntaxError {
	return &SyntaxError{
		Position: utf8.RuneCountInString(text[:offset]), Expected: expected, Found: excerpt(text[offset:]),
	}
}

// excerpt returns the beginning of a text up to a blank, at most 20 characters.
func excerpt(text string) string {
	const longest = 20
	end := 0
	for n := 0; n < longest && end < len(text); n++ {
		r, size := utf8.DecodeRuneInString(text[end:])
		if n > 0 && isBlank(r) {
			break
		}
		end += size
	}
	return text[:end]
}

// isBlank reports whether r separates tokens in both languages.
func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' }

// checkLength fails for a text of more than limit characters.
func checkLength(text string, limit int) error {
	if n := utf8.RuneCountInString(text); n > limit {
		return &SyntaxError{
			Position: limit,
			Expected: fmt.Sprintf("at most %d characters", limit),
			Found:    fmt.Sprintf("%d", n),
		}
	}
	return nil
}

// A cursor is where a parser is in a text.
type cursor struct {
	text  string
	at    int // the next byte
	depth int // open parentheses and negations
}

func (c *cursor) rest() string { return c.text[c.at:] }

func (c *cursor) errorExpecting(what string) error { return syntaxError(c.text, c.at, what) }

func (c *cursor) skipBlanks() {
	for c.at < len(c.text) && isBlank(rune(c.text[c.at])) {
		c.at++
	}
}

// descend counts a level of nesting, because the parsers recurse.
func (c *cursor) descend() error {
	if c.depth++; c.depth > MaxDepth {
		return c.errorExpecting(fmt.Sprintf("at most %d levels of parentheses and negations", MaxDepth))
	}
	return nil
}

// readChain reads operands with a connective between them. A chain within a chain of the same kind
// becomes part of it, so that "a or (b or c)" has three operands.
func readChain(or bool, operand func() (node, error), connective func() bool) (nodes []node, err error) {
	for {
		n, err := operand()
		if err != nil {
			return nil, err
		}
		if inner, ok := n.(*chain); ok && inner.or == or {
			nodes = append(nodes, inner.nodes...)
		} else {
			nodes = append(nodes, n)
		}
		if !connective() {
			return nodes, nil
		}
	}
}
