package constraint

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// subject is what a comparison of the cluster query language looks at.
type subject int

const (
	subjectAttribute subject = iota
	subjectAgentConnected
	subjectAgentVersion
	subjectEC2InstanceID
	subjectRegisteredAt
	subjectRunningTasks
	subjectGroup
)

// subjectNames has the subjects as they are written. The name of an attribute follows its prefix.
var subjectNames = map[subject]string{
	subjectAttribute: "attribute:", subjectAgentConnected: "agentConnected", subjectAgentVersion: "agentVersion",
	subjectEC2InstanceID: "ec2InstanceId", subjectRegisteredAt: "registeredAt",
	subjectRunningTasks: "runningTasksCount",
	subjectGroup:        "task:group",
}

// operator is a comparison of the cluster query language.
type operator int

const (
	opEqual operator = iota
	opNotEqual
	opGreater
	opGreaterEqual
	opLess
	opLessEqual
	opExists
	opNotExists
	opIn
	opNotIn
	opMatch
	opNotMatch
)

// operatorForms has the two ways to write each operator, the symbol first.
var operatorForms = map[operator][2]string{
	opEqual: {"==", "equals"}, opNotEqual: {"!=", "not_equals"}, opGreater: {">", "greater_than"},
	opGreaterEqual: {">=", "greater_than_equal"}, opLess: {"<", "less_than"}, opLessEqual: {"<=", "less_than_equal"},
	opExists: {"exists", "exists"}, opNotExists: {"!exists", "not_exists"}, opIn: {"in", "in"},
	opNotIn: {"!in", "not_in"},
	opMatch: {"=~", "matches"}, opNotMatch: {"!~", "not_matches"},
}

// String returns the symbol, or the word if there is no symbol.
func (o operator) String() string { return operatorForms[o][0] }

// The operators that ECS documents for each subject; an attribute takes all. For task:group it
// documents none, so that takes all but those that compare by order.
var (
	equalities = []operator{opEqual, opNotEqual}
	orders     = []operator{opGreater, opGreaterEqual, opLess, opLessEqual}
	members    = []operator{opIn, opNotIn, opMatch, opNotMatch}
	presences  = []operator{opExists, opNotExists}

	subjectOperators = map[subject][]operator{
		subjectAttribute:      slices.Concat(equalities, orders, members, presences),
		subjectAgentConnected: slices.Concat(equalities, members),
		subjectAgentVersion:   slices.Concat(equalities, orders),
		subjectEC2InstanceID:  slices.Concat(equalities, members),
		subjectRegisteredAt:   slices.Concat(equalities, orders),
		subjectRunningTasks:   slices.Concat(equalities, orders),
		subjectGroup:          slices.Concat(equalities, members, presences),
	}
)

// withoutNot returns the operator without its negation, and whether it has one: != is == negated.
func (o operator) withoutNot() (operator, bool) {
	switch o {
	case opNotEqual:
		return opEqual, true
	case opNotExists:
		return opExists, true
	case opNotIn:
		return opIn, true
	case opNotMatch:
		return opMatch, true
	}
	return o, false
}

// matchesMissing is the answer for a subject without a value. Only !exists holds. As in ECS, !=
// does not (aws/containers-roadmap #486, aws/amazon-ecs-agent #672).
func (o operator) matchesMissing() bool { return o == opNotExists }

// acceptsOrder reports whether an order (below 0, 0, above 0) satisfies a comparison by order or
// equality.
func (o operator) acceptsOrder(order int) bool {
	switch o {
	case opEqual:
		return order == 0
	case opGreater:
		return order > 0
	case opGreaterEqual:
		return order >= 0
	case opLess:
		return order < 0
	case opLessEqual:
		return order <= 0
	}
	return false
}

// comparison compares one subject with its arguments.
type comparison struct {
	subject subject
	name    string // of an attribute
	op      operator
	args    []string // without quotes: one, the list, or none
	// The compiled operator and arguments.
	base    operator // op without its negation
	negated bool
	pattern *pattern
	number  float64 // for the order of an attribute, if numeric
	numeric bool
	seconds int64 // of registeredAt, since 1970
	count   int
}

// evaluate handles the subjects that are not texts, and then compares text. The query language has
// no primary replicas, and its evaluation has no errors.
func (c *comparison) evaluate(s Subject, _ bool) (bool, error) {
	switch c.subject {
	case subjectGroup:
		return c.matchesAnyGroup(s) != c.negated, nil
	case subjectRunningTasks:
		return c.base.acceptsOrder(cmp.Compare(s.RunningTasks(), c.count)) != c.negated, nil
	case subjectRegisteredAt:
		at := s.RegisteredAt()
		if at.IsZero() {
			return c.op.matchesMissing(), nil
		}
		return c.base.acceptsOrder(cmp.Compare(at.Unix(), c.seconds)) != c.negated, nil
	case subjectAgentVersion:
		v := s.AgentVersion()
		if !isVersion(v) {
			return c.op.matchesMissing(), nil
		}
		return c.base.acceptsOrder(compareVersions(v, c.args[0])) != c.negated, nil
	}
	value, ok := c.subjectValue(s)
	if !ok {
		return c.op.matchesMissing(), nil
	}
	return c.matchesText(value) != c.negated, nil
}

