package constraint

import (
	"slices"
	"strings"
)

// ParseProperties compiles a node-property constraint (P7). A blank text matches all nodes. Its
// errors are *SyntaxError.
func ParseProperties(text string) (*Expression, error) {
	if err := checkLength(text, MaxPropertyLength); err != nil {
		return nil, err
	}
	e := &Expression{root: &literal{"true"}, static: true}
	if strings.TrimFunc(text, isBlank) == "" {
		return e, nil
	}
	p := &propertyParser{cursor{text: text}}
	root, err := p.parseChain(levelOr)
	if err != nil {
		return nil, err
	}
	if p.skipBlanks(); p.at < len(p.text) {
		return nil, p.errorExpecting("an operator or the end")
	}
	e.root = root
	if err := walk(root, e.collect); err != nil {
		return nil, err
	}
	slices.Sort(e.properties)
	e.properties = slices.Compact(e.properties)
	return e, nil
}

// collect records the properties and directives of a comparison. Of several directives of a kind,
// the leftmost counts.
func (e *Expression) collect(n node) error {
	c, ok := n.(*propertyComparison)
	switch {
	case !ok:
	case c.op.base != "~":
		e.properties = append(e.properties, c.name)
	case c.name == "FDPolicy" && e.faultPolicy == "":
		e.faultPolicy = c.literal
	case c.name == "PlacePolicy" && e.placePolicy == "":
		e.placePolicy = c.literal
	}
	return nil
}

// propertyParser reads a node-property constraint from the left.
type propertyParser struct{ cursor }

// operatorAt returns the operator or parenthesis that begins at a byte. It is empty inside a token.
func (p *propertyParser) operatorAt(at int) string {
	rest := p.text[at:]
	for _, op := range []string{"(", ")", "||", "&&"} {
		if strings.HasPrefix(rest, op) {
			return op
		}
	}
	for _, op := range propertyOperators {
		if strings.HasPrefix(rest, op.text) {
			return op.text
		}
	}
	if strings.HasPrefix(rest, "!") {
		return "!"
	}
	return ""
}

// accept skips blanks and then an operator, if it comes next as a whole: the ! of != does not.
func (p *propertyParser) accept(op string) bool {
	p.skipBlanks()
	if p.at == len(p.text) || p.operatorAt(p.at) != op {
		return false
	}
	p.at += len(op)
	return true
}

// parseChain reads operands of ||, or of && below it.
func (p *propertyParser) parseChain(level int) (node, error) {
	op := "||"
	if level == levelAnd {
		op = "&&"
	}
	nodes, err := readChain(level == levelOr,
		func() (node, error) { return p.parseOperand(level) }, func() bool { return p.accept(op) })
	if err != nil {
		return nil, err
	}
	if len(nodes) == 1 {
		return nodes[0], nil
	}
	if slices.ContainsFunc(nodes, isLiteral) {
		return &malformed{op, level, nodes,
			&EvaluationError{Reason: op + " joins comparisons, and one of its operands is none"}}, nil
	}
	return &chain{operator: op, or: level == levelOr, strict: true, nodes: nodes}, nil
}

// parseOperand reads an operand of || (a chain of &&), or of && (a comparison).
func (p *propertyParser) parseOperand(level int) (node, error) {
	if level == levelOr {
		return p.parseChain(levelAnd)
	}
	return p.parseComparison()
}

// isLiteral reports whether an operand is a token by itself, which Boolean operators cannot join.
func isLiteral(n node) bool {
	_, ok := n.(*literal)
	return ok
}

// parseComparison reads comparisons, which associate to the left.
func (p *propertyParser) parseComparison() (node, error) {
	left, err := p.parseUnary()
	if err != nil {
		return nil, err
	}
	for {
		op, ok := p.acceptComparator()
		if !ok {
			return left, nil
		}
		right, err := p.parseUnary()
		if err != nil {
			return nil, err
		}
		name, isName := left.(*literal)
		value, isValue := right.(*literal)
		if isName && isValue {
			left = newPropertyComparison(op, name.text, value.text)
			continue
		}
		left = &malformed{op.text, levelCompare, []node{left, right}, &EvaluationError{
			Reason: op.text + " compares a property with a literal, and one of its operands is an expression",
		}}
	}
}

// acceptComparator reads the operator of a comparison, if one comes next.
func (p *propertyParser) acceptComparator() (propertyOperator, bool) {
	for _, op := range propertyOperators {
		if p.accept(op.text) {
			return op, true
		}
	}
	return propertyOperator{}, false
}

// parseUnary reads !, parentheses, or a token.
func (p *propertyParser) parseUnary() (node, error) {
	switch {
	case p.accept("!"):
		if err := p.descend(); err != nil {
			return nil, err
		}
		n, err := p.parseUnary()
		if err != nil {
			return nil, err
		}
		p.depth--
		if isLiteral(n) {
			return &malformed{"!", levelUnary, []node{n}, &EvaluationError{
				Reason: "! denies a comparison, and binds tighter than one: write !(…)",
			}}, nil
		}
		return &propertyNegation{n}, nil
	case p.accept("("):
		if err := p.descend(); err != nil {
			return nil, err
		}
		n, err := p.parseChain(levelOr)
		if err != nil {
			return nil, err
		}
		if !p.accept(")") {
			return nil, p.errorExpecting("an operator or )")
		}
		p.depth--
		return n, nil
	}
	return p.parseToken()
}

// parseToken reads a token up to the next operator or parenthesis. Blanks within it belong to it:
// "a b == c" compares the property "a b".
func (p *propertyParser) parseToken() (node, error) {
	p.skipBlanks()
	end := p.at
	for end < len(p.text) && p.operatorAt(end) == "" {
		end++
	}
	text := strings.TrimRight(p.text[p.at:end], blanks)
	if text == "" {
		return nil, p.errorExpecting("a property or literal, ! or (")
	}
	p.at = end
	return &literal{text}, nil
}
