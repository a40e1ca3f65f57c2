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

// statement is one write in DynamoDB's terms: it puts item, or updates by an expression, or deletes
// if it has neither. It does exactly what [state.Write.Apply] says. Example, the stop of a task:
//
//	update     SET #de = :3, #sc = :4, #rs = :5, #rv = #rv + :6
//	condition  #de = :0 AND begins_with(#sk, :1) AND (attribute_not_exists(#la) OR #la <> :2)
type statement struct {
	key       state.Key
	item      item   // of a put
	update    string // of an update
	condition string
	names     map[string]string // placeholders of attribute names
	values    item              // placeholders of values
	version   bool              // it moves the placement version
	creates   bool              // it puts a row that was not there
	at        item              // the place of a row that is not at the one of its key; nil elsewhere
}

// place returns the attributes of the key of the statement's item.
func (st statement) place() item {
	if st.at != nil {
		return st.at
	}
	return keyAttributes(st.key)
}

// expressions collects the clauses of one statement. Every name is written as a placeholder,
// because many are reserved words of DynamoDB.
type expressions struct {
	names               map[string]string
	values              item
	set, remove, demand []string
}

func newExpressions() *expressions {
	return &expressions{names: map[string]string{}, values: item{}}
}

func (e *expressions) namePlaceholder(attr string) string {
	e.names["#"+attr] = attr
	return "#" + attr
}

// valuePlaceholder names values by their number: :0, :1, ...
func (e *expressions) valuePlaceholder(v types.AttributeValue) string {
	name := ":" + strconv.Itoa(len(e.values))
	e.values[name] = v
	return name
}

// assignAttribute sets the attribute, or removes it if its value is empty: the row's JSON would
// leave it out, too, and an update must lead to the same item as a put.
func (e *expressions) assignAttribute(attr string, v types.AttributeValue, empty bool) {
	if empty {
		e.remove = append(e.remove, e.namePlaceholder(attr))
		return
	}
	e.set = append(e.set, e.namePlaceholder(attr)+" = "+e.valuePlaceholder(v))
}

func (e *expressions) assignText(attr, s string) {
	e.assignAttribute(attr, stringAttribute(s), s == "")
}

func (e *expressions) assignTime(attr string, t time.Time) {
	e.assignAttribute(attr, stringAttribute(t.UTC().Format(time.RFC3339Nano)), t.IsZero())
}

// incrementAttribute counts on by one, which no writer can get wrong by having read an old value.
func (e *expressions) incrementAttribute(attr string) {
	e.set = append(e.set,
		e.namePlaceholder(attr)+" = "+e.namePlaceholder(attr)+" + "+e.valuePlaceholder(numberAttribute(1)))
}

// keepIfPresent sets the attribute only if the row has none.
func (e *expressions) keepIfPresent(attr, s string) {
	if s != "" {
		e.set = append(e.set, fmt.Sprintf("%s = if_not_exists(%[1]s, %s)", e.namePlaceholder(attr),
			e.valuePlaceholder(stringAttribute(s))))
	}
}

func (e *expressions) addCondition(format string, args ...any) {
	e.demand = append(e.demand, fmt.Sprintf(format, args...))
}

func (e *expressions) attributeAbsent(attr string) string {
	return "attribute_not_exists(" + e.namePlaceholder(attr) + ")"
}

