package constraint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseQuery compiles an expression of the ECS cluster query language (S3). Its errors are
// *SyntaxError. They also name the constructs of Java's regular expressions that Berth does not
// have.
func ParseQuery(text string) (*Expression, error) {
	if err := checkLength(text, MaxQueryLength); err != nil {
		return nil, err
	}
	p := &queryParser{cursor{text: text}}
	root, err := p.parseChain(levelOr)
	if err != nil {
		return nil, err
	}
	if p.skipBlanks(); p.at < len(p.text) {
		return nil, p.errorExpecting("and, or, or the end")
	}
	e := &Expression{root: root, static: true}
	return e, walk(root, func(n node) error {
		if c, ok := n.(*comparison); ok && !c.isStatic() {
			e.static = false
		}
		return nil
	})
}

// queryParser reads a query from the left.
type queryParser struct{ cursor }

// accept skips blanks and then a symbol, if it comes next.
func (p *queryParser) accept(symbol string) bool {
	p.skipBlanks()
	if !strings.HasPrefix(p.rest(), symbol) {
		return false
	}
	p.at += len(symbol)
	return true
}

// acceptWord skips blanks and then a word in any case, if it comes next as a whole.
func (p *queryParser) acceptWord(w string) bool {
	p.skipBlanks()
	end := len(subjectText(p.rest()))
	if !strings.EqualFold(p.rest()[:end], w) {
		return false
	}
	p.at += end
	return true
}

// parseChain reads operands of "or", or of "and" below it.
func (p *queryParser) parseChain(level int) (node, error) {
	nodes, err := readChain(level == levelOr,
		func() (node, error) { return p.parseOperand(level) }, func() bool { return p.acceptConnective(level) })
	switch {
	case err != nil:
		return nil, err
	case len(nodes) == 1:
		return nodes[0], nil
	case level == levelOr:
		return &chain{operator: "or", or: true, nodes: nodes}, nil
	}
	return &chain{operator: "and", nodes: nodes}, nil
}

// parseOperand reads an operand of "or" (a chain of "and"), or of "and" (a negation).
func (p *queryParser) parseOperand(level int) (node, error) {
	if level == levelOr {
		return p.parseChain(levelAnd)
	}
	return p.parseNegation()
}

// acceptConnective skips the "or", or the "and", between two operands, if it comes next.
func (p *queryParser) acceptConnective(level int) bool {
	if level == levelOr {
		return p.accept("||") || p.acceptWord("or")
	}
	return p.accept("&&") || p.acceptWord("and")
}

// parseNegation reads "not", parentheses, or a comparison.
func (p *queryParser) parseNegation() (node, error) {
	switch {
	case p.accept("("):
		if err := p.descend(); err != nil {
			return nil, err
		}
		n, err := p.parseChain(levelOr)
		if err != nil {
			return nil, err
		}
		if !p.accept(")") {
			return nil, p.errorExpecting("and, or, or )")
		}
		p.depth--
		return n, nil
	case p.accept("!"), p.acceptWord("not"):
		if err := p.descend(); err != nil {
			return nil, err
		}
		n, err := p.parseNegation()
		if err != nil {
			return nil, err
		}
		p.depth--
		return &negation{n}, nil
	}
	return p.parseComparison()
}

// subjectText returns the beginning of a text that can be part of a subject.
func subjectText(text string) string {
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte("-_./\\:", c) < 0 {
			return text[:i]
		}
	}
	return text
}

// parseComparison reads a subject, an operator that it has, and the operator's arguments.
func (p *queryParser) parseComparison() (node, error) {
	p.skipBlanks()
	c := &comparison{}
	text := subjectText(p.rest())
	switch s, known := subjectOf(text); {
	case !known:
		return nil, p.errorExpecting(
			"a subject (agentConnected, agentVersion, attribute:NAME, ec2InstanceId, registeredAt, " +
				"runningTasksCount, task:group), not or (",
		)
	case s == subjectAttribute:
		c.name = text[len(subjectNames[s]):]
		if i := strings.IndexByte(c.name, ':'); i >= 0 || c.name == "" {
			p.at += len(subjectNames[s]) + max(i, 0)
			return nil, p.errorExpecting("the name of an attribute, of letters, digits and - _ . / \\")
		}
	default:
		c.subject = s
	}
	p.at += len(text)
	if err := p.parseOperator(c); err != nil {
		return nil, err
	}
	return c, p.parseArguments(c)
}

