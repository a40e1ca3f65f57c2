package constraint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseQuery compiles an expression of the ECS cluster query language (S3). Its errors are
// *SyntaxError; they also name what Java's regular expressions have and Berth's do not.
func ParseQuery(text string) (*Expression, error) {
	if err := checkLength(text, MaxQueryLength); err != nil {
		return nil, err
	}
	p := &queryParser{text: text}
	root, err := p.chain(levelOr)
	if err != nil {
		return nil, err
	}
	if p.blanks(); p.at < len(p.text) {
		return nil, p.expected("and, or, or the end")
	}
	e := &Expression{root: root, static: true}
	return e, each(root, func(n node) error {
		if c, ok := n.(*comparison); ok && !c.static() {
			e.static = false
		}
		return nil
	})
}

// queryParser reads a query from the left; at is the next byte.
type queryParser struct {
	text  string
	at    int
	depth int
}

func (p *queryParser) rest() string { return p.text[p.at:] }

func (p *queryParser) blanks() {
	for p.at < len(p.text) && isBlank(rune(p.text[p.at])) {
		p.at++
	}
}

func (p *queryParser) expected(what string) error { return syntaxError(p.text, p.at, what) }

// take skips blanks and then a symbol, if it comes next.
func (p *queryParser) take(symbol string) bool {
	p.blanks()
	if !strings.HasPrefix(p.rest(), symbol) {
		return false
	}
	p.at += len(symbol)
	return true
}

// takeWord skips blanks and then a word in any case, if it comes next as a whole.
func (p *queryParser) takeWord(w string) bool {
	p.blanks()
	end := len(subjectText(p.rest()))
	if !strings.EqualFold(p.rest()[:end], w) {
		return false
	}
	p.at += end
	return true
}

// enter counts a level of nesting.
func (p *queryParser) enter() error {
	if p.depth++; p.depth > MaxDepth {
		return p.expected(fmt.Sprintf("at most %d levels of parentheses and negations", MaxDepth))
	}
	return nil
}

// chain reads operands of "or", or of "and" below it. A chain within a chain of the same kind
// becomes part of it.
func (p *queryParser) chain(level int) (node, error) {
	c := &chain{or: level == levelOr}
	for {
		n, err := p.operand(level)
		if err != nil {
			return nil, err
		}
		if inner, ok := n.(*chain); ok && inner.or == c.or {
			c.nodes = append(c.nodes, inner.nodes...)
		} else {
			c.nodes = append(c.nodes, n)
		}
		if !p.connective(level) {
			break
		}
	}
	if len(c.nodes) == 1 {
		return c.nodes[0], nil
	}
	return c, nil
}

func (p *queryParser) operand(level int) (node, error) {
	if level == levelOr {
		return p.chain(levelAnd)
	}
	return p.negation()
}

func (p *queryParser) connective(level int) bool {
	if level == levelOr {
		return p.take("||") || p.takeWord("or")
	}
	return p.take("&&") || p.takeWord("and")
}

// negation reads "not", parentheses, or a comparison.
func (p *queryParser) negation() (node, error) {
	switch {
	case p.take("("):
		if err := p.enter(); err != nil {
			return nil, err
		}
		n, err := p.chain(levelOr)
		if err != nil {
			return nil, err
		}
		if !p.take(")") {
			return nil, p.expected("and, or, or )")
		}
		p.depth--
		return n, nil
	case p.take("!"), p.takeWord("not"):
		if err := p.enter(); err != nil {
			return nil, err
		}
		n, err := p.negation()
		if err != nil {
			return nil, err
		}
		p.depth--
		return &negation{n}, nil
	}
	return p.comparison()
}

// subjectText is the beginning of a text that can be part of a subject.
func subjectText(text string) string {
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte("-_./\\:", c) < 0 {
			return text[:i]
		}
	}
	return text
}

func (p *queryParser) comparison() (node, error) {
	p.blanks()
	c := &comparison{}
	text := subjectText(p.rest())
	switch s, known := subjectOf(text); {
	case !known:
		return nil,
			p.expected("a subject (agentConnected, agentVersion, attribute:NAME, ec2InstanceId, registeredAt, runningTasksCount, task:group), not or (")
	case s == subjectAttribute:
		c.name = text[len(subjectNames[s]):]
		if i := strings.IndexByte(c.name, ':'); i >= 0 || c.name == "" {
			p.at += len(subjectNames[s]) + max(i, 0)
			return nil, p.expected("the name of an attribute, of letters, digits and - _ . / \\")
		}
	default:
		c.subject = s
	}
	p.at += len(text)
	if err := p.operator(c); err != nil {
		return nil, err
	}
	return c, p.arguments(c)
}

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

// operator reads the operator of a comparison; the subject must know it.
func (p *queryParser) operator(c *comparison) error {
	p.blanks()
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
		return p.expected("an operator (" + strings.Join(names, ", ") + ")")
	}
	p.at += length
	c.op = found
	c.base, c.denies = found.positive()
	return nil
}

// startsWith reports whether a text begins with an operator, in any case; one that ends in a letter
// ends there.
func startsWith(text, form string) bool {
	if len(text) < len(form) || !strings.EqualFold(text[:len(form)], form) {
		return false
	}
	return !isLetter(form[len(form)-1]) || word(text[len(form):]) == ""
}

// arguments reads what the operator of a comparison wants and compiles it.
func (p *queryParser) arguments(c *comparison) error {
	p.blanks()
	switch c.base {
	case opExists:
		return nil
	case opIn:
		return p.list(c)
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
	return p.value(c)
}

// value reads one value and compiles it for the subject.
func (p *queryParser) value(c *comparison) error {
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

// list reads the values of "in".
func (p *queryParser) list(c *comparison) error {
	if !p.take("[") {
		return p.expected("a list in [ ]")
	}
	for {
		p.blanks()
		if len(c.args) == MaxListLength {
			return p.expected(fmt.Sprintf("at most %d values in a list", MaxListLength))
		}
		if err := p.value(c); err != nil {
			return err
		}
		if p.take("]") {
			return nil
		}
		if !p.take(",") {
			return p.expected(", or ]")
		}
	}
}
