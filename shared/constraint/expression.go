package constraint

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of an expression, in characters: the ECS API's for a query, Berth's own for node
// properties; and how deep parentheses and negations nest and how long a list is.
const (
	MaxQueryLength    = 2000
	MaxPropertyLength = 10000
	MaxDepth          = 100
	MaxListLength     = 500
)

// Subject is the instance that an expression is about, as it is now.
type Subject interface {
	// Attribute is the value of an attribute in ECS's sense; false where the instance does not have
	// it.
	Attribute(name string) (string, bool)
	// Property is the value of a node property (P7); false where the node does not have it.
	Property(name string) (string, bool)
	AgentConnected() bool
	// AgentVersion is that of the container agent, "1.14.5", and empty where it is not known.
	AgentVersion() string
	// EC2InstanceID is empty for an instance outside EC2.
	EC2InstanceID() string
	RegisteredAt() time.Time
	// RunningTasks counts the tasks on the instance.
	RunningTasks() int
	// Groups yields the group of each task on the instance, in any order, until yield says no.
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
// `FDPolicy ~ …`, `PlacePolicy ~ …`. As in Service Fabric the first letter of the value counts, in
// either case.
type Directives struct {
	// DomainPolicy is "nonpacking" or "ignore", and empty where the expression names neither.
	DomainPolicy string
	// AllOrNothing: all instances of a service are placed or none (NonPartially).
	AllOrNothing bool
}

// node is a part of an expression.
type node interface {
	evaluate(s Subject, primary bool) (bool, error)
	// print writes the part, in parentheses where it binds less than level.
	print(b *strings.Builder, level int)
}

// Matches reports whether the instance satisfies the expression; one that cannot be evaluated is
// not satisfied (P7).
func (e *Expression) Matches(s Subject) bool {
	ok, err := e.root.evaluate(s, false)
	return ok && err == nil
}

// Evaluate is Matches with the reason why an expression over node properties has no value there: an
// *EvaluationError. With primary it is judged for a primary replica: ^P and !^P count and all other
// comparisons do not (P7).
func (e *Expression) Evaluate(s Subject, primary bool) (bool, error) {
	return e.root.evaluate(s, primary)
}

// Static reports whether the answer depends on the instance's own row alone, and not on the tasks
// there.
func (e *Expression) Static() bool { return e.static }

// String is the expression in canonical form: it parses to the same.
func (e *Expression) String() string {
	var b strings.Builder
	e.root.print(&b, 0)
	return b.String()
}

// PropertyNames are the node properties that the expression asks for, sorted, each once.
func (e *Expression) PropertyNames() []string { return slices.Clone(e.properties) }

// Directives are the policies that the expression sets.
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

// Validate says why the expression cannot be evaluated on any of the nodes (P7): a property that
// none of them has, or a comparison that is an error on all that have it. The nodes need not agree:
// each property must be on one of them, as Service Fabric demands of a service that is created or
// changed. Without nodes every property is missing.
func (e *Expression) Validate(nodes iter.Seq[Subject]) error {
	return each(e.root, func(n node) error {
		switch n := n.(type) {
		case *propertyComparison:
			return n.validate(nodes)
		case *malformed:
			return n.err
		}
		return nil
	})
}

// each calls f for a node and all below it, from the left, until f returns an error.
func each(n node, f func(node) error) error {
	if err := f(n); err != nil {
		return err
	}
	if p, ok := n.(interface{ parts() []node }); ok {
		for _, part := range p.parts() {
			if err := each(part, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// EvaluationError says why a node-property constraint has no value on a node.
type EvaluationError struct {
	// Property is the name that was looked up, empty where the expression itself is at fault.
	Property string
	Reason   string
}

// Error is the reason.
func (e *EvaluationError) Error() string { return e.Reason }

// SyntaxError is what is wrong with the text of an expression.
type SyntaxError struct {
	// Position is the offset in characters from the beginning, 0 for the first.
	Position int
	Expected string
	// Found is what stands there, shortened; empty at the end of the text.
	Found string
}

// Column is the position as people count: 1 for the first character.
func (e *SyntaxError) Column() int { return e.Position + 1 }

// Error names the column, what was expected there and what stands there.
func (e *SyntaxError) Error() string {
	found := "the end"
	if e.Found != "" {
		found = fmt.Sprintf("%q", e.Found)
	}
	return fmt.Sprintf("column %d: expected %s, found %s", e.Column(), e.Expected, found)
}

// syntaxError is an error at a byte offset of a text.
func syntaxError(text string, offset int, expected string) *SyntaxError {
	return &SyntaxError{
		Position: utf8.RuneCountInString(text[:offset]), Expected: expected, Found: excerpt(text[offset:]),
	}
}

// excerpt is the beginning of a text up to a blank, of a readable length.
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

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' }

// checkLength refuses a text of more than limit characters.
func checkLength(text string, limit int) error {
	if n := utf8.RuneCountInString(text); n > limit {
		return &SyntaxError{Position: limit, Expected: fmt.Sprintf("at most %d characters", limit),
			Found: fmt.Sprintf("%d", n)}
	}
	return nil
}
