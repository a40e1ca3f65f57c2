package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement/rebalance"
	"berth/shared/spelling"
)

// whatifAnswer is where the tasks of a question would go.
type whatifAnswer struct {
	Explained string
	Unplaced  int
	Placed    int
	Warnings  []string
	Map       *clusterMap
	Command   string
}

// showWhatif shows a form, and the answer to what it asks, drawn on the map.
func showWhatif(_ *http.Request, v *view) error {
	v.Title = "What if"
	body := map[string]any{"Services": slices.Sorted(maps.Keys(v.Snapshot.Services))}
	v.Body = body
	if !isAsked(v) {
		if name := v.Given("service"); name != "" {
			if _, err := findService(v, name); err != nil {
				body["Wrong"] = err.Error()
			}
		}
		return nil
	}
	v.Still = true // the answer must not change while it is read
	question, err := readQuestion(v)
	if err == nil {
		var answer *whatif.Answer
		if answer, err = whatif.Ask(v.Snapshot, question); err == nil {
			body["Answer"] = newWhatifAnswer(v, question, answer)
			return nil
		}
	}
	body["Wrong"] = err.Error()
	return nil
}

// isAsked reports whether a link or the form asks something. A service alone is only chosen in the form.
func isAsked(v *view) bool {
	return slices.ContainsFunc([]string{"count", "cpu", "memory", "gpus", "expression", "distinct"}, v.Query.Has)
}

// The bounds of what a form may ask for. No instance is larger.
const (
	maxQuestionTasks  = 1000
	maxQuestionUnits  = 10_000_000
	maxQuestionMiB    = 100_000_000
	maxQuestionDevice = 1024
)

// readQuestion reads the form. Errors name the field. Without a count it is about one task, as in the
// empty form.
func readQuestion(v *view) (*whatif.Question, error) {
	q := &whatif.Question{Service: v.Given("service"), Count: 1}
	for _, field := range []struct {
		name, label string
		most        int64
		set         func(n int64)
	}{
		{"count", "Tasks", maxQuestionTasks, func(n int64) { q.Count = int(n) }},
		{"cpu", "CPU units", maxQuestionUnits, func(n int64) { q.Needs.CPU = n * cluster.CPUUnit }},
		{"memory", "Memory", maxQuestionMiB, func(n int64) { q.Needs.Memory = n }},
		{"gpus", "GPUs", maxQuestionDevice, func(n int64) { q.Needs.GPUs = int(n) }},
	} {
		if field.name == "count" && !v.Query.Has("count") {
			continue
		}
		text := cmp.Or(v.Given(field.name), "0")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > field.most || field.name == "count" && n == 0 {
			return nil, fmt.Errorf("%s is %q, expected a number up to %d", field.label, text, field.most)
		}
		field.set(n)
	}
	switch {
	case q.IsEmpty():
		return nil, fmt.Errorf("nothing is asked, expected a service, or CPU units, memory or GPUs of each task")
	case q.Service != "" && q.Needs != (cluster.Resources{}):
		return nil, fmt.Errorf("a service and a size are given, expected one of them: tasks of %s have its size",
			q.Service)
	}
	if text := v.Given("expression"); text != "" {
		if _, err := constraint.ParseQuery(text); err != nil {
			return nil, fmt.Errorf("the constraint is %q, expected an expression: %w", text, err)
		}
		q.Rules.Constraints = append(q.Rules.Constraints,
			cluster.PlacementConstraint{Type: cluster.MemberOf, Expression: text})
	}
	if v.Given("distinct") != "" {
		q.Rules.Constraints = append(q.Rules.Constraints, cluster.PlacementConstraint{Type: cluster.DistinctInstance})
	}
	return q, nil
}

// newWhatifAnswer draws the answer: instances that would get tasks stand out on the map, and begin
// the table below it.
func newWhatifAnswer(v *view, q *whatif.Question, answer *whatif.Answer) *whatifAnswer {
	out := &whatifAnswer{Explained: printed(answer.Print), Unplaced: answer.Unplaced, Placed: len(answer.Placed),
		Command: whatifCommand(v, q)}
	for _, unknown := range spelling.NewNames(v.Snapshot).CheckRules(q.Rules, nil) {
		out.Warnings = append(out.Warnings, unknown.String())
	}
	tasks := map[string]int{}
	for _, p := range answer.Placed {
		tasks[p.Instance]++
	}
	items := listing.Instances(v.Snapshot)
	out.Map = newClusterMap(v, axesOf(items), items, tasks)
	slices.SortStableFunc(items, func(a, b listing.Instance) int { return cmp.Compare(tasks[b.ID], tasks[a.ID]) })
	out.Map.Table = cut(v, "/console/whatif", items)
	return out
}

// whatifCommand returns the command that asks the same.
func whatifCommand(v *view, q *whatif.Question) string {
	out := []string{"--count", strconv.Itoa(q.Count)}
	add := func(is bool, flag string, value any) {
		if is {
			out = append(out, flag, fmt.Sprint(value))
		}
	}
	add(q.Service != "", "--service", q.Service)
	add(q.Needs.CPU > 0, "--cpu", q.Needs.CPU/cluster.CPUUnit)
	add(q.Needs.Memory > 0, "--memory", q.Needs.Memory)
	add(q.Needs.GPUs > 0, "--gpus", q.Needs.GPUs)
	for _, c := range q.Rules.Constraints {
		if add(c.Type == cluster.MemberOf, "--member-of", c.Expression); c.Type == cluster.DistinctInstance {
			out = append(out, "--distinct")
		}
	}
	return command("berth whatif", append(out, "--cluster", v.Cluster)...)
}

// The bounds of a search for moves that a page waits for. The search of Berth itself may be longer.
const (
	searchSteps = 200_000
	searchTime  = 2 * time.Second
)

// showRebalancing shows how far the cluster is from being balanced and, if asked for, the moves
// that would bring it nearer.
func showRebalancing(_ *http.Request, v *view) error {
	v.Title = "Rebalancing"
	planned := v.Query.Has("plan")
	v.Still = planned
	answer := &whatif.BalanceAnswer{}
	var old time.Time // when the plan was made, if the cluster has changed since
	if planned {
		begin := time.Now()
		used := func() float64 { return float64(time.Since(begin)) / float64(searchTime) }
		plan, err := v.Balance.planMoves(v.World, whatif.BalanceSearch{Seed: 1, Now: v.World.Now,
			Budget: rebalance.Budget{Steps: searchSteps, Used: used}})
		if err != nil {
			return err
		}
		if answer = plan.answer; plan.generation != v.Generation {
			old, v.Generation = plan.of, plan.generation
		}
	} else {
		// A page with an older measure is of an older generation, so it gets the change.
		answer.Before, v.Generation = v.Balance.measure(v.World)
		answer.After = answer.Before
	}
	conf := &v.Snapshot.Configuration
	body := map[string]any{"Plan": answer, "Planned": planned, "Moving": whatif.MovingCount(v.Snapshot),
		"Enabled": conf.Rebalances(), "Old": old,
		"Figure":  answer.Figure(planned),
		"Command": command("berth rebalance", "--dry-run", "--cluster", v.Cluster)}
	if planned {
		body["Moves"] = cut(v, "/console/rebalancing", answer.Moves)
		if before := answer.Before.Distance; before > 0 {
			body["Gain"] = fmt.Sprintf("%.0f %%", 100*(before-answer.After.Distance)/before)
		}
	}
	v.Body = body
	return nil
}
