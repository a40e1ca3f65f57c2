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

// subjectNames are the subjects as they are written; an attribute's name follows its prefix.
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

// operatorForms are the operators as they are written, the symbol first.
var operatorForms = map[operator][2]string{
	opEqual: {"==", "equals"}, opNotEqual: {"!=", "not_equals"}, opGreater: {">", "greater_than"},
	opGreaterEqual: {">=", "greater_than_equal"}, opLess: {"<", "less_than"}, opLessEqual: {"<=", "less_than_equal"},
	opExists: {"exists", "exists"}, opNotExists: {"!exists", "not_exists"}, opIn: {"in", "in"},
	opNotIn: {"!in", "not_in"},
	opMatch: {"=~", "matches"}, opNotMatch: {"!~", "not_matches"},
}

func (o operator) String() string { return operatorForms[o][0] }

// The operators that ECS names for its subjects; an attribute takes all. For task:group it names
// none: what asks for an order among groups is left out.
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

// positive is the operator that an operator denies, and whether it denies one.
func (o operator) positive() (operator, bool) {
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

// onMissing is the answer for a subject without a value: it does not exist; nothing else that is
// said of it holds, not even that it is unlike a value (as ECS does it: aws/containers-roadmap
// #486).
func (o operator) onMissing() bool { return o == opNotExists }

// ordered is whether an order (below 0, 0, above 0) satisfies a comparison by order or equality.
func (o operator) ordered(order int) bool {
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
	args    []string // as they were meant, without quotes: one, the list, or none
	// What the arguments say, by subject and operator.
	base    operator // op, or what op denies
	denies  bool
	pattern *pattern
	number  float64 // of an attribute's order, where numeric
	numeric bool
	seconds int64 // of registeredAt, since 1970
	count   int
}

func (c *comparison) evaluate(s Subject, _ bool) (bool, error) {
	switch c.subject {
	case subjectGroup:
		return c.groups(s) != c.denies, nil
	case subjectRunningTasks:
		return c.base.ordered(cmp.Compare(s.RunningTasks(), c.count)) != c.denies, nil
	case subjectRegisteredAt:
		at := s.RegisteredAt()
		if at.IsZero() {
			return c.op.onMissing(), nil
		}
		return c.base.ordered(cmp.Compare(at.Unix(), c.seconds)) != c.denies, nil
	case subjectAgentVersion:
		v := s.AgentVersion()
		if !isVersion(v) {
			return c.op.onMissing(), nil
		}
		return c.base.ordered(compareVersions(v, c.args[0])) != c.denies, nil
	}
	value, ok := c.value(s)
	if !ok {
		return c.op.onMissing(), nil
	}
	return c.text(value) != c.denies, nil
}

// value is the value of a subject that is a text.
func (c *comparison) value(s Subject) (string, bool) {
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

// text is the answer for a value, denial aside.
func (c *comparison) text(value string) bool {
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
		return c.base.ordered(cmp.Compare(number, c.number))
	}
	return c.base.ordered(strings.Compare(value, c.args[0]))
}

// groupSearch looks for a group among those of an instance. Searches are pooled: a function made
// for each would be allocated for each.
type groupSearch struct {
	comparison *comparison
	found      bool
	visit      func(string) bool
}

var groupSearches = sync.Pool{New: func() any {
	g := &groupSearch{}
	g.visit = func(group string) bool {
		g.found = g.comparison.text(group)
		return !g.found
	}
	return g
}}

// groups reports whether the group of any task on the instance satisfies the comparison, denial
// aside.
func (c *comparison) groups(s Subject) bool {
	g := groupSearches.Get().(*groupSearch)
	g.comparison, g.found = c, false
	s.Groups(g.visit)
	found := g.found
	g.comparison = nil
	groupSearches.Put(g)
	return found
}

// static: only the tasks on an instance change without its row.
func (c *comparison) static() bool {
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
		b.WriteString(quoted(c.args[0], barePattern))
	case opIn:
		b.WriteString(" [")
		for i, arg := range c.args {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoted(arg, bareValue))
		}
		b.WriteByte(']')
	default:
		b.WriteByte(' ')
		b.WriteString(quoted(c.args[0], bareValue))
	}
}

// quoted is an argument as it can be read again: bare where bare reads all of it. A text that came
// from quotes lacks them, so one kind of quote always serves.
func quoted(arg string, bare func(string) int) string {
	if arg != "" && arg[0] != '\'' && arg[0] != '"' && bare(arg) == len(arg) {
		return arg
	}
	if strings.Contains(arg, "'") {
		return `"` + arg + `"`
	}
	return "'" + arg + "'"
}

// How tightly the parts of a query bind.
const (
	levelOr = iota + 1
	levelAnd
)

// chain is operands joined by "or", or by "and".
type chain struct {
	or    bool
	nodes []node
}

func (n *chain) parts() []node { return n.nodes }

func (n *chain) evaluate(s Subject, primary bool) (bool, error) {
	for _, part := range n.nodes {
		if ok, err := part.evaluate(s, primary); ok == n.or || err != nil {
			return ok, err
		}
	}
	return !n.or, nil
}

func (n *chain) print(b *strings.Builder, level int) {
	if n.or {
		printChain(b, n.nodes, " or ", levelOr, level)
		return
	}
	printChain(b, n.nodes, " and ", levelAnd, level)
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

// printChain writes operands with an operator of a level between them, in parentheses where outer
// binds more.
func printChain(b *strings.Builder, nodes []node, op string, level, outer int) {
	if level < outer {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	for i, n := range nodes {
		if i > 0 {
			b.WriteString(op)
		}
		n.print(b, level+1)
	}
}