// buildStatement joins the clauses. All conditions must hold; which one failed follows from the
// item that DynamoDB returns.
func (e *expressions) buildStatement(key state.Key) statement {
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

func numberAttribute(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// statementFor returns the one statement of a write, which has exactly one of these fields set.
func statementFor(w state.Write) (statement, error) {
	switch {
	case w.Put != nil && w.Any:
		return putAnyStatement(w.Put)
	case w.Put != nil:
		return putStatement(w.Put)
	case w.Delete != nil:
		return deleteStatement(*w.Delete, w.Rev), nil
	case w.Stop != nil:
		return stopStatement(w.Stop), nil
	case w.Claim != nil:
		return claimStatement(w.Claim), nil
	case w.Observe != nil:
		return observeStatement(w.Observe), nil
	}
	return statement{}, fmt.Errorf("the write changes nothing")
}

// putStatement replaces a row of the revision before, or creates one of revision 1.
func putStatement(row state.Row) (statement, error) {
	it, err := encodeRow(row)
	if err != nil {
		return statement{}, err
	}
	e := newExpressions()
	if rev := row.Header().Rev; rev == 1 {
		e.addCondition("%s", e.attributeAbsent("rv"))
	} else {
		e.addCondition("%s = %s", e.namePlaceholder("rv"), e.valuePlaceholder(numberAttribute(rev-1)))
	}
	s := e.buildStatement(state.KeyOf(row))
	s.item, s.creates = it, row.Header().Rev == 1
	return s, nil
}

// putAnyStatement is an update, because a put could not count the revision on. It sets the
// attributes that the row has, and removes those that its kind can have and the row has not.
func putAnyStatement(row state.Row) (statement, error) {
	it, err := encodeRow(row)
	if err != nil {
		return statement{}, err
	}
	e := newExpressions()
	for _, attr := range attributeNames(reflect.TypeOf(row).Elem()) {
		v, ok := it[attr]
		if attr != partitionKey && attr != "rv" {
			e.assignAttribute(attr, v, !ok)
		}
	}
	rv, none, one := e.namePlaceholder("rv"), e.valuePlaceholder(numberAttribute(0)),
		e.valuePlaceholder(numberAttribute(1))
	e.set = append(e.set, fmt.Sprintf("%s = if_not_exists(%[1]s, %s) + %s", rv, none, one))
	return e.buildStatement(state.KeyOf(row)), nil
}

// attributeNames returns the names of all fields that a kind of row can have, by their JSON tags.
func attributeNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			names = append(names, attributeNames(f.Type)...)
		case name != "":
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// deleteStatement deletes the row of one revision, or of any if rev is 0.
func deleteStatement(key state.Key, rev int64) statement {
	if rev == 0 {
		return statement{key: key}
	}
	e := newExpressions()
	e.addCondition("%s = %s", e.namePlaceholder("rv"), e.valuePlaceholder(numberAttribute(rev)))
	return e.buildStatement(key)
}

// requireNotStopped requires that ECS has not reported the task STOPPED.
func (e *expressions) requireNotStopped() {
	e.addCondition("(%s OR %s <> %s)", e.attributeAbsent("la"), e.namePlaceholder("la"),
		e.valuePlaceholder(stringAttribute(string(cluster.TaskStopped))))
}

// requireDesiredRunning requires a task that should run. Other kinds of rows use the same attribute
// names, hence the condition on the key.
func (e *expressions) requireDesiredRunning() {
	e.addCondition("%s = %s", e.namePlaceholder("de"), e.valuePlaceholder(stringAttribute(string(cluster.TaskRunning))))
	e.addCondition("begins_with(%s, %s)", e.namePlaceholder(sortKey),
		e.valuePlaceholder(stringAttribute(state.PrefixTask)))
}

// stopStatement records that a task should stop, and why, once.
func stopStatement(s *state.Stop) statement {
	e := newExpressions()
	e.requireDesiredRunning()
	e.requireNotStopped()
	e.assignText("de", string(cluster.TaskStopped))
	e.assignText("sc", s.Code)
	e.assignText("rs", s.Reason)
	e.incrementAttribute("rv")
	return e.buildStatement(s.Task)
}

// claimStatement lets one dispatch start a task: the attempt before must be the last one, and ECS
// must not have reported the task.
func claimStatement(c *state.Claim) statement {
	e := newExpressions()
	e.requireDesiredRunning()
	e.addCondition("%s", e.attributeAbsent("la"))
	if c.Attempt == 1 {
		e.addCondition("%s", e.attributeAbsent("at"))
	} else {
		e.addCondition("%s = %s", e.namePlaceholder("at"), e.valuePlaceholder(numberAttribute(int64(c.Attempt-1))))
	}
	e.assignAttribute("at", numberAttribute(int64(c.Attempt)), c.Attempt == 0)
	e.assignTime("cl", c.At)
	e.incrementAttribute("rv")
	return e.buildStatement(c.Task)
}

// observeStatement records a report of ECS if it is news, the task has not STOPPED, and the row is not of
// another ECS task.
func observeStatement(o *state.Observation) statement {
	e := newExpressions()
	e.addCondition("begins_with(%s, %s)", e.namePlaceholder(sortKey),
		e.valuePlaceholder(stringAttribute(state.PrefixTask)))
	ve, version := e.namePlaceholder("ve"), e.valuePlaceholder(numberAttribute(o.Version))
	news := fmt.Sprintf("%s < %s", ve, version)
	if o.Version > 0 {
		news = e.attributeAbsent("ve") + " OR " + news
	}
	if o.Version > 0 && o.ReportsHealth() {
		news += fmt.Sprintf(" OR %s = %s AND (%s OR %s <> %s)", ve, version, e.attributeAbsent("he"),
			e.namePlaceholder("he"), e.valuePlaceholder(stringAttribute(o.Health.String())))
	}
	e.addCondition("(%s)", news)
	e.requireNotStopped()
	e.assignAttribute("ve", numberAttribute(o.Version), o.Version == 0)
	e.assignText("la", string(o.Last))
	if o.ReportsHealth() {
		e.assignText("he", o.Health.String())
	}
	e.incrementAttribute("rv")
	if o.ECSID != "" {
		e.addCondition("(%s OR %s = %s)", e.attributeAbsent("ei"), e.namePlaceholder("ei"),
			e.valuePlaceholder(stringAttribute(o.ECSID)))
		e.assignText("ei", o.ECSID)
	}
	if !o.Started.IsZero() {
		e.assignTime("sa", o.Started)
	}
	if o.Last == cluster.TaskStopped {
		e.assignStopped(o)
	}
	if o.Expires != 0 {
		e.assignAttribute("ttl", numberAttribute(o.Expires), false)
	}
	return e.buildStatement(o.Task)
}

// assignStopped records how a task ended. The reason for which Berth stopped it is kept.
func (e *expressions) assignStopped(o *state.Observation) {
	e.assignTime("so", o.Stopped)
	e.assignText("he", cluster.UnknownHealth.String())
	if o.ExitCode == nil {
		e.remove = append(e.remove, e.namePlaceholder("ex"))
	} else {
		e.assignAttribute("ex", numberAttribute(int64(*o.ExitCode)), false)
	}
	e.keepIfPresent("sc", o.StopCode)
	e.keepIfPresent("rs", o.Reason)
}

// moveVersionStatement increments the cluster's placement version, if it is v.
func moveVersionStatement(clusterName string, v int64) statement {
	e := newExpressions()
	e.addCondition("%s = %s", e.namePlaceholder("v"), e.valuePlaceholder(numberAttribute(v)))
	e.incrementAttribute("v")
	e.incrementAttribute("rv")
	s := e.buildStatement(state.Key{Cluster: clusterName, Sort: state.PrefixMeta})
	s.version = true
	return s
}
