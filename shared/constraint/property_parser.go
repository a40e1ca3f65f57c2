package constraint

import (
	"fmt"
	"slices"
	"strings"
)

// ParseProperties compiles a node-property constraint (P7); a text of blanks alone matches all. Its
// errors are *SyntaxError.
func ParseProperties(text string) (*Expression, error) {
	if err := checkLength(text, MaxPropertyLength); err != nil {
		return nil, err
	}
	e := &Expression{root: &literal{"true"}, static: true}
	if strings.TrimFunc(text, isBlank) == "" {
		return e, nil
	}
	p := &propertyParser{text: text}
	root, err := p.chain(levelEither)
	if err != nil {
		return nil, err
	}
	if p.blanks(); p.at < len(p.text) {
		return nil, syntaxError(p.text, p.at, "an operator or the end")
	}
	e.root = root
	if err := each(root, e.learn); err != nil {
		return nil, err
	}
	slices.Sort(e.properties)
	e.properties = slices.Compact(e.properties)
	return e, nil
}

// learn notes the properties and directives of a comparison. Of several directives of a kind the
// leftmost counts.
func (e *Expression) learn(n node) error {
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

// propertyParser reads a node-property constraint from the left; at is the next byte.
type propertyParser struct {
	text  string
	at    int
	depth int
}

func (p *propertyParser) blanks() {
	for p.at < len(p.text) && isBlank(rune(p.text[p.at])) {
		p.at++
	}
}

// operatorAt is the operator or parenthesis that begins at a byte, empty where a token goes on.
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

// take skips blanks and then an operator, if it comes next as a whole: the ! of != is none.
func (p *propertyParser) take(op string) bool {
	p.blanks()
	if p.at == len(p.text) || p.operatorAt(p.at) != op {
		return false
	}
	p.at += len(op)
	return true
}

// enter counts a level of nesting.
func (p *propertyParser) enter() error {
	if p.depth++; p.depth > MaxDepth {
		return syntaxError(p.text, p.at, fmt.Sprintf("at most %d levels of parentheses and negations", MaxDepth))
	}
	return nil
}

// chain reads operands of ||, or of && below it. A chain within a chain of the same kind becomes
// part of it.
func (p *propertyParser) chain(level int) (node, error) {
	op := "||"
	if level == levelBoth {
		op = "&&"
	}
	var nodes []node
	for {
		n, err := p.operand(level)
		if err != nil {
			return nil, err
		}
		if inner, ok := n.(*propertyChain); ok && inner.or == (level == levelEither) {
			nodes = append(nodes, inner.nodes...)
		} else {
			nodes = append(nodes, n)
		}
		if !p.take(op) {
			break
		}
	}
	if len(nodes) == 1 {
		return nodes[0], nil
	}
	if slices.ContainsFunc(nodes, isLiteral) {
		return &malformed{op, level, nodes,
			&EvaluationError{Reason: op + " joins comparisons, and one of its operands is none"}}, nil
	}
	return &propertyChain{level == levelEither, nodes}, nil
}

func (p *propertyParser) operand(level int) (node, error) {
	if level == levelEither {
		return p.chain(levelBoth)
	}
	return p.comparison()
}

func isLiteral(n node) bool {
	_, ok := n.(*literal)
	return ok
}

// comparison reads comparisons, which associate to the left.
func (p *propertyParser) comparison() (node, error) {
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	for {
		op, ok := p.comparator()
		if !ok {
			return left, nil
		}
		right, err := p.unary()
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

// comparator reads the operator of a comparison, if one comes next.
func (p *propertyParser) comparator() (propertyOperator, bool) {
	for _, op := range propertyOperators {
		if p.take(op.text) {
			return op, true
		}
	}
	return propertyOperator{}, false
}

// unary reads !, parentheses, or a token.
func (p *propertyParser) unary() (node, error) {
	switch {
	case p.take("!"):
		if err := p.enter(); err != nil {
			return nil, err
		}
		n, err := p.unary()
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
	case p.take("("):
		if err := p.enter(); err != nil {
			return nil, err
		}
		n, err := p.chain(levelEither)
		if err != nil {
			return nil, err
		}
		if !p.take(")") {
			return nil, syntaxError(p.text, p.at, "an operator or )")
		}
		p.depth--
		return n, nil
	}
	return p.token()
}

func (p *propertyParser) token() (node, error) {
	p.blanks()
	end := p.at
	for end < len(p.text) && p.operatorAt(end) == "" {
		end++
	}
	text := strings.TrimRight(p.text[p.at:end], blanks)
	if text == "" {
		return nil, syntaxError(p.text, p.at, "a property or literal, ! or (")
	}
	p.at = end
	return &literal{text}, nil
}
