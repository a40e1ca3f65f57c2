package dynamo

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/cluster"
	"berth/shared/state"
)

// statement is one write in DynamoDB's words: it puts item, or updates by an expression, or deletes. It does exactly
// what [state.Write.Apply] says.
type statement struct {
	key       state.Key
	item      item   // of a put
	update    string // of an update
	condition string
	names     map[string]string
	values    item
	version   bool // it moves the placement version on
}

// expressions collects the clauses of one statement. Every name is a placeholder, as many are reserved words.
type expressions struct {
	names               map[string]string
	values              item
	set, remove, demand []string
}

func newExpressions() *expressions {
	return &expressions{names: map[string]string{}, values: item{}}
}

func (e *expressions) name(attr string) string {
	e.names["#"+attr] = attr
	return "#" + attr
}

func (e *expressions) value(v types.AttributeValue) string {
	name := ":" + strconv.Itoa(len(e.values))
	e.values[name] = v
	return name
}

// assign sets the attribute, or removes it where empty holds, as its JSON would leave it out.
func (e *expressions) assign(attr string, v types.AttributeValue, empty bool) {
	if empty {
		e.remove = append(e.remove, e.name(attr))
		return
	}
	e.set = append(e.set, e.name(attr)+" = "+e.value(v))
}

func (e *expressions) assignText(attr, s string) { e.assign(attr, text(s), s == "") }

func (e *expressions) assignTime(attr string, t time.Time) {
	e.assign(attr, text(t.UTC().Format(time.RFC3339Nano)), t.IsZero())
}

func (e *expressions) count(attr string) {
	e.set = append(e.set, e.name(attr)+" = "+e.name(attr)+" + "+e.value(number(1)))
}

// keep sets the attribute only where the row has none.
func (e *expressions) keep(attr, s string) {
	if s != "" {
		e.set = append(e.set, fmt.Sprintf("%s = if_not_exists(%[1]s, %s)", e.name(attr), e.value(text(s))))
	}
}

func (e *expressions) require(format string, args ...any) {
	e.demand = append(e.demand, fmt.Sprintf(format, args...))
}

func (e *expressions) absent(attr string) string { return "attribute_not_exists(" + e.name(attr) + ")" }

