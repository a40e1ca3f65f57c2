package constraint

import "slices"

// A Comparison is what an expression demands of one attribute or node property.
type Comparison struct {
	Name string
	// Property reports that the name is a node property's, not an attribute's.
	Property bool
	// Values are the values of which the instance must have one. They are empty for other
	// comparisons, such as a pattern or an order.
	Values []string
}

// Comparisons returns what the expression demands of attributes and node properties, from the left.
// What an instance may satisfy without the attribute, as below `not` or with `!exists`, is left
// out.
func (e *Expression) Comparisons() []Comparison { return appendComparisons(nil, e.root) }

func appendComparisons(out []Comparison, n node) []Comparison {
	switch n := n.(type) {
	case *negation, *propertyNegation, *malformed:
		return out
	case *comparison:
		if n.subject != subjectAttribute || n.op.matchesMissing() {
			return out
		}
		c := Comparison{Name: n.name}
		if n.op == opEqual || n.op == opIn {
			c.Values = slices.Clone(n.args)
		}
		return append(out, c)
	case *propertyComparison:
		switch n.op.base {
		case "~", "!=", "!^":
			return out
		case "==":
			return append(out, Comparison{n.name, true, []string{n.literal}})
		}
		return append(out, Comparison{Name: n.name, Property: true})
	case interface{ parts() []node }:
		for _, part := range n.parts() {
			out = appendComparisons(out, part)
		}
	}
	return out
}