// subjectOf returns the subject that a text names. Unlike the words of the language, subjects are
// case-sensitive, as in ECS.
func subjectOf(text string) (subject, bool) {
	if strings.HasPrefix(text, subjectNames[subjectAttribute]) {
		return subjectAttribute, true
	}
	for s, name := range subjectNames {
		if text == name {
			return s, true
		}
	}
	return 0, false
}

// parseOperator reads the operator of a comparison, which must be one that the subject has.
func (p *queryParser) parseOperator(c *comparison) error {
	p.skipBlanks()
	allowed := subjectOperators[c.subject]
	found, length := operator(-1), 0
	for op, forms := range operatorForms {
		for _, form := range forms {
			if len(form) > length && startsWith(p.rest(), form) {
				found, length = op, len(form)
			}
		}
	}
	if !slices.Contains(allowed, found) {
		names := make([]string, len(allowed))
		for i, op := range allowed {
			names[i] = op.String()
		}
		return p.errorExpecting("an operator (" + strings.Join(names, ", ") + ")")
	}
	p.at += length
	c.op = found
	c.base, c.negated = found.withoutNot()
	return nil
}

// startsWith reports whether a text begins with an operator, in any case. A word must end there.
func startsWith(text, form string) bool {
	if len(text) < len(form) || !strings.EqualFold(text[:len(form)], form) {
		return false
	}
	return !isLetter(form[len(form)-1]) || word(text[len(form):]) == ""
}

// parseArguments reads and compiles the arguments that the operator of a comparison has.
func (p *queryParser) parseArguments(c *comparison) error {
	p.skipBlanks()
	switch c.base {
	case opExists:
		return nil
	case opIn:
		return p.parseList(c)
	case opMatch:
		arg, start, next, err := readArgument(p.text, p.at, barePattern, "a regular expression")
		if err != nil {
			return err
		}
		c.args = []string{arg}
		c.pattern, err = compilePattern(p.text, start, arg)
		p.at = next
		return err
	}
	return p.parseValue(c)
}

// parseValue reads one value and compiles it for the subject.
func (p *queryParser) parseValue(c *comparison) error {
	arg, start, next, err := readArgument(p.text, p.at, bareValue, "a value")
	if err != nil {
		return err
	}
	c.args = append(c.args, arg)
	ok, expected := true, ""
	switch c.subject {
	case subjectAgentConnected:
		ok, expected = arg == "true" || arg == "false", "true or false"
	case subjectAgentVersion:
		ok, expected = isVersion(arg), "a version, like 1.14.5"
	case subjectRegisteredAt:
		c.seconds, ok = parseDate(arg)
		expected = "a date, like 2018-06-18, 2018-06-18T22:28:28, 2018-06-18T22:28:28Z or 2018-06-18T22:28:28+00:00"
	case subjectRunningTasks:
		c.count, err = strconv.Atoi(arg)
		ok, expected = err == nil, "a whole number"
	case subjectAttribute:
		c.number, c.numeric = parseDecimal(arg)
	}
	if !ok {
		return syntaxError(p.text, start, expected)
	}
	p.at = next
	return nil
}

// parseList reads the values of "in".
func (p *queryParser) parseList(c *comparison) error {
	if !p.accept("[") {
		return p.errorExpecting("a list in [ ]")
	}
	for {
		p.skipBlanks()
		if len(c.args) == MaxListLength {
			return p.errorExpecting(fmt.Sprintf("at most %d values in a list", MaxListLength))
		}
		if err := p.parseValue(c); err != nil {
			return err
		}
		if p.accept("]") {
			return nil
		}
		if !p.accept(",") {
			return p.errorExpecting(", or ]")
		}
	}
}