func (e *expressions) statement(key state.Key) statement {
	var clauses []string
	if len(e.set) > 0 {
		clauses = append(clauses, "SET "+strings.Join(e.set, ", "))
	}
	if len(e.remove) > 0 {
		clauses = append(clauses, "REMOVE "+strings.Join(e.remove, ", "))
	}
	return statement{
		key: key, update: strings.Join(clauses, " "), condition: strings.Join(e.demand, " AND "),
		names: e.names, values: e.values,
	}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func newStatement(w state.Write) (statement, error) {
	switch {
	case w.Put != nil && w.Any:
		return putAny(w.Put)
	case w.Put != nil:
		return put(w.Put)
	case w.Delete != nil:
		return deletion(*w.Delete, w.Rev), nil
	case w.Stop != nil:
		return stop(w.Stop), nil
	case w.Claim != nil:
		return claim(w.Claim), nil
	case w.Observe != nil:
		return observe(w.Observe), nil
	}
	return statement{}, fmt.Errorf("a write that says nothing")
}

func put(row state.Row) (statement, error) {
	it, err := encode(row)
	if err != nil {
		return statement{}, err
	}
	e := newExpressions()
	if rev := row.Header().Rev; rev == 1 {
		e.require("%s", e.absent("rv"))
	} else {
		e.require("%s = %s", e.name("rv"), e.value(number(rev-1)))
	}
	s := e.statement(state.KeyOf(row))
	s.item = it
	return s, nil
}

// putAny is an update, as a put could not count the row's writes: it sets what the row has and removes what it has not.
func putAny(row state.Row) (statement, error) {
	it, err := encode(row)
	if err != nil {
		return statement{}, err
	}
	e := newExpressions()
	for _, attr := range attributes(reflect.TypeOf(row).Elem()) {
		v, ok := it[attr]
		if attr != partitionKey && attr != "rv" {
			e.assign(attr, v, !ok)
		}
	}
	rv, none, one := e.name("rv"), e.value(number(0)), e.value(number(1))
	e.set = append(e.set, fmt.Sprintf("%s = if_not_exists(%[1]s, %s) + %s", rv, none, one))
	return e.statement(state.KeyOf(row)), nil
}

// attributes are the names of all fields that a kind of row can have.
func attributes(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			names = append(names, attributes(f.Type)...)
		case name != "":
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func deletion(key state.Key, rev int64) statement {
	if rev == 0 {
		return statement{key: key}
	}
	e := newExpressions()
	e.require("%s = %s", e.name("rv"), e.value(number(rev)))
	return e.statement(key)
}

// notStopped requires that the row has not been reported STOPPED.
func (e *expressions) notStopped() {
	e.require("(%s OR %s <> %s)", e.absent("la"), e.name("la"), e.value(text(string(cluster.TaskStopped))))
}

func (e *expressions) wantsRunning() {
	e.require("%s = %s", e.name("de"), e.value(text(string(cluster.TaskRunning))))
	e.require("begins_with(%s, %s)", e.name(sortKey), e.value(text(state.PrefixTask)))
}

func stop(s *state.Stop) statement {
	e := newExpressions()
	e.wantsRunning()
	e.notStopped()
	e.assignText("de", string(cluster.TaskStopped))
	e.assignText("sc", s.Code)
	e.assignText("rs", s.Reason)
	e.count("rv")
	return e.statement(s.Task)
}

func claim(c *state.Claim) statement {
	e := newExpressions()
	e.wantsRunning()
	e.require("%s", e.absent("la"))
	if c.Attempt == 1 {
		e.require("%s", e.absent("at"))
	} else {
		e.require("%s = %s", e.name("at"), e.value(number(int64(c.Attempt-1))))
	}
	e.assign("at", number(int64(c.Attempt)), c.Attempt == 0)
	e.assignTime("cl", c.At)
	e.count("rv")
	return e.statement(c.Task)
}

func observe(o *state.Observation) statement {
	e := newExpressions()
	e.require("begins_with(%s, %s)", e.name(sortKey), e.value(text(state.PrefixTask)))
	older := fmt.Sprintf("%s < %s", e.name("ve"), e.value(number(o.Version)))
	if o.Version > 0 {
		older = "(" + e.absent("ve") + " OR " + older + ")"
	}
	e.require("%s", older)
	e.notStopped()
	e.assign("ve", number(o.Version), o.Version == 0)
	e.assignText("la", string(o.Last))
	e.assignText("he", o.Health.String())
	e.count("rv")
	if o.ECSID != "" {
		e.require("(%s OR %s = %s)", e.absent("ei"), e.name("ei"), e.value(text(o.ECSID)))
		e.assignText("ei", o.ECSID)
	}
	if !o.Started.IsZero() {
		e.assignTime("sa", o.Started)
	}
	if o.Last == cluster.TaskStopped {
		e.ended(o)
	}
	if o.Expires != 0 {
		e.assign("ttl", number(o.Expires), false)
	}
	return e.statement(o.Task)
}

// ended writes down how a task ended; why Berth stopped it stands.
func (e *expressions) ended(o *state.Observation) {
	e.assignTime("so", o.Stopped)
	if o.ExitCode == nil {
		e.remove = append(e.remove, e.name("ex"))
	} else {
		e.assign("ex", number(int64(*o.ExitCode)), false)
	}
	e.keep("sc", o.StopCode)
	e.keep("rs", o.Reason)
}

// moveVersion moves the cluster's placement version on from v.
func moveVersion(clusterName string, v int64) statement {
	e := newExpressions()
	e.require("%s = %s", e.name("v"), e.value(number(v)))
	e.count("v")
	e.count("rv")
	s := e.statement(state.Key{Cluster: clusterName, Sort: state.PrefixMeta})
	s.version = true
	return s
}
