package moves_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/state"
	"berth/tests/oracle"
)

// constrained returns a spec of web with a constraint and a domain policy, or none.
func constrained(t *testing.T, expression string, policy cluster.DomainPolicy) *placement.Spec {
	t.Helper()
	x, err := constraint.ParseQuery(expression)
	if err != nil {
		t.Fatal(err)
	}
	return &placement.Spec{Owner: "web", DomainPolicy: policy, Constraints: []*constraint.Expression{x}}
}

// in puts an instance into an upgrade domain.
func in(domain string) oracle.Option { return oracle.Attribute(cluster.AttributeUpgrade, domain) }

// db is a task that a constraint keeps others from.
func db(id, on string) *cluster.Task {
	return oracle.Task(id, on, oracle.Owner("db"), oracle.Group("service:db"))
}

// inThreeDomains returns three tasks in upgrade domain 1 and one in 2, each with an instance to spare, and
// two instances in domain 3.
func inThreeDomains() (rows []state.Row) {
	for n, domain := range []string{"1", "1", "1", "1", "2", "2", "3", "3"} {
		id := fmt.Sprint("i", n)
		if rows = append(rows, oracle.Instance(id, in(domain))); n < 3 || n == 4 {
			rows = append(rows, oracle.Task(fmt.Sprint("t", n), id))
		}
	}
	return rows
}

// A domain in which tasks of others close every instance is none, as when tasks are placed: what is left is
// evened out. With one more instance it is one again.
func TestDomainsThatOthersClose(t *testing.T) {
	m := movers(constrained(t, "not(task:group == service:db)", cluster.PolicyDifference))
	rows := append(inThreeDomains(), db("d6", "i6"), db("d7", "i7"))
	expectMoves(t, plan(rows, m), "t0: i0 > i5")
	expectMoves(t, plan(append(rows, oracle.Instance("i8", in("3"))), m), "t0: i0 > i8")
}

// The owner's own tasks close no domain: these are evened out, although each of their instances is full.
func TestOwnTasksCloseNoDomain(t *testing.T) {
	for expression, own := range map[string]string{
		"runningTasksCount < 1": "", "not(task:group == service:web)": "service:web"} {
		rows := []state.Row{oracle.Instance("c", in("2")), oracle.Instance("d", in("2"))}
		for _, on := range []string{"a", "b"} {
			rows = append(rows, oracle.Instance(on, in("1")), oracle.Task("t"+on, on, oracle.Group(own)))
		}
		m := movers(constrained(t, expression, cluster.PolicyDifference))
		p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...)))
		if p.FindsNothing(m) {
			t.Errorf("%s: the watch finds nothing", expression)
		}
		expectMoves(t, p.PlanMoves(m), "ta: a > c")
	}
}

// Of three domains, the owner's own tasks close two, and another's closes the third: only that one is none, for
// the watch as for moves.
func TestDomainsThatBothClose(t *testing.T) {
	rows := []state.Row{oracle.Instance("other", in("3")), db("d", "other")}
	for n, domain := range []string{"1", "1", "2", "2"} {
		id := fmt.Sprint("i", n)
		rows = append(rows, oracle.Instance(id, in(domain)), oracle.Task(fmt.Sprint("t", n), id))
	}
	m := movers(constrained(t, "runningTasksCount < 1", cluster.PolicyDifference))
	for _, free := range []bool{false, true} {
		if free {
			rows = append(rows, oracle.Instance("free", in("3")))
		}
		p := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...)))
		if found := p.Violations(m); len(found) > 0 != free || p.FindsNothing(m) == free {
			t.Errorf("with a free instance in domain 3, %v: broken is %+v, and the watch finds nothing, %v", free, found,
				p.FindsNothing(m))
		}
	}
}

// Where its own tasks open an instance, the owner has a domain.
func TestOwnTasksOpenADomain(t *testing.T) {
	rows := inThreeDomains()[:10] // without domain 3
	for _, row := range rows {
		if task, ok := row.(*cluster.Task); ok {
			task.Group = "service:web"
		}
	}
	m := movers(constrained(t, "task:group == service:web", cluster.PolicyDifference))
	if found := plan(rows, m).Violations; len(found) != 1 || found[0].Rule != placement.RuleUpgrade {
		t.Errorf("broken is %+v, expected the rule of upgrade domains", found)
	}
}

// What closes an instance leaves it because another task takes its room, although nothing is wrong with it. That the
// domain was closed does not matter.
func TestMovesOpenADomain(t *testing.T) {
	for _, policy := range []cluster.DomainPolicy{cluster.PolicyNone, cluster.PolicyQuorum, cluster.PolicyDifference} {
		web := constrained(t, "not(task:group == service:db)", policy)
		web.Attributes = []string{"web"}
		rows := []state.Row{oracle.Instance("a", in("1"), oracle.Attribute("web", ""), oracle.Metric("m", 5)),
			oracle.Instance("b", in("2"), oracle.Attribute("web", ""), oracle.Metric("m", 10)),
			oracle.Instance("c", in("3"), oracle.Metric("m", 10)),
			oracle.Instance("e", in("1"), oracle.Attribute("web", ""), oracle.Metric("m", 1)),
			oracle.Task("t", "a", oracle.Load(6)),
			oracle.Task("d", "b", oracle.Owner("db"), oracle.Group("service:db"), oracle.Load(5))}
		if got := summary(plan(rows, movers(web, anyTask("db")))); got != "d: b > c, t: a > b" {
			t.Errorf("with policy %q the moves are %q", policy, got)
		}
	}
}

// The watch notices that a task of another owner closes a domain, and that it opens one, also after more
// changes than there are instances.
func TestWatchNoticesThatOthersCloseADomain(t *testing.T) {
	for _, changes := range []int{1, 20} {
		rows := []state.Row{oracle.Instance("a", in("1")), oracle.Instance("b", in("1")), oracle.Instance("c", in("2")),
			oracle.Task("t1", "a"), oracle.Task("t2", "b")}
		s := oracle.SnapshotOf(append(rows, db("d", "c"))...)
		p, m := moves.NewPlanner(placement.New(s)), movers(
			constrained(t, "not(task:group == service:db)", cluster.PolicyDifference))
		if !p.FindsNothing(m) {
			t.Fatalf("nothing is broken at first, but %+v", p.Violations(m))
		}
		for range changes {
			s.Put(db("e", "a"))
			s.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(db("e", "a")), Old: db("e", "a")})
		}
		s.ApplyRecord(state.Record{Op: state.Remove, Key: state.KeyOf(db("d", "c")), Old: db("d", "c")})
		if p.FindsNothing(m) {
			t.Error("it finds nothing, although domain 2 has no task")
		}
		s.Put(db("d", "c"))
		if !p.FindsNothing(m) {
			t.Errorf("it finds something, although domain 2 is closed: %+v", p.Violations(m))
		}
	}
}

// A violation without moves is planned again once a task of another owner opens an instance.
func TestWatchNoticesThatOthersOpenAnInstance(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 5)), oracle.Instance("b", oracle.Metric("m", 10)),
		oracle.Task("t", "a", oracle.Load(6)))
	p, m := moves.NewPlanner(placement.New(s)), movers(constrained(t, "task:group == service:db", ""))
	first := p.PlanMoves(m)
	expectMoves(t, first, "")
	if p.PlanMoves(m) != first {
		t.Error("the plan is made again, although nothing has changed")
	}
	s.Put(db("d", "b"))
	expectMoves(t, p.PlanMoves(m), "t: a > b")
}