// subjectValue returns the value of a subject that is a text, or false if it has none.
func (c *comparison) subjectValue(s Subject) (string, bool) {
	switch c.subject {
	case subjectAgentConnected:
		if s.AgentConnected() {
			return "true", true
		}
		return "false", true
	case subjectEC2InstanceID:
		id := s.EC2InstanceID()
		return id, id != ""
	}
	return s.Attribute(c.name)
}

// matchesText reports whether a value satisfies the comparison without its negation.
func (c *comparison) matchesText(value string) bool {
	switch c.base {
	case opExists:
		return true
	case opEqual:
		return value == c.args[0]
	case opIn:
		return slices.Contains(c.args, value)
	case opMatch:
		return c.pattern.matches(value)
	}
	if number, ok := parseDecimal(value); ok && c.numeric {
		return c.base.acceptsOrder(cmp.Compare(number, c.number))
	}
	return c.base.acceptsOrder(strings.Compare(value, c.args[0]))
}

// groupSearch looks for a group among those of an instance. Searches are pooled, because a closure
// for each would be allocated for each.
type groupSearch struct {
	comparison *comparison
	found      bool
	visit      func(string) bool
}

var groupSearches = sync.Pool{New: func() any {
	g := &groupSearch{}
	g.visit = func(group string) bool {
		g.found = g.comparison.matchesText(group)
		return !g.found
	}
	return g
}}

// matchesAnyGroup reports whether the group of any task on the instance satisfies the comparison
// without its negation.
func (c *comparison) matchesAnyGroup(s Subject) bool {
	g := groupSearches.Get().(*groupSearch)
	g.comparison, g.found = c, false
	s.Groups(g.visit)
	found := g.found
	g.comparison = nil
	groupSearches.Put(g)
	return found
}

// isStatic reports whether the answer changes only with the row of the instance. The tasks on it
// change without it.
func (c *comparison) isStatic() bool {
	return c.subject != subjectGroup && c.subject != subjectRunningTasks
}

func (c *comparison) print(b *strings.Builder, _ int) {
	b.WriteString(subjectNames[c.subject])
	b.WriteString(c.name)
	b.WriteByte(' ')
	b.WriteString(c.op.String())
	switch c.base {
	case opExists:
		return
	case opMatch:
		b.WriteByte(' ')
		b.WriteString(quoteArgument(c.args[0], barePattern))
	case opIn:
		b.WriteString(" [")
		for i, arg := range c.args {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoteArgument(arg, bareValue))
		}
		b.WriteByte(']')
	default:
		b.WriteByte(' ')
		b.WriteString(quoteArgument(c.args[0], bareValue))
	}
}

// quoteArgument writes an argument so that it is read again as it is: without quotes if bare reads
// all of it. An argument that had quotes does not contain that kind, so one kind always works.
func quoteArgument(arg string, bare func(string) int) string {
	if arg != "" && arg[0] != '\'' && arg[0] != '"' && bare(arg) == len(arg) {
		return arg
	}
	if strings.Contains(arg, "'") {
		return `"` + arg + `"`
	}
	return "'" + arg + "'"
}

// How tightly the parts of an expression bind. A node-property constraint has all of these levels,
// a query the first two.
const (
	levelOr = iota + 1
	levelAnd
	levelCompare
	levelUnary
)

// A chain has the operands of a Boolean operator of either language.
type chain struct {
	operator string
	or       bool
	// strict evaluates all operands, because an error in any of them is the error of the whole.
	strict bool
	nodes  []node
}

func (n *chain) parts() []node { return n.nodes }

// evaluate stops at the first operand that decides, unless the chain is strict.
func (n *chain) evaluate(s Subject, primary bool) (bool, error) {
	result := !n.or
	for _, part := range n.nodes {
		ok, err := part.evaluate(s, primary)
		if err != nil {
			return false, err
		}
		if ok == n.or {
			if result = ok; !n.strict {
				break
			}
		}
	}
	return result, nil
}

func (n *chain) print(b *strings.Builder, outer int) {
	level := levelAnd
	if n.or {
		level = levelOr
	}
	if level < outer {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	for i, part := range n.nodes {
		if i > 0 {
			b.WriteString(" " + n.operator + " ")
		}
		part.print(b, level+1)
	}
}

// negation is "not".
type negation struct{ node node }

func (n *negation) parts() []node { return []node{n.node} }

func (n *negation) evaluate(s Subject, primary bool) (bool, error) {
	ok, err := n.node.evaluate(s, primary)
	return !ok, err
}

func (n *negation) print(b *strings.Builder, _ int) {
	b.WriteString("not(")
	n.node.print(b, 0)
	b.WriteByte(')')
}
